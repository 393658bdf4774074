/* Sorts the tokens of a batch by vocabulary row, for all rows of the vocabulary or for some. */
#ifndef CUDA_TOKEN_ORDER_CUH
#define CUDA_TOKEN_ORDER_CUH

#include "cuda/kernel.h"

/* Maps tokens to rows: tokens origin .. origin + rows - 1 have rows 0 .. rows - 1; all other tokens have row `rows`. */
struct token_rows {
    const int32_t *tokens;
    uint32_t origin, rows;

    __device__ __forceinline__ int32_t at(int64_t t) const
    {
        return (int32_t)min((uint32_t)tokens[t] - origin, rows);
    }
};

int64_t token_order_workspace(int64_t count);

/* Returns the indices 0 .. count - 1, sorted by row and then by index; they are in scratch. count > 0. */
const int32_t *token_order(const struct cuda_target *target, struct token_rows rows, int64_t count, char *scratch);

#endif
