/* Sums over one side of a matrix. */
#ifndef CPU_SUM_H
#define CPU_SUM_H

#include "cpu/kernel.h"

/* sum[i] = (old when accumulate, else 0) + scale * sum of x's column i where over_rows, else of its row i; f32 [1, ..].
 * Over columns x is f32. */
void cpu_sum(struct cpu *cpu, const struct tensor *x, bool over_rows, float scale, const struct tensor *sum,
             bool accumulate);

#endif
