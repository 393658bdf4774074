/* The second stage of sums over rows. */
#ifndef CUDA_COLUMN_SUM_CUH
#define CUDA_COLUMN_SUM_CUH

#include "cuda/kernel.h"

#include <initializer_list>

/* For each of one or two sums, all [1, cols]: sum[c] = (old when accumulate, else 0) + scale * sum over the parts, in a
 * fixed order, of partial[part][c]; the first's parts, then the second's. scale: NULL = 1. No parts: the sum is 0. */
void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts,
               std::initializer_list<struct tensor> sums, const float *scale, bool accumulate);

#endif
