/* Runs many short sequences (items) through a model and returns the logits of some of their tokens, for scores of
 * variants. Rank 0 makes the items and consumes the results; every team of ranks computes.
 *
 * Items are packed into batches in the order in which rank 0 makes them, as many whole items as fit. Every batch has
 * the same number of tokens (padding fills it) and does not depend on the number of ranks: so the GEMMs have one shape,
 * and an item's result does not depend on the other items of its batch, nor on the ranks. */
#ifndef INFER_FORWARD_H
#define INFER_FORWARD_H

#include "infer/inference.h"

#include <stdbool.h>
#include <stdint.h>

/* A sequence that is computed. Its arrays belong to the source and are valid until the next call of `next`. */
struct forward_item {
    const int32_t *tokens; /* [count], special tokens included */
    int64_t count;         /* 1 to the shape's longest */
    const int32_t *rows;   /* [wanted] indices of tokens whose logits are requested */
    /* [wanted] with FORWARD_TARGETS: the token of which row i gives the log-probability */
    const int32_t *targets;
    int64_t wanted;
};

/* FORWARD_LOGITS returns rows of logits; FORWARD_TARGETS the log-probability of one token of each row. */
enum forward_result { FORWARD_LOGITS, FORWARD_TARGETS };

/* The functions that make items and consume results; used on rank 0 only. */
struct forward_source {
    void *self;
    bool (*next)(void *self, struct forward_item *item); /* returns false after the last item */
    /* Called once per item, in the order of `next`, with the item's `wanted`. values: FORWARD_LOGITS f32 [wanted,
     * vocabulary]; FORWARD_TARGETS f64 [wanted], nats. */
    void (*take)(void *self, const void *values, int64_t wanted);
    int64_t items; /* number of items that `next` will make, for progress (base/progress.h) */
};

struct forward_pass {
    struct inference *inference;  /* borrowed, started for MEMORY_LOGITS */
    int64_t batch_tokens, items;  /* tokens of each batch, and its maximum number of items */
    int64_t computed, sequences;  /* tokens and items so far, without padding; rank 0 */
    struct forward_rounds *round; /* buffers */
};

/* Allocates the buffers for batches of inference->shape.tokens and inference->shape.segments. Local. */
void forward_create(struct forward_pass *forward, struct inference *inference);
void forward_destroy(struct forward_pass *forward);

/* Computes all items of the source. `source` is used on rank 0 only. Collective over the world; an agreed code.
 * ERROR_DIVERGED: a logit is not finite. */
int forward_run(struct forward_pass *forward, enum forward_result result, const struct forward_source *source);

/* Returns the logarithm of the sum of the exponentials of logits[vocabulary]. */
double forward_log_sum(const float *logits, int64_t vocabulary);

#endif
