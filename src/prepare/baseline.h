/* Count models: references for the validation loss. Their symbols are the bases A C G T, or for tokenizers without
 * bases all ids that are not special. Any other token ends a context, as the end of a sequence does. */
#ifndef PREPARE_BASELINE_H
#define PREPARE_BASELINE_H

#include "data/token_store.h"

/* Returns the highest order for stores of this tokenizer (prepare/count_table.h). */
int baseline_max_order(const struct tokenizer *tokenizer);

/* Evaluates a count model of fixed order k, p(symbol | previous k symbols) =
 * (n(context, symbol) + 1) / (n(context) + S): add-one (Laplace) smoothing over the S symbols, with counts from store
 * `train`. A symbol with fewer than k symbols before it uses the order that it has. The case of bases is ignored.
 * *nats: mean negative log likelihood per symbol, over all symbols of store `valid`; *symbols: their number. Not
 * collective. ERROR_USER: stores of different tokenizers, an order outside 0 .. baseline_max_order, no symbols. */
int baseline_evaluate(const struct token_store *train, const struct token_store *valid, int64_t order, double *nats,
                      int64_t *symbols);

/* Computes the expected loss, at the tokens that masking selects (loader/masking.h), of an order-0 model that knows the
 * masking rule and sees the token at that position: p(symbol | seen) is proportional to p(symbol) times
 * masking_likelihood. It is the loss of a masked model that ignores all other tokens, and lower than the loss of order
 * 0, since unchanged symbols are visible. The expectation is over all random choices of masking. For tokenizers with a
 * mask token. */
int baseline_masked(const struct token_store *train, const struct token_store *valid, double *nats, int64_t *symbols);

/* As baseline_evaluate, for a model that knows the other symbols of the sequence, but not their order:
 * p(symbol) = (n + A q) / (N + A). n counts the symbol among the N other symbols of its sequence, q is its order-0
 * probability in `train`, A = BASELINE_PRIOR. It is the loss of a masked model that uses only a protein's
 * composition. */
enum { BASELINE_PRIOR = 100 };
int baseline_composition(const struct token_store *train, const struct token_store *valid, double *nats,
                         int64_t *symbols);

#endif
