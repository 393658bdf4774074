/* Context parallelism: rows of tokens that several ranks share, each with a part of every row.
 *
 * A row of S tokens is 2 c chunks of S / 2c (S is a multiple of 2 c). Rank r of c has chunks r and 2 c - 1 - r, in this
 * order: its local row, of S / c tokens. So under a causal mask, where later tokens see more, all ranks have the same
 * work. Rows are cut, not segments: a segment may lie in one chunk or in many, and needs no padding. What a segment has
 * in a local row lies together there: where it reaches both chunks, it holds all tokens between them. */
#ifndef DATA_CONTEXT_CUT_H
#define DATA_CONTEXT_CUT_H

#include "data/batch.h"

#include <stdbool.h>

struct context_cut {
    int rank, ranks;
};

/* The number in a row of a rank's first (half 0) or second chunk. */
static inline int context_chunk(int rank, int ranks, int half)
{
    return half == 0 ? rank : 2 * ranks - 1 - rank;
}

/* Fills `part`, created with the same number of rows, of row_tokens / ranks tokens and without segments, with what this
 * rank has of `whole`: tokens, labels, positions, factors, and how many of them are valid and real. Its number is
 * another on each rank. */
void context_cut_batch(const struct context_cut *cut, const struct batch *whole, struct batch *part);

/* The five tables of struct attention_segments (core/op.h), in the order of its members, each of so many slots. Where
 * attention is causal, the slots for the queries of the first chunks come before those for the second: within each half
 * no two segments share keys. Where it is not, a slot has all that a segment has here. */
enum { CONTEXT_TABLES = 5 };
static inline int64_t context_halves(bool causal)
{
    return causal ? 2 : 1;
}
static inline int64_t context_slots(const struct batch *whole, bool causal)
{
    return context_halves(causal) * whole->rows * whole->max_segments;
}

/* tables: [CONTEXT_TABLES, context_slots]: queries of this rank's part, and keys in whole rows (owner -1) or in the
 * part of rank `owner`, numbered as there. Slots whose queries see none of these keys are empty. */
void context_cut_segments(const struct context_cut *cut, const struct batch *whole, bool causal, int owner,
                          int32_t *tables);

#endif
