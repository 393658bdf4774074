/* The second stage of sums over rows. */
#ifndef CUDA_COLUMN_SUM_CUH
#define CUDA_COLUMN_SUM_CUH

#include "cuda/kernel.h"

/* sum[c] = (old when accumulate, else 0) + scale * sum over the parts, in a fixed order, of partial[part][c]. scale:
 * NULL = 1. No parts: the sum is 0. */
void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts, const struct tensor &sum,
               const float *scale, bool accumulate);

#endif
