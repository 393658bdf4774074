/* The learning rate of each update. */
#ifndef STEP_LEARNING_RATE_H
#define STEP_LEARNING_RATE_H

#include "deck/deck.h"

/* Learning rate of update number `update` (from 0), with n = update under schedule.rule "recipe" (the first update
 * then has rate 0) and n = update + 1 under "megatron", w = schedule.warmup, d = schedule.decay (train.steps - w where
 * 0) and r = schedule.min_ratio: n <= w (w > 0)   lr n / w n > w + d        lr r cosine           lr (r + (1 - r) (1 +
 * cos(pi (n - w) / d)) / 2) linear           lr (1 - (1 - r) (n - w) / d) constant         lr Sources: the schedulers
 * of the BioNeMo llama3 (cosine) and esm2 (linear) recipes; Megatron-LM's warm-up. */
double learning_rate_at(const struct deck *deck, int64_t update);

#endif
