/* What a loss is worth: count models of fixed order, the references of the validation loss.
 * p(base | k bases before it) = (n(context, base) + 1) / (n(context) + 4): add-one (Laplace) smoothing over A C G T,
 * counts from the training store. Case is ignored; anything but a base ends the context, as a sequence's end does. A
 * base with fewer than k bases before it uses the order it has. */
#ifndef DATA_BASELINE_H
#define DATA_BASELINE_H

#include <stdint.h>

enum { BASELINE_MAX_ORDER = 12 };

/* Fits on store `train` and evaluates every base of store `valid` once: mean negative log likelihood in nats per base,
 * and the number of bases. Not collective. 4^(order + 1) * 32 / 3 bytes of memory. User errors: those of
 * token_store_open, stores that do not hold nucleotides, an order out of 0 .. BASELINE_MAX_ORDER, no base at all. */
int baseline_evaluate(const char *train, const char *valid, int order, double *nats, int64_t *bases);

#endif
