/* Scores of variants, zero-shot: how much likelier or unlikelier a model finds a changed sequence. Nats.
 *
 * Masked models; x is the record, M a variant's changed positions, mt and wt the new and the old letter of a position:
 *
 *    masked-marginals       sum over i in M of log p(mt_i) - log p(wt_i), where position i alone is masked in x
 *    masked-together        the same, where all positions of M are masked in x at once
 *    wt-marginals           the same, where nothing is masked in x
 *    pseudo-log-likelihood  sum over all positions i of the changed sequence of log p(letter i), where i alone is
 *                           masked
 *    pseudo-perplexity      exp(-pseudo-log-likelihood / number of letters)
 *
 * Causal models:
 *
 *    log-likelihood-ratio   log p(changed sequence) - log p(x), in the window of the change; with both strands the mean
 *                           of this and that of the reverse complements
 *
 * Windows are those of infer/site_window.h; every window of a masked model has BOS and EOS, that of a causal model BOS
 * if the model was trained with it, which is also the condition for scoring the first letter of a window. */
#ifndef INFER_VARIANT_SCORE_H
#define INFER_VARIANT_SCORE_H

#include "infer/sites.h"
#include "infer/variants.h"

enum score_method {
    SCORE_MASKED_MARGINALS,
    SCORE_MASKED_TOGETHER,
    SCORE_WT_MARGINALS,
    SCORE_PSEUDO_LOG_LIKELIHOOD,
    SCORE_PSEUDO_PERPLEXITY,
    SCORE_LOG_LIKELIHOOD_RATIO,
    SCORE_METHODS
};
extern const char *const score_method_names[SCORE_METHODS];

/* Returns whether the method is for masked models; the others are for causal ones. */
static inline bool score_method_masked(enum score_method method)
{
    return method != SCORE_LOG_LIKELIHOOD_RATIO;
}

struct variant_scoring {
    enum score_method methods[SCORE_METHODS]; /* [count], each at most once */
    int count;
    struct site_tokens tokens; /* on rank 0 only */
    bool both_strands;         /* for tokenizers with bases */
    bool positions;            /* compute the sites of all letters of the records, not only those of variants */
};

/* Checks on rank 0 that the methods apply to all variants. ERROR_USER: a variant changes the length, and a method
 * cannot score it; its changes do not fit into one window. */
int variant_score_check(const struct variant_scoring *scoring, const struct variant_list *variants);
/* Returns an upper bound of the number of sequences of a pass over the model (forward_run), of which methods make one
 * or two. Rank 0. */
int64_t variant_score_items(const struct variant_scoring *scoring, const struct variant_list *variants);

/* Computes the scores; scores: [scoring->count][variants->count] on rank 0. variants (NULL: none, for positions alone)
 * and scores are used on rank 0 only, scoring->methods, count, both_strands and positions on all ranks. With positions,
 * *sites are the sites of the first method: masked (masked-*, pseudo-*), visible (wt-marginals) or causal; the caller
 * calls sites_destroy in any case. Collective; an agreed code, as of forward_run. */
int variant_score(struct forward_pass *forward, const struct variant_scoring *scoring,
                  const struct variant_list *variants, double *const *scores, struct site_logits *sites);

#endif
