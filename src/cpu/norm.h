/* What the backward kernels of the two norms share. Threads take rows in blocks. The gradients of the norm's parameters
 * are summed over the rows of each block, then over the blocks: the order of the sum depends on the shape alone. */
#ifndef CPU_NORM_H
#define CPU_NORM_H

#include "cpu/convert.h"

enum { CPU_NORM_PARAMETERS = 2 }; /* at most: weight, bias */

struct cpu_norm_backward {
    const struct tensor *x;                              /* f [T, H] */
    const struct tensor *gradients[CPU_NORM_PARAMETERS]; /* stat [1, H] each; after the last: NULL */
    bool accumulate;
    /* Row t: writes dx where it is wanted, and adds the row's contribution to gradients[p] to sums[p] [H]. sums[0] is
     * NULL when no gradient is wanted. */
    void (*row)(const void *args, int64_t t, float *const *sums);
    const void *args; /* the op's, passed to row */
};

/* `count` gains of a norm from column `col` on: its weights, or with one_plus 1 + each; in `buffer` or where they are.
 */
const float *cpu_read_gain(const struct tensor *weight, bool one_plus, int64_t col, int64_t count, float *buffer);

/* Bytes of scratch for so many gradients. */
int64_t cpu_norm_workspace(const struct tensor *x, int gradients);

void cpu_norm_backward(struct cpu *cpu, const struct cpu_norm_backward *norm);

#endif
