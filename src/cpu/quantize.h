/* For ops that make y, copies of y, or both: where y is absent it is made in scratch, and copies are made of that. */
#ifndef CPU_QUANTIZE_H
#define CPU_QUANTIZE_H

#include "cpu/kernel.h"

/* Bytes of scratch for y [rows, cols]. */
int64_t cpu_made_workspace(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);

/* y, or what stands for it. */
struct tensor cpu_made(struct cpu *cpu, const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);

/* The copies, where any are wanted. */
void cpu_make_copies(struct cpu *cpu, const struct tensor *y, const struct quantized_copies *to);

#endif
