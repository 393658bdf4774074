/* Clipping and AdamW over a store's shards. */
#ifndef STEP_OPTIMIZER_H
#define STEP_OPTIMIZER_H

#include "step/store.h"

struct optimizer_settings {
    double beta1, beta2, eps, weight_decay, clip; /* clip: largest gradient norm; 0 = none */
};

struct optimizer {
    struct optimizer_settings settings;
    struct tensor squares;     /* f64 [1, units * STORAGE_COUNT] */
    struct tensor scale, norm; /* statistic [1, 1] */
    struct tensor step;        /* statistic [1, ADAMW_STEP_COUNT], on the device */
    struct tensor step_host;   /* the same, on the host */
};

void optimizer_create(struct optimizer *optimizer, const struct optimizer_settings *settings, struct model *model,
                      struct budget *budget, enum dtype statistic);
void optimizer_destroy(struct optimizer *optimizer);

/* One update: gradients are the sum over all labels of the step, total = {sum of losses, labels}, both summed over all
 * ranks already. update: 1 for the first one. */
void optimizer_run(struct optimizer *optimizer, struct store *store, struct model *model, struct stream *stream,
                   struct tensor total, double learning_rate, int64_t update);

#endif
