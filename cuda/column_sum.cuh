/* The second stage of the norms' sums over rows. */
#ifndef CUDA_COLUMN_SUM_CUH
#define CUDA_COLUMN_SUM_CUH

#include "cuda/kernel.h"

#include <initializer_list>

/* sum [cols] (+)= a sum of parts. */
struct part_sum {
    float *sum;
    bool accumulate;
};

enum { MOST_PART_SUMS = 3 };

/* Each of the sums (+)= the sum over its parts, in a fixed order, of partial[part][cols]; the first's parts, then the
 * second's and the third's. No parts: the sum is 0. */
void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts, int64_t cols,
               const struct part_sum *sums, int count);

/* The same of tensors [1, cols], at least one, which all accumulate or none. */
void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts,
               std::initializer_list<struct tensor> sums, bool accumulate);

#endif
