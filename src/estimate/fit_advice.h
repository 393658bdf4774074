/* What to change in a deck that does not fit. */
#ifndef ESTIMATE_FIT_ADVICE_H
#define ESTIMATE_FIT_ADVICE_H

#include "core/launch.h"
#include "setup/setup.h"

enum { FIT_TEXT = 512, FIT_LEAST_CHUNK = 64 /* tokens of the smallest chunk of a head */ };

/* Writes to out[FIT_TEXT] what to change where a rank may use at most `limit` bytes; fit_check says how it is found.
 * Local. */
void fit_advise(char *out, int64_t limit, const struct setup *setup, struct executor *target);

/* Bytes of weights, gradients and moments, of what a forecast needs by category. */
int64_t fit_state(const int64_t *memory);

#endif
