/* Delayed scaling: the scale of an operand comes from its largest magnitudes (amaxes) in earlier steps, so the pass
 * that makes the operand can also quantize it. Each operand of each linear layer has an amax of this step, a history
 * and a scale, numbered by operand_number (model/linear.h), quantized or not: so the shapes do not depend on which
 * layers are quantized. All ranks have the same numbers. */
#ifndef ENGINE_DELAYED_SCALING_H
#define ENGINE_DELAYED_SCALING_H

#include "model/model.h"
#include "store/budget.h"

struct delayed_scaling {
    struct tensor amax;    /* stat [operands, 1]: largest magnitude of this step so far; 0: not used yet */
    struct tensor history; /* stat [operands, precision.history], the latest step first */
    struct tensor scale;   /* stat [operands, 1] */
    struct tensor largest; /* stat [operands, 1]: the largest number of the operand's format / 2^margin */
    bool latest;           /* as precision.latest */
    bool restored;         /* histories and scales came from a checkpoint */
};

/* Returns the bytes of a checkpoint's delayed scaling state; 0 if no linear uses delayed scaling. */
int64_t delayed_scaling_bytes(const struct model_settings *settings);

/* Makes the state, with scales 1 and empty histories; absent tensors if no linear of the model uses delayed scaling. */
void delayed_scaling_create(struct delayed_scaling *scaling, const struct model_settings *settings,
                            struct budget *budget, enum dtype statistic, struct stream *stream);
bool delayed_scaling_present(const struct delayed_scaling *scaling);

/* Replaces the amaxes by their maximum over the group. Collective over it. */
void delayed_scaling_share(const struct delayed_scaling *scaling, struct group *group, struct stream *stream);
/* Ends a step: adds the amaxes to the histories and computes the scales. */
void delayed_scaling_update(const struct delayed_scaling *scaling, struct stream *stream);
/* Sets this step's amaxes to 0, as at the start of a step. */
void delayed_scaling_restart(const struct delayed_scaling *scaling, struct stream *stream);

/* Save and restore the state for a resumed training; the scaling must be present. fetch copies history, scale and
 * largest to host memory, which delayed_scaling_host_destroy frees, and waits for the stream. put sets the scaling's
 * history and scale from such a copy. Local. */
struct delayed_scaling delayed_scaling_fetch(const struct delayed_scaling *scaling, struct stream *stream);
void delayed_scaling_put(struct delayed_scaling *scaling, const struct delayed_scaling *host, struct stream *stream);
void delayed_scaling_host_destroy(struct delayed_scaling *host);

#endif
