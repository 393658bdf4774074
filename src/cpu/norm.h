/* Shared by the kernels of norms. In backward, threads process blocks of rows. The gradients of the norm's
 * parameters are summed over the rows of each block, then over the blocks, so the order of the sum depends only on the
 * shape. */
#ifndef CPU_NORM_H
#define CPU_NORM_H

#include "cpu/convert.h"

enum { CPU_NORM_PARAMETERS = 2 }; /* at most: weight, bias */

struct cpu_norm_backward {
    const struct tensor *x;                              /* f [T, H] */
    const struct tensor *gradients[CPU_NORM_PARAMETERS]; /* stat [1, H] each; NULL after the last */
    bool accumulate;
    /* Processes row t: writes dx if it is wanted, and adds the row's contribution to gradients[p] to sums[p] [H].
     * sums[0] is NULL if no gradient is wanted. */
    void (*row)(const void *args, int64_t t, float *const *sums);
    const void *args; /* the op's args, passed to row */
};

/* Returns `count` gains of a norm from column `col` on: its weights, or 1 + weight with one_plus; in place or in
 * `buffer`. */
const float *cpu_read_gain(const struct tensor *weight, bool one_plus, int64_t col, int64_t count, float *buffer);

/* RMS norms, of `count` elements: the sum of squares; y = x * rstd * weight; the sum of weight * dy * x; dweight += dy
 * * x * rstd; dx = rstd * (weight * dy - x * factor), plus the residual unless it is NULL. */
float cpu_sum_of_squares(const float *x, int64_t count);
void cpu_scale_by_weight(const float *x, const float *weight, float rstd, float *restrict y, int64_t count);
float cpu_sum_of_products(const float *weight, const float *dy, const float *x, int64_t count);
void cpu_add_weight_gradient(const float *dy, const float *x, float rstd, float *restrict dweight, int64_t count);
void cpu_input_gradient(const float *weight, const float *dy, const float *x, float rstd, float factor,
                        const float *residual, float *dx, int64_t count);

/* Returns the bytes of scratch for `gradients` gradients. */
int64_t cpu_norm_workspace(const struct tensor *x, int gradients);

void cpu_norm_backward(struct cpu *cpu, const struct cpu_norm_backward *norm);

#endif
