/* Helpers of ops that write y, its quantized operands, or both. An absent y is made in scratch. */
#ifndef CPU_QUANTIZE_H
#define CPU_QUANTIZE_H

#include "cpu/kernel.h"

/* Returns the bytes of scratch for y [rows, cols]; 0 if y is present. */
int64_t cpu_made_workspace(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);

/* Returns y, or a tensor in scratch if y is absent. */
struct tensor cpu_made(struct cpu *cpu, const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);

/* Makes the quantized operands of y, if any are wanted, and its amax. */
void cpu_make_quantized(struct cpu *cpu, const struct tensor *y, const struct quantized_operands *to);

#endif
