/* The second stage of sums over rows: adds partial sums of blocks. Norms use it. */
#ifndef CUDA_COLUMN_SUM_CUH
#define CUDA_COLUMN_SUM_CUH

#include "cuda/kernel.h"

#include <initializer_list>

/* sum [cols] (+)= the sum of parts. */
struct part_sum {
    float *sum;
    bool accumulate;
};

enum { MOST_PART_SUMS = 3 };

/* Each sums[i] (+)= the sum over parts of partial[part][cols], in a fixed order. `partial` has the first sum's parts,
 * then the second's and third's. Without parts the sum is 0. */
void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts, int64_t cols,
               const struct part_sum *sums, int count);

/* As above, for sums given as tensors [1, cols], at least one; `accumulate` applies to all. */
void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts,
               std::initializer_list<struct tensor> sums, bool accumulate);

#endif
