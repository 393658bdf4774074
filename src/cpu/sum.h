/* Sums over the rows or the columns of a matrix. */
#ifndef CPU_SUM_H
#define CPU_SUM_H

#include "cpu/kernel.h"

/* sum[i] = (accumulate ? sum[i] : 0) + s[i], where s[i] is the sum of column i of x if over_rows, else of row i. sum is
 * f32 [1, columns of x] or [1, rows of x]. Unless over_rows, x must be f32. */
void cpu_sum(struct cpu *cpu, const struct tensor *x, bool over_rows, const struct tensor *sum, bool accumulate);

#endif
