/* The tokens of a batch in the order of the vocabulary. */
#ifndef CUDA_TOKEN_ORDER_CUH
#define CUDA_TOKEN_ORDER_CUH

#include "cuda/kernel.h"

/* Bytes of scratch. */
int64_t token_order_workspace(int64_t count);

/* 0 .. count - 1 sorted by tokens[t], each in 0 .. vocabulary - 1, and by t among equal tokens; in scratch. count > 0.
 */
const int32_t *token_order(const struct cuda_target *target, const int32_t *tokens, int64_t count, int64_t vocabulary,
                           char *scratch);

#endif
