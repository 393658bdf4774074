/* Clipping and AdamW over a store's shards. */
#ifndef ENGINE_OPTIMIZER_H
#define ENGINE_OPTIMIZER_H

#include "store/store.h"

struct optimizer_settings {
    double beta1, beta2, eps, weight_decay, clip; /* clip: largest gradient norm; 0 = none */
    bool decoupled;                               /* some units' matrices have a learning rate of their own */
};

struct optimizer {
    struct optimizer_settings settings;
    struct tensor squares;     /* f64 [1, optimizer_squares()] */
    int64_t runs;              /* of these, for each unit and storage class */
    double squares_unit;       /* each run is measured in SQUARES_PARTS; 0: in one number */
    struct tensor scale, norm; /* statistic [1, 1] */
    struct tensor steps[2];    /* statistic [1, ADAMW_STEP_COUNT]; the learning rates are the host's to write. [1] is
                                  for what is `decoupled` (model/unit.h), absent where nothing is */
    struct tensor updates;     /* f64 [1, 1]: made so far, over all runs of this training; skipped steps make none */
};

/* How many sums of squares a model's gradient is measured in: one for each unit and storage class, or a few where
 * parameters between others are for other ranks to measure; with a unit (struct sum_squares_args) several times as
 * many. */
int64_t optimizer_squares(const struct model *model, double squares_unit);

/* squares: f64 [1, optimizer_squares], borrowed; zero when a step starts. */
void optimizer_create(struct optimizer *optimizer, const struct optimizer_settings *settings, const struct model *model,
                      struct tensor squares, double squares_unit, struct budget *budget, enum dtype statistic);

/* Adds up the squares of a unit's gradients, which must be complete (summed over all labels of the step). Elements that
 * several ranks hold are measured by one of them, so the sum over ranks is that of the whole gradient; those of units
 * that two stages hold, by the one that computes them. */
void optimizer_measure(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                       struct stream *stream);

/* For a planning executor: needs as much scratch as measuring does on any tensor rank, so that all have the same. */
void optimizer_plan_measure(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                            struct stream *stream);

/* Computes norm and scale of the gradient, decides whether there is an update, and counts it. Before: all units
 * measured, squares summed over ranks. total: f64 [1, 2], sum of losses and number of labels, over all ranks. */
void optimizer_scale(struct optimizer *optimizer, struct stream *stream, struct tensor total);

/* Updates a unit's weights with optimizer->steps and the scale, unless there is to be no update. */
void optimizer_update(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                      struct stream *stream);

#endif
