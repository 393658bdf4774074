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
enum number_format { FORMAT_E4M3, FORMAT_E5M2, FORMAT_E2M1 };

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
    enum number_format format;
    enum scaling scaling;
    bool power_of_two; /* scales of ROW, 1X128 and 128X128 are powers of two */
    bool stochastic;   /* FORMAT_E2M1: elements are rounded up or down at random, right on average; else to nearest */
    bool hadamard;     /* 1X16: the column copy is of x after a random Hadamard transform of 16 rows at a time */
};

/* Is there one scale for the tensor: alone, or over those of its blocks? */
QUANTIZATION_INLINE bool scaling_whole(enum scaling scaling)
{
    return scaling == SCALING_TENSOR || scaling == SCALING_1X16 || scaling == SCALING_16X16;
}

/* Are all scales made of blocks alone, so that copies can be made as the tensor is written? */
QUANTIZATION_INLINE bool scaling_local(enum scaling scaling)
{
    return scaling == SCALING_1X128 || scaling == SCALING_128X128 || scaling == SCALING_1X32;
}

/* Blocks of QUANTIZATION_BLOCK that so many elements begin. */
QUANTIZATION_INLINE int64_t quantization_blocks(int64_t elements)
{
    return (elements + QUANTIZATION_BLOCK - 1) / QUANTIZATION_BLOCK;
}

/* Of a copy, or of the scales beside one. */
struct copy_shape {
    int64_t rows, cols, stride;
};

/* Scales beside a copy of so many rows, whose blocks of 128 are row_blocks x col_blocks. Rows of block scales lie as
 * close as they may while each starts at 16 bytes: cuBLASLt is told of no distance. */
QUANTIZATION_INLINE struct copy_shape scale_shape_of(enum scaling scaling, int64_t rows, int64_t row_blocks,
                                                     int64_t col_blocks)
{
    struct copy_shape shape = {1, 1, 1};
    if (scaling == SCALING_ROW) {
        shape.cols = shape.stride = rows;
    } else if (scaling == SCALING_1X128 || scaling == SCALING_128X128) {
        shape.rows = scaling == SCALING_1X128 ? col_blocks : row_blocks;
        shape.cols = scaling == SCALING_1X128 ? rows : col_blocks;
        shape.stride = (shape.cols + 3) / 4 * 4;
    }
    return shape;
}

/* The largest number of a format. */
QUANTIZATION_INLINE float format_largest(enum number_format format)
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

/* 2^exponent, -127 .. 127. */
QUANTIZATION_INLINE float quantization_power(int exponent)
{
    return quantization_float(exponent == -127 ? 0x400000u : (uint32_t)(exponent + 127) << 23);
}

/* 1 / value for a value above 0: a scale of its multiplier, and, at most FLT_MAX, a multiplier of its scale. Where a
 * scale is given, elements are multiplied by its reciprocal. */
QUANTIZATION_INLINE float quantization_reciprocal(float value)
{
    float reciprocal = 1.0f / value;
    return reciprocal > FLT_MAX ? FLT_MAX : reciprocal;
}

/* What is rounded to a format: x * multiplier, at most the format's largest number. inf becomes NaN, so that a gradient
 * that has diverged is not hidden. (The sign and the bits of a NaN are left open.) */
QUANTIZATION_INLINE float quantization_scaled(float x, float multiplier, float largest)
{
    float product = x * multiplier;
    float bounded = product > largest ? largest : product < -largest ? -largest : product;
    return x > FLT_MAX || x < -FLT_MAX ? quantization_float(0x7fc00000u) : bounded;
}

/* Is x lost beyond the format's largest number? A share of 2^-20 is not: a multiplier and the product are rounded. */
QUANTIZATION_INLINE bool quantization_clipped(float x, float multiplier, float largest)
{
    float magnitude = x < 0.0f ? -x : x;
    return magnitude <= FLT_MAX && magnitude * multiplier > largest * (1.0f + 0x1p-20f);
}

/* The distance between neighbouring numbers of a format at a magnitude, as a power of two. */
QUANTIZATION_INLINE float quantization_step(float magnitude, enum number_format format)
{
    int mantissa = format == FORMAT_E4M3 ? 3 : format == FORMAT_E5M2 ? 2 : 1;
    int least = format == FORMAT_E4M3 ? -6 : format == FORMAT_E5M2 ? -14 : 0; /* exponent of denormals */
    int exponent = (int)(quantization_bits(magnitude) >> 23) - 127;
    return quantization_power((exponent > least ? exponent : least) - mantissa);
}

/* The number of a format nearest to a value within its range, ties to the even mantissa. e2m1 has 0, 0.5, 1, 1.5, 2, 3,
 * 4, 6. 0 keeps its sign; NaN stays. (The 8-bit floats' codes are those of core/dtype.h.) */
