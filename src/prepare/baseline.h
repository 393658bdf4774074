/* What a loss is worth: count models, the references of the validation loss. Their symbols are the bases A C G T, or,
 * of tokenizers without bases, all ids that are not special; anything else ends a context, as a sequence's end does. */
#ifndef PREPARE_BASELINE_H
#define PREPARE_BASELINE_H

#include "data/token_store.h"

/* The highest order for stores of that tokenizer: what takes about half a gigabyte. */
int baseline_max_order(const struct tokenizer *tokenizer);

/* A count model of fixed order, p(symbol | k symbols before it) = (n(context, symbol) + 1) / (n(context) + S): add-one
 * (Laplace) smoothing over the S symbols, counts from store `train`. A symbol with fewer than k symbols before it uses
 * the order it has. The case of bases is ignored. Evaluates every symbol of store `valid` once: mean negative log
 * likelihood in nats per symbol, and the number of symbols. Not collective. User errors: stores of different
 * tokenizers, an order out of 0 .. baseline_max_order, no symbol at all. */
int baseline_evaluate(const struct token_store *train, const struct token_store *valid, int64_t order, double *nats,
                      int64_t *symbols);

/* What the model of order 0 expects of masking (loader/masking.h) at the selected symbols, if it knows the rule and
 * sees what stands there now: p(symbol | seen) is proportional to p(symbol) times masking_likelihood. A symbol that was
 * kept is seen, so this is less than the loss of order 0, and what a masked model reaches that looks at no other token.
 * The mean over all that masking may draw, not of one draw. For tokenizers with a mask token. */
int baseline_masked(const struct token_store *train, const struct token_store *valid, double *nats, int64_t *symbols);

/* As baseline_evaluate, of a model that knows what else is in the sequence, but not where: p(symbol) = (n + A q) / (N +
 * A), n among the N other symbols of its sequence and q in `train`, as the model of order 0 has it, A = BASELINE_PRIOR.
 * It is what a masked model reaches that looks at a protein's composition alone. */
enum { BASELINE_PRIOR = 100 };
int baseline_composition(const struct token_store *train, const struct token_store *valid, double *nats,
                         int64_t *symbols);

#endif
