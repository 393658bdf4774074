/* Finds which keys to change in a deck that does not fit into memory. */
#ifndef ESTIMATE_FIT_ADVICE_H
#define ESTIMATE_FIT_ADVICE_H

#include "core/launch.h"
#include "setup/setup.h"

enum { FIT_TEXT = 512, FIT_LEAST_SLICE = 64 /* tokens of the smallest slice of a head */ };

/* Writes to out[FIT_TEXT] which keys to change so that a rank needs at most `limit` bytes, as fit_check
 * (estimate/fit.h) describes. Local. */
void fit_advise(char *out, int64_t limit, const struct setup *setup, struct executor *target);

/* Returns the bytes of weights, gradients and moments in memory[BUDGET_CATEGORIES]. */
int64_t fit_state(const int64_t *memory);

#endif
