/* Context parallelism: splits rows of tokens over several ranks; each rank has a part of every row.
 *
 * A row of S tokens is 2 c slices of S / 2c tokens (S is a multiple of 2 c). Rank r of c has slices r and 2 c - 1 - r,
 * in this order: its local row, of S / c tokens. This balances the work of a causal mask, where later tokens attend to
 * more keys. Rows are split, not segments: a segment may lie in one slice or in several, and needs no padding. The
 * tokens of a segment are contiguous in the local row: if the segment reaches both slices, it includes all tokens
 * between them. */
#ifndef DATA_CONTEXT_SPLIT_H
#define DATA_CONTEXT_SPLIT_H

#include "data/batch.h"

#include <stdbool.h>

struct context_split {
    int rank, ranks;
};

/* Returns the index in the row of a rank's first (half 0) or second (half 1) slice. */
static inline int context_slice(int rank, int ranks, int half)
{
    return half == 0 ? rank : 2 * ranks - 1 - rank;
}

/* Fills `part` with this rank's tokens of `whole`: tokens, labels, positions, factors, valid and real. `part` must have
 * been created with the same number of rows, row_tokens / ranks tokens per row, and no segments. part->number differs
 * between ranks. */
void context_split_batch(const struct context_split *split, const struct batch *whole, struct batch *part);

/* Sizes of the five tables of struct attention_segments (core/op.h), in the order of its members; context_slots is the
 * number of slots of each. With causal attention, the slots for queries of the first slices precede those for the
 * second slices, and within each half no two segments share keys. Otherwise a slot has all tokens that a segment has on
 * this rank. */
enum { CONTEXT_TABLES = 5 };
static inline int64_t context_halves(bool causal)
{
    return causal ? 2 : 1;
}
static inline int64_t context_slots(const struct batch *whole, bool causal)
{
    return context_halves(causal) * whole->rows * whole->max_segments;
}

/* Fills tables [CONTEXT_TABLES, context_slots]: queries in this rank's local rows, and keys in whole rows (owner -1) or
 * in the local rows of rank `owner`. Slots whose queries attend to none of these keys are empty. */
void context_split_segments(const struct context_split *split, const struct batch *whole, bool causal, int owner,
                            int32_t *tables);

#endif