QUANTIZATION_INLINE float quantization_rounded(float value, enum number_format format)
{
    float magnitude = quantization_float(quantization_bits(value) & 0x7fffffffu);
    if (!(magnitude <= FLT_MAX))
        return value;
    float to_multiple = 0x1.8p23f * quantization_step(magnitude, format); /* adding it rounds to a multiple of a step */
    float rounded = magnitude + to_multiple - to_multiple;
    return quantization_float(quantization_bits(rounded) | (quantization_bits(value) & 0x80000000u));
}

/* The e2m1 number below or above a value within -6 .. 6 in magnitude, above with a probability equal to the value's
 * share of the way there, for uniform random bits. A number of the format, and NaN, stay. */
QUANTIZATION_INLINE float quantization_stochastic(float value, uint32_t random)
{
    float magnitude = quantization_float(quantization_bits(value) & 0x7fffffffu);
    if (!(magnitude <= FLT_MAX))
        return value;
    float step = quantization_step(magnitude, FORMAT_E2M1);
    float units = magnitude / step;
    float below = (float)(int)units;
    float rounded = (units - below > (float)(random >> 8) * 0x1p-24f ? below + 1.0f : below) * step;
    return quantization_float(quantization_bits(rounded) | (quantization_bits(value) & 0x80000000u));
}

/* Mixes the bits of a word, one to one: each bit of the result depends on all of them. */
QUANTIZATION_INLINE uint32_t quantization_mix(uint32_t word)
{
    word ^= word >> 16;
    word *= 0x9e3779b1u;
    word ^= word >> 13;
    word *= 0x5bd1e995u;
    word ^= word >> 15;
    return word;
}

/* Keys the random bits of one copy: `draw` as in struct quantized_copies, `column` for the column copy. */
QUANTIZATION_INLINE uint32_t quantization_key(const int32_t draw[2], uint32_t salt, bool column)
{
    uint32_t key = quantization_mix((uint32_t)draw[0] + 0x9e3779b9u);
    key = quantization_mix(key + (uint32_t)draw[1]);
    key = quantization_mix(key + salt);
    return quantization_mix(key + (column ? 1u : 0u));
}

/* Random bits of the copy's element (row, column), both below 2^32. */
QUANTIZATION_INLINE uint32_t quantization_random(uint32_t key, int64_t row, int64_t column)
{
    return quantization_mix(quantization_mix(key + (uint32_t)row) ^ ((uint32_t)column * 0xc2b2ae35u));
}

/* NVFP4 (1X16 and 16X16). From the tensor's amax: S = quantization_multiplier(amax, QUANTIZATION_NVFP4, false), and the
 * stored scale is 1 / S. From a block's amax: its scale b, an e4m3 number. Elements are multiplied by a block's
 * multiplier, S / b, and rounded to e2m1. Copies hold (e2m1 number) * b. (TransformerEngine's rule.) With `hadamard`
 * the column copy's amaxes, and so its scales, are of the transformed values. */
#define QUANTIZATION_NVFP4 2688.0f /* the largest e2m1 number * the largest e4m3 number */

QUANTIZATION_INLINE float quantization_block_scale(float amax, float multiplier)
{
    float scale = amax / 6.0f * multiplier;
    return quantization_rounded(scale < 448.0f ? scale : 448.0f, FORMAT_E4M3);
}

QUANTIZATION_INLINE float quantization_block_multiplier(float multiplier, float block_scale)
{
    float quotient = multiplier / block_scale;
    return block_scale == 0.0f ? 0.0f : quotient > FLT_MAX ? FLT_MAX : quotient;
}

#define QUANTIZATION_SIGNS 0xd7e8u /* bit i: D's element i is -1 */

/* Random Hadamard transform of the elements of 16 rows in one column, rows from the tensor's first on, those beyond its
 * last counted as 0: y = H D x / 4 with H[i][j] = -1 to the number of bits set in i & j, and D the diagonal of fixed
 * random signs. H D / 4 is orthogonal, so it falls out of a product over the rows. */
QUANTIZATION_INLINE void quantization_hadamard(float x[QUANTIZATION_HADAMARD])
{
    for (int i = 0; i < QUANTIZATION_HADAMARD; i++)
        x[i] = QUANTIZATION_SIGNS >> i & 1u ? -x[i] : x[i];
    for (int half = 1; half < QUANTIZATION_HADAMARD; half *= 2)
        for (int i = 0; i < QUANTIZATION_HADAMARD; i++)
            if ((i & half) == 0) {
                float sum = x[i] + x[i + half], difference = x[i] - x[i + half];
                x[i] = sum;
                x[i + half] = difference;
            }
    for (int i = 0; i < QUANTIZATION_HADAMARD; i++)
        x[i] *= 0.25f;
}

#endif
