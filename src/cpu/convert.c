#include "cpu/convert.h"

#include "base/error.h"

/* The loops below give the same bits as the scalar functions of core/dtype.h, without their branches. */

CPU_CLONES static void widen_bf16(const uint16_t *from, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = cpu_float((uint32_t)from[i] << 16);
}

/* Moves an 8-bit float's exponent and mantissa to their places in f32, and corrects the exponent bias by a
 * multiplication, which is exact, for denormals too. */
CPU_CLONES static void widen_e4m3(const uint8_t *from, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        uint32_t magnitude = from[i] & 0x7fu, sign = (uint32_t)(from[i] & 0x80u) << 24;
        float value = cpu_float(magnitude << 20) * 0x1p120f;
        to[i] = cpu_float((magnitude == 0x7fu ? 0x7fc00000u : cpu_bits(value)) | sign);
    }
}

CPU_CLONES static void widen_e5m2(const uint8_t *from, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        uint32_t magnitude = from[i] & 0x7fu, sign = (uint32_t)(from[i] & 0x80u) << 24;
        uint32_t special = magnitude == 0x7cu ? 0x7f800000u : 0x7fc00000u;
        float value = cpu_float(magnitude << 21) * 0x1p112f;
        to[i] = cpu_float((magnitude >= 0x7cu ? special : cpu_bits(value)) | sign);
    }
}

CPU_CLONES static void narrow_bf16(const float *from, uint16_t *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = cpu_bits(from[i]);
        uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet_nan = (bits >> 16) | 0x40u;
        to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
    }
}

/* Converts to an 8-bit float, saturating. smallest, largest: f32 bits of its normal numbers' bounds. Normal numbers:
 * rounds at the last mantissa bit and changes the exponent bias. Denormals have the spacing of f32 at `coarse`: adding
 * it rounds, and leaves the multiple of the spacing in the low bits. */
CPU_INLINE uint8_t eight_bits(float from, int mantissa, uint32_t bias, uint32_t smallest, uint32_t largest,
                              float coarse, uint32_t nan)
{
    const int dropped = 23 - mantissa;
    uint32_t bits = cpu_bits(from), magnitude = bits & 0x7fffffffu;
    uint32_t capped = magnitude > largest ? largest : magnitude;
    uint32_t half = (1u << (dropped - 1)) - 1u;
    uint32_t normal = ((capped + half + ((capped >> dropped) & 1u)) >> dropped) - ((127u - bias) << mantissa);
    uint32_t denormal = cpu_bits(cpu_float(capped) + coarse) - cpu_bits(coarse);
    uint32_t value = capped < smallest ? denormal : normal;
    return (uint8_t)((magnitude > 0x7f800000u ? nan : value) | (bits >> 24 & 0x80u));
}

CPU_CLONES static void narrow_e4m3(const float *from, uint8_t *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = eight_bits(from[i], 3, 7, 0x3c800000u, 0x43e00000u, 0x1p14f, 0x7fu);
}

CPU_CLONES static void narrow_e5m2(const float *from, uint8_t *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = eight_bits(from[i], 2, 15, 0x38800000u, 0x47600000u, 0x1p7f, 0x7eu);
}

CPU_CLONES static void split(const float *from, uint16_t *restrict high, int16_t *restrict low, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = cpu_bits(from[i]);
        high[i] = (uint16_t)((bits + 0x8000u) >> 16);
        low[i] = (int16_t)bits;
    }
}

CPU_CLONES static void split_high(const float *from, uint16_t *restrict high, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = cpu_bits(from[i]), number = (bits + 0x8000u) >> 16, nan = bits >> 16 | 0x40u;
        high[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : number);
    }
}

void cpu_split_span(const float *from, uint16_t *high, int16_t *low, int64_t count)
{
    if (low != NULL)
        split(from, high, low, count);
    else
        split_high(from, high, count);
}

CPU_CLONES void cpu_join_span(const uint16_t *high, const int16_t *low, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = cpu_float(((uint32_t)high[i] << 16) + (uint32_t)(int32_t)low[i]);
}

CPU_CLONES void cpu_add_span(const float *from, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

void cpu_widen(const void *from, enum dtype dtype, float *to, int64_t count)
{
    switch (dtype) {
    case DTYPE_F32:
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    case DTYPE_BF16:
        widen_bf16(from, to, count);
        return;
    case DTYPE_E4M3:
        widen_e4m3(from, to, count);
        return;
    case DTYPE_E5M2:
        widen_e5m2(from, to, count);
        return;
    default:
        error_fatal("cpu executor: cannot read %s as a float", dtype_name(dtype));
    }
}

void cpu_narrow(const float *from, void *to, enum dtype dtype, int64_t count)
{
    switch (dtype) {
    case DTYPE_F32:
        memcpy(to, from, (size_t)count * sizeof *from);
        return;
    case DTYPE_BF16:
        narrow_bf16(from, to, count);
        return;
    case DTYPE_E4M3:
        narrow_e4m3(from, to, count);
        return;
    case DTYPE_E5M2:
        narrow_e5m2(from, to, count);
        return;
    default:
        error_fatal("cpu executor: cannot write a float as %s", dtype_name(dtype));
    }
}

void cpu_cast(struct cpu *cpu, struct tensor from, struct tensor to)
{
    if (tensor_contiguous(&from) && tensor_contiguous(&to))
        from = cpu_flat(&from), to = cpu_flat(&to);
    struct cpu_spans spans = cpu_spans(from.rows, from.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&from))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        if (to.dtype == DTYPE_F32)
            cpu_widen(tensor_at(&from, s.row, s.col), from.dtype, tensor_at(&to, s.row, s.col), s.count);
        else
            cpu_narrow(tensor_at(&from, s.row, s.col), tensor_at(&to, s.row, s.col), to.dtype, s.count);
    }
}
