/* Logits at single letters (sites) of records: where the letter is masked, where it is visible to a masked model, or
 * where a causal model predicts it. */
#ifndef INFER_SITES_H
#define INFER_SITES_H

#include "infer/forward.h"
#include "infer/references.h"

enum site_kind { SITE_MASKED, SITE_VISIBLE, SITE_CAUSAL };

struct variant_site {
    int64_t record, position; /* position: from 0 */
};

struct site_logits {
    struct variant_site *list; /* [count], by record and position */
    int64_t count;
    int64_t vocabulary;
    float *logits;   /* [count, vocabulary]; NaN where there are none: a causal model's first letter without BOS */
    double *log_sum; /* [count] log of the sum of the exponentials of a site's logits */
};

/* How records become windows of tokens. */
struct site_tokens {
    const struct reference_list *references;
    const struct tokenizer *tokenizer;
    int64_t context;   /* tokens of a window, special tokens included */
    bool begins, ends; /* BOS before each window, EOS after it */
};

/* Returns the letters of a full window. */
int64_t site_letters(const struct site_tokens *how);
/* Writes the tokens of letters[count] to tokens[count + 2], with BOS and EOS; returns their number. */
int64_t site_put(const struct site_tokens *how, const uint8_t *letters, int64_t count, int32_t *tokens);

/* Adds a site; sites_sort then sorts them and drops doubles. Local. */
void sites_add(struct site_logits *sites, int64_t *capacity, int64_t record, int64_t position);
void sites_sort(struct site_logits *sites);
/* Computes the logits of all sites. Arguments but `forward` and `kind` are used on rank 0 only. Collective; an agreed
 * code, as of forward_run. */
int sites_compute(struct site_logits *sites, struct forward_pass *forward, enum site_kind kind,
                  const struct site_tokens *how);
/* Returns the index of a site, which must be there. */
int64_t sites_find(const struct site_logits *sites, int64_t record, int64_t position);
/* Returns the log-probability, in nats, of a token at a site. */
double sites_log_probability(const struct site_logits *sites, int64_t site, int32_t token);
void sites_destroy(struct site_logits *sites);

#endif
