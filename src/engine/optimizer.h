/* Gradient clipping, and the updates of AdamW and Muon (engine/muon.h) on a store's shards. */
#ifndef ENGINE_OPTIMIZER_H
#define ENGINE_OPTIMIZER_H

#include "engine/muon.h"

struct optimizer_settings {
    double beta1, beta2, eps, weight_decay, clip; /* clip: maximum gradient norm; 0 = none */
    bool decoupled;                               /* embedding and head have a learning rate of their own */
    struct muon_settings muon;                    /* of units with Muon (model/unit.h) */
};

struct optimizer {
    struct optimizer_settings settings;
    struct tensor squares;     /* f64 [1, optimizer_squares()] */
    int64_t runs;              /* maximum number of runs of a storage class (optimizer_squares) */
    double squares_quantum;    /* 0, or the quantum of exact sums of squares (struct sum_squares_args) */
    struct tensor scale, norm; /* statistic [1, 1] */
    struct tensor steps[2];    /* statistic [1, ADAMW_STEP_COUNT]; the host writes the learning rates. [1] is for
                                  `decoupled` weights (model/unit.h), and absent without any */
    struct tensor updates;     /* f64 [1, 1]: updates so far, over all runs of this training */
    struct muon muon;          /* made by the engine when there is a store */
};

/* Returns the length of `squares`: optimizer->runs sums for each unit and storage class, of SQUARES_PARTS numbers each
 * if squares_quantum is nonzero. Parameters that another tensor rank measures divide a storage class into runs. */
int64_t optimizer_squares(const struct model *model, double squares_quantum);

/* Makes an optimizer. squares: f64 [1, optimizer_squares], borrowed; zero when a step starts. */
void optimizer_create(struct optimizer *optimizer, const struct optimizer_settings *settings, const struct model *model,
                      struct tensor squares, double squares_quantum, struct budget *budget, enum dtype statistic);

/* Adds the squares of a unit's gradients to `squares`. The gradients must be complete (summed over all labels of the
 * step). If several ranks or two stages own the same elements, only one of them measures these, so the sum over ranks
 * is that of the whole gradient. */
void optimizer_measure(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                       struct stream *stream);

/* For a planning executor: requests the most scratch that optimizer_measure needs on any tensor rank, so that all ranks
 * reserve the same. */
void optimizer_plan_measure(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                            struct stream *stream);

/* Computes norm and scale of the gradient, decides whether there is an update, and counts it. Call it when all units
 * are measured and squares are summed over ranks. total: f64 [1, 2], loss sum and number of labels over all ranks. */
void optimizer_scale(struct optimizer *optimizer, struct stream *stream, struct tensor total);

/* Updates a unit's weights with optimizer->steps and the scale; changes nothing if the step is skipped. */
void optimizer_update(struct optimizer *optimizer, struct weight_store *store, struct unit *unit,
                      struct stream *stream);

#endif
