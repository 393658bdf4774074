/* The learning rate of each update. */
#ifndef TRAIN_LEARNING_RATE_H
#define TRAIN_LEARNING_RATE_H

#include "setup/setup.h"

/* Learning rate of update number `update` (from 0). Under schedule.rule "recipe" and "nemo" n = update (under "recipe"
 * the first update then has rate 0), under "megatron" n = update + 1. With w = schedule.warmup, h = w +
 * schedule.hold, d = schedule.decay (train.steps - h where that is 0), r = schedule.min_ratio and the peak
 * optimizer.lr, the rate is the peak times
 *
 * - n / w for n <= w, unless w is 0; under "nemo" (n + 1) / (w + 1);
 *
 * - 1 for w < n < h;
 *
 * - r for n > h + d;
 *
 * - between, for "cosine": r + (1 - r) (1 + cos(pi (n - h) / d)) / 2;
 *
 * - between, for "linear": 1 - (1 - r) (n - h) / d;
 *
 * - 1 from w on, for "constant".
 *
 * With schedule.unit = "samples" n, w, h and d count rows: each update is train.global_batch of them, and so is each 1
 * that is added above.
 *
 * Sources: the schedulers of the BioNeMo llama3 (cosine) and esm2 (linear) recipes; Megatron-LM's warm-up, and its
 * schedules in samples; NeMo's warm-up. */
double learning_rate_at(const struct learning_rate_settings *settings, int64_t update);

/* The same of the peak optimizer.decoupled_lr and r = schedule.decoupled_min_ratio. */
double learning_rate_decoupled_at(const struct learning_rate_settings *settings, int64_t update);

#endif
