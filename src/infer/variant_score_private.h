/* Declarations shared by the files that score variants, of which each method has one. */
#ifndef INFER_VARIANT_SCORE_PRIVATE_H
#define INFER_VARIANT_SCORE_PRIVATE_H

#include "infer/site_window.h"
#include "infer/variant_score.h"

/* Returns the number of the method's column; -1: it was not requested. */
int score_column(const struct variant_scoring *s, enum score_method method);

const struct variant_edit *variant_edits(const struct variant_list *v, const struct sequence_variant *variant);
/* Returns by how many letters a variant lengthens its record; negative: shortens. */
int64_t variant_growth(const struct variant_list *v, const struct sequence_variant *variant);

/* The letters of a record in which a variant is scored. */
struct variant_window {
    int64_t first, count; /* first: -1 where the changes do not fit into a window */
};

/* Returns a variant's window. room: letters of a full window. */
struct variant_window variant_window_of(const struct variant_list *v, const struct sequence_variant *variant,
                                        int64_t room);
/* Writes the letters first .. first + count - 1 of the record with the variant's changes, which are among them; returns
 * their number. letters: [count + growth]. */
int64_t variant_apply(const struct variant_list *v, const struct sequence_variant *variant,
                      struct variant_window window, uint8_t *letters);

/* Compute the scores of the methods masked-together, pseudo-* and log-likelihood-ratio, as variant_score. */
int variant_score_together(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                           double *const *scores);
int variant_score_pseudo(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                         double *const *scores);
int variant_score_ratios(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                         double *const *scores);

#endif
