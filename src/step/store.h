/* Weight stores: who holds weights, gradients and moments, and when they move. Units see addresses between acquire and
 * release (weights), and between open and close (gradients). Nothing here blocks the host. */
#ifndef STEP_STORE_H
#define STEP_STORE_H

#include "model/model.h"
#include "step/budget.h"
#include "step/master.h"

/* What this rank holds of a unit's flat buffer: elements first .. first + count - 1, which the optimizer updates and a
 * checkpoint holds. All [1, count]. */
struct shard {
    int64_t first;
    int holder, holders;  /* as many ranks hold the same elements; this one is number `holder` of them */
    struct master weight; /* its values are what units compute with */
    struct tensor gradient;
    struct tensor m, v; /* these and the gradient are absent where nothing is trained */
};

struct store {
    const struct store_class *class;
    void *self;
};

struct store_class {
    const char *name;
    /* Start what acquire will wait for. */
    void (*prefetch)(struct store *store, struct unit *unit);
    /* From here on in the stream the unit's weight_base is valid. */
    void (*acquire)(struct store *store, struct unit *unit, struct stream *stream);
    void (*release)(struct store *store, struct unit *unit, struct stream *stream);
    /* Sets gradient_base and gradient_fresh. */
    void (*gradients_open)(struct store *store, struct unit *unit, struct stream *stream, bool fresh);
    /* last: no more is added in this step, so the sum over the data group may start: when it is next told to. */
    void (*gradients_close)(struct store *store, struct unit *unit, struct stream *stream, bool last);
    /* Transfers that wait start here in the stream: a unit says that its next work leaves them room (unit.h). */
    void (*start_transfers)(struct store *store, struct stream *stream);
    /* From here on in the stream the unit's gradients are complete. Transfers that still wait start. */
    void (*gradients_wait)(struct store *store, struct unit *unit, struct stream *stream);
    struct shard (*shard)(struct store *store, struct unit *unit, enum storage storage);
    void (*destroy)(struct store *store);
};

/* Every rank holds everything; gradients are summed over the data group unit by unit on the communication stream, while
 * backward goes on. Allocates from the budget. Weights are zero until written. trains: false leaves gradients and
 * moments out; then gradients are never opened. */
struct store *store_create_replicated(struct model *model, struct budget *budget, struct stream *communication,
                                      struct group *data_group, enum dtype compute, enum dtype statistic, bool trains);

#endif
