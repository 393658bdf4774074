/* The rows of a micro-batch that the head computes in masked training, where about one token in seven has a label, and
 * in fine-tuning of a head for sequences, where each segment has one. Rows without a label add nothing to losses and
 * gradients, so the head works on a compact matrix of the labelled rows.
 *
 * The number of compact rows decides shapes of launches, which CUDA graphs fix. It is therefore the same in nearly
 * every step: a capacity that random masks exceed about once in 10^9 micro-batches, or the number of segments. A
 * micro-batch with more labels has as many compact rows as tokens.
 *
 * Tensor ranks with sequence parallelism each have one of several equal parts of the tokens, in order, and all have the
 * same number of compact rows. */
#ifndef DATA_LABELLED_ROWS_H
#define DATA_LABELLED_ROWS_H

#include <stdint.h>

/* Returns the capacity for `tokens` tokens of which each has a label with this probability, independently, or has none:
 * the expected number of labels plus six standard deviations, rounded up to a multiple of 16, and at most `tokens`. */
int64_t labelled_rows_capacity(int64_t tokens, double probability);

/* Returns the capacity for at most `labels` labels: rounded up to a multiple of 16, and at most `tokens`. */
int64_t labelled_rows_most(int64_t tokens, int64_t labels);

/* Tables of a part of P tokens, for n compact rows. */
struct labelled_rows {
    int32_t *rows;   /* [n] the token of each compact row, ascending; token 0 in the rows that are left over */
    int32_t *places; /* [P] the compact row of each token; n for a token without a label */
    int32_t *labels; /* [parts * n] labels of the compact rows of all parts, in order of the parts */
    float *factors;  /* [P] for labelled_rows_average; else unused */
};

/* Fills the tables of part number `part` of `parts`, from labels[tokens]; tokens is a multiple of parts. Returns n: the
 * capacity of a part, or P if a part has more labels. The arrays must have room for n = P. */
int64_t labelled_rows_select(const struct labelled_rows *to, const int32_t *labels, int64_t tokens, int parts, int part,
                             int64_t capacity);

/* Fills places, labels and factors so that each segment with labelled tokens has one compact row, their mean: factors
 * is 1 / their number, and 0 at other tokens. All labelled tokens of a segment have the same label. start and length
 * are of `segments` slots (data/batch.h), of which at most `capacity` have labels. The arrays have capacity labels. */
void labelled_rows_average(const struct labelled_rows *to, const int32_t *labels, int64_t tokens, const int32_t *start,
                           const int32_t *length, int64_t segments, int64_t capacity);

#endif
