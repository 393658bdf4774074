/* Conversion of any float type to f32 and back. Kernels compute only in f32: other types pass through a small buffer in
 * the L1 cache. */
#ifndef CPU_CONVERT_H
#define CPU_CONVERT_H

#include "cpu/kernel.h"

/* Converts `count` elements of a dtype (f32, bf16, e4m3, e5m2) to f32. */
void cpu_widen(const void *from, enum dtype dtype, float *to, int64_t count);

/* Converts `count` elements from f32 to a dtype (f32, bf16, e4m3, e5m2), rounded as in core/dtype.h. */
void cpu_narrow(const float *from, void *to, enum dtype dtype, int64_t count);

/* Split `count` f32 numbers into bf16 numbers and 16-bit remainders, and join them, as in core/dtype.h. low may be NULL
 * in a split. */
void cpu_split_span(const float *from, uint16_t *high, int16_t *low, int64_t count);
void cpu_join_span(const uint16_t *high, const int16_t *low, float *to, int64_t count);

/* Converts a matrix: to f32 from a type that cpu_widen reads, or from f32 to a type that cpu_narrow writes. */
void cpu_cast(struct cpu *cpu, struct tensor from, struct tensor to);

/* to += from. */
void cpu_add_span(const float *from, float *restrict to, int64_t count);

/* Returns elements (row, col .. col + count - 1) as f32: in place, or converted into buffer[count] if x is not f32. */
static inline const float *cpu_read(const struct tensor *x, int64_t row, int64_t col, int64_t count, float *buffer)
{
    if (x->dtype == DTYPE_F32)
        return tensor_at(x, row, col);
    cpu_widen(tensor_at(x, row, col), x->dtype, buffer, count);
    return buffer;
}

/* Returns where to compute elements (row, col ...) of an output: in place, or in `buffer` if it is not f32. */
static inline float *cpu_target(const struct tensor *y, int64_t row, int64_t col, float *buffer)
{
    return y->dtype == DTYPE_F32 ? tensor_at(y, row, col) : buffer;
}

/* Stores the elements computed at cpu_target: rounds `buffer` into the output if that is not f32. */
static inline void cpu_write(const struct tensor *y, int64_t row, int64_t col, int64_t count, const float *buffer)
{
    if (y->dtype != DTYPE_F32)
        cpu_narrow(buffer, tensor_at(y, row, col), y->dtype, count);
}

#endif
