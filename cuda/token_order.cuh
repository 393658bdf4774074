/* The tokens of a batch in the order of the vocabulary, or of a part of it. */
#ifndef CUDA_TOKEN_ORDER_CUH
#define CUDA_TOKEN_ORDER_CUH

#include "cuda/kernel.h"

/* The rows that tokens have: those of the tokens origin .. origin + rows - 1; all others have row `rows`. */
struct token_rows {
    const int32_t *tokens;
    uint32_t origin, rows;

    __device__ __forceinline__ int32_t at(int64_t t) const
    {
        return (int32_t)min((uint32_t)tokens[t] - origin, rows);
    }
};

/* Bytes of scratch. */
int64_t token_order_workspace(int64_t count);

/* 0 .. count - 1 sorted by their rows, and by t among equal ones; in scratch. count > 0. */
const int32_t *token_order(const struct cuda_target *target, struct token_rows rows, int64_t count, char *scratch);

#endif
