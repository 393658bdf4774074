/* Formats of few bits and their scales: how a tensor becomes the copies that 8-bit and emulated products read, and the
 * one definition of each rounding and each scale. Used by the CPU's kernels and the GPU's; the oracle in tests/ref has
 * its own. Rules and their sources: doc/precision.md. */
#ifndef CORE_QUANTIZATION_H
#define CORE_QUANTIZATION_H

#include "core/dtype.h"

#include <float.h>
#include <stdbool.h>

#ifdef __CUDACC__
#define QUANTIZATION_INLINE static __host__ __device__ __forceinline__
#else
#define QUANTIZATION_INLINE static inline
#endif

/* The grid that elements are rounded to. */
enum format { FORMAT_E4M3, FORMAT_E5M2, FORMAT_E2M1 };

/* Which elements share a scale. Blocks are of the row copy, rows x columns: 1X128 is 128 elements along a row. The
 * column copy, which is transposed, has blocks of the same shape along its own rows, so 1X128 and 1X32 cut the two
 * copies differently; square blocks cut them alike.
 *
 * Scales of TENSOR, ROW, 1X128 and 128X128 are f32 and stay beside the copy: value = element * scale. Those of the rest
 * are emulated, since they need a Blackwell GPU: their copies are bf16 and hold element * block scale, which bf16 holds
 * exactly. 1X32 has e8m0 scales (MXFP8). 1X16 and 16X16 have e4m3 scales under one f32 scale for the tensor, which
 * stays beside the copy (NVFP4). */
enum scaling { SCALING_TENSOR, SCALING_ROW, SCALING_1X128, SCALING_128X128, SCALING_1X32, SCALING_1X16, SCALING_16X16 };

enum { QUANTIZATION_BLOCK = 128 /* of 1X128 and 128X128 */, QUANTIZATION_HADAMARD = 16 };

/* How one operand of a product is quantized. Plain data. */
struct quantization {
    enum format format;
    enum scaling scaling;
    bool power_of_two; /* scales of ROW, 1X128 and 128X128 are powers of two */
    bool stochastic;   /* FORMAT_E2M1: elements are rounded up or down at random, right on average; else to nearest */
    bool hadamard;     /* 1X16: the column copy is of x after a random Hadamard transform of 16 rows at a time */
};

/* The largest number of a format. */
QUANTIZATION_INLINE float format_largest(enum format format)
{
    return format == FORMAT_E4M3 ? 448.0f : format == FORMAT_E5M2 ? 57344.0f : 6.0f;
}

/* Are copies bf16 instead of 8-bit floats? */
QUANTIZATION_INLINE bool quantization_emulated(const struct quantization *rule)
{
    return rule->scaling >= SCALING_1X32;
}

/* The element type of the copies. */
QUANTIZATION_INLINE enum dtype quantization_dtype(const struct quantization *rule)
{
    return quantization_emulated(rule) ? DTYPE_BF16 : rule->format == FORMAT_E5M2 ? DTYPE_E5M2 : DTYPE_E4M3;
}

QUANTIZATION_INLINE float quantization_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

QUANTIZATION_INLINE uint32_t quantization_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What x is multiplied by before it is rounded, from amax = max |x| of the elements that share the scale: largest /
 * amax, rounded to nearest, 1 where amax is 0, inf or NaN, FLT_MAX where the quotient overflows; a power of two by
 * clearing the mantissa. The scale is its reciprocal. (TransformerEngine's rule for current and block scaling.) */
QUANTIZATION_INLINE float quantization_multiplier(float amax, float largest, bool power_of_two)
{
    if (!(amax > 0.0f && amax <= FLT_MAX))
        return 1.0f;
    float multiplier = largest / amax;
    if (!(multiplier <= FLT_MAX))
        multiplier = FLT_MAX;
    return power_of_two ? quantization_float(quantization_bits(multiplier) & 0x7f800000u) : multiplier;
}

/* Exponent e of an MXFP8 block's scale 2^e: that of amax / largest, rounded up, within -127 .. 127; -127 for a block of
 * zeros. A block with NaN or inf has no scale: the caller writes NaN. (cuBLAS, TransformerEngine; OCP MX rounds down.)
 */
QUANTIZATION_INLINE int quantization_e8m0(float amax, float largest)
{
    uint32_t bits = quantization_bits(amax / largest);
    int exponent = (int)(bits >> 23) - 127;
    if ((bits & 0x7fffffu) != 0 && !(exponent == -127 && (bits & 0x7fffffu) <= 0x400000u))
        exponent++; /* a denormal up to 2^-127 stays at -127 */
    return exponent > 127 ? 127 : exponent;
}

/* An f32 that overflows nothing: finite values beyond the format's largest become the largest. inf becomes NaN, so that
 * a gradient that has diverged is not hidden. */
QUANTIZATION_INLINE float quantization_saturated(float value, float largest)
{
    float bounded = value > largest ? largest : value < -largest ? -largest : value;
    return value > FLT_MAX || value < -FLT_MAX ? quantization_float(0x7fc00000u) : bounded;
}

/* The e2m1 number (0, 0.5, 1, 1.5, 2, 3, 4, 6) nearest to a value within -6 .. 6, ties to the even mantissa. NaN stays.
 */
QUANTIZATION_INLINE float quantization_e2m1(float value)
{
    float magnitude = value < 0.0f ? -value : value;
    float step = magnitude < 2.0f ? 0.5f : magnitude < 4.0f ? 1.0f : 2.0f; /* between numbers here */
    float units = magnitude / step;
    const float to_integer = 0x1.8p23f; /* adding it rounds to an integer, ties to even */
    float rounded = (units + to_integer - to_integer) * step;
    return value < 0.0f ? -rounded : rounded;
}

#endif
