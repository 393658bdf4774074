/* The learning rate of each update. */
#ifndef TRAIN_LEARNING_RATE_H
#define TRAIN_LEARNING_RATE_H

#include "setup/setup.h"

/* Returns the learning rate of update number `update` (from 0). With schedule.rule "recipe" and "nemo" n = update (with
 * "recipe" the first update then has rate 0), with "megatron" n = update + 1. Let w = schedule.warmup, h = w +
 * schedule.hold, d = schedule.decay (0: train.steps - h), and r = schedule.min_ratio. The rate is the peak,
 * optimizer.lr, times
 *
 *   n / w                                        for n <= w, unless w is 0; with "nemo" (n + 1) / (w + 1)
 *   1                                            for w < n < h
 *   r + (1 - r) (1 + cos(pi (n - h) / d)) / 2    for h <= n <= h + d, "cosine"
 *   1 - (1 - r) (n - h) / d                      for h <= n <= h + d, "linear"
 *   r                                            for n > h + d
 *   1                                            for all n after the warm-up, "constant"
 *
 * With schedule.unit = "samples" n, w, h and d count rows: an update has train.global_batch rows, and each 1 that is
 * added above becomes train.global_batch too.
 *
 * Sources: the schedulers of the BioNeMo llama3 (cosine) and esm2 (linear) recipes; Megatron-LM's warm-up, and its
 * schedules in samples; NeMo's warm-up. */
double learning_rate_at(const struct learning_rate_settings *settings, int64_t update);

/* As learning_rate_at, with the peak optimizer.decoupled_lr and r = schedule.decoupled_min_ratio. */
double learning_rate_decoupled_at(const struct learning_rate_settings *settings, int64_t update);

#endif
