/* Elements of any float type as f32 and back. Kernels know f32 alone: what is stored otherwise passes through a small
 * buffer in the first cache. */
#ifndef CPU_CONVERT_H
#define CPU_CONVERT_H

#include "cpu/kernel.h"

/* `count` elements of a dtype (f32, bf16, e4m3, e5m2) to f32. */
void cpu_widen(const void *from, enum dtype dtype, float *to, int64_t count);

/* f32 to `count` elements of a dtype (f32, bf16, e4m3), as core/dtype.h rounds. */
void cpu_narrow(const float *from, void *to, enum dtype dtype, int64_t count);

/* Numbers split and joined as core/dtype.h does it; low may be NULL in a split. */
void cpu_split_span(const float *from, uint16_t *high, int16_t *low, int64_t count);
void cpu_join_span(const uint16_t *high, const int16_t *low, float *to, int64_t count);

/* A matrix to f32 from what cpu_widen reads, or from f32 to what cpu_narrow writes. */
void cpu_cast(struct cpu *cpu, struct tensor from, struct tensor to);

/* to += from. */
void cpu_add_span(const float *from, float *restrict to, int64_t count);

/* Elements (row, col .. col + count - 1) as f32: where they are, or widened into `buffer` of as many floats. */
static inline const float *cpu_read(const struct tensor *x, int64_t row, int64_t col, int64_t count, float *buffer)
{
    if (x->dtype == DTYPE_F32)
        return tensor_at(x, row, col);
    cpu_widen(tensor_at(x, row, col), x->dtype, buffer, count);
    return buffer;
}

/* Where to compute elements (row, col ...) of an output: in place, or in `buffer` when it is not f32. */
static inline float *cpu_target(const struct tensor *y, int64_t row, int64_t col, float *buffer)
{
    return y->dtype == DTYPE_F32 ? tensor_at(y, row, col) : buffer;
}

/* Completes what was computed at cpu_target: rounds `buffer` into the output when it is not f32. */
static inline void cpu_write(const struct tensor *y, int64_t row, int64_t col, int64_t count, const float *buffer)
{
    if (y->dtype != DTYPE_F32)
        cpu_narrow(buffer, tensor_at(y, row, col), y->dtype, count);
}

#endif
