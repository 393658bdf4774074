/* What the backwards of the two norms share: rows go to threads in blocks, and the gradients of the norm's parameters
 * are summed over the rows of each block, then over the blocks: an order that depends on the shape alone. */
#ifndef CPU_NORM_H
#define CPU_NORM_H

#include "cpu/convert.h"

enum { CPU_NORM_PARAMETERS = 2 }; /* at most: weight, bias */

struct cpu_norm_backward {
    const struct tensor *x;                              /* f [T, H] */
    const struct tensor *gradients[CPU_NORM_PARAMETERS]; /* stat [1, H] each, as many as there are, then NULL */
    bool accumulate;
    /* Row t: writes dx where it is wanted and adds to sums[p], H floats, what the row gives to gradients[p]; sums[0] is
     * NULL when none are wanted. */
    void (*row)(const void *args, int64_t t, float *const *sums);
    const void *args; /* of the op, for row */
};

/* Bytes of scratch for so many wanted gradients. */
int64_t cpu_norm_workspace(const struct tensor *x, int gradients);

void cpu_norm_backward(struct cpu *cpu, const struct cpu_norm_backward *norm);

#endif
