/* Delayed scaling: the scale of an operand is made of its largest magnitudes (amaxes) in earlier steps, so copies are
 * made in the same pass that makes the operand. Each operand of each linear layer has an amax of this
 * step, a history and a scale, numbered by operand_number (model/linear.h), whether or not it is quantized: their
 * shapes do not depend on which are. All ranks have the same numbers. */
#ifndef ENGINE_DELAYED_SCALING_H
#define ENGINE_DELAYED_SCALING_H

#include "model/model.h"
#include "store/budget.h"

struct delayed_scaling {
    struct tensor amax;    /* stat [operands, 1]: the largest magnitude of this step so far; 0: not used yet */
    struct tensor history; /* stat [operands, precision.history], the latest step first */
    struct tensor scale;   /* stat [operands, 1] */
    struct tensor largest; /* stat [operands, 1]: the largest number of the operand's format / 2^margin */
    bool latest;           /* as precision.latest */
    bool restored;         /* histories and scales came from a checkpoint */
};

/* Bytes of what a checkpoint holds of it; 0 where no linear has delayed scaling. */
int64_t delayed_scaling_bytes(const struct model_settings *settings);

/* Scales are 1, histories empty. Absent tensors where no linear of the model has delayed scaling. */
void delayed_scaling_create(struct delayed_scaling *scaling, const struct model_settings *settings,
                            struct budget *budget, enum dtype statistic, struct stream *stream);
bool delayed_scaling_present(const struct delayed_scaling *scaling);

/* The amaxes become their maximum over the group. Collective over it. */
void delayed_scaling_share(const struct delayed_scaling *scaling, struct group *group, struct stream *stream);
/* A step ends: amaxes enter the histories, and scales follow. */
void delayed_scaling_update(const struct delayed_scaling *scaling, struct stream *stream);
/* Forgets this step's amaxes. */
void delayed_scaling_restart(const struct delayed_scaling *scaling, struct stream *stream);

/* What a training that goes on needs, of a scaling that is present: history, scale and largest, and copies of them in
 * host memory, which delayed_scaling_host_destroy frees. fetch waits for the stream. put makes the copies' history and
 * scale the scaling's own. Local. */
struct delayed_scaling delayed_scaling_fetch(const struct delayed_scaling *scaling, struct stream *stream);
void delayed_scaling_put(struct delayed_scaling *scaling, const struct delayed_scaling *host, struct stream *stream);
void delayed_scaling_host_destroy(struct delayed_scaling *host);

#endif
