/* Low-precision formats and their scales: how a tensor becomes the quantized operands of 8-bit and emulated GEMMs, and
 * the single definition of each rounding and each scale, shared by CPU and GPU kernels. The oracle in tests/ref has its
 * own. Rules and their sources: doc/precision.md. */
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

/* The number format that elements are rounded to. */
enum number_format { FORMAT_E4M3, FORMAT_E5M2, FORMAT_E2M1 };

/* Which elements share a scale. Blocks are given as rows x columns of the rowwise operand: 1X128 is 128 elements along
 * a row. The columnwise operand, which is transposed, has blocks of the same shape along its own rows. So with 1X128
 * and 1X32 the blocks of the two operands differ; with square blocks they are the same.
 *
 * Scales of TENSOR, ROW, 1X128 and 128X128 are f32 and stored with the operand: value = element * scale. The other
 * scalings are emulated, since they need a Blackwell GPU: their operands are bf16 and contain element * block scale,
 * which is exact in bf16. 1X32 has e8m0 scales (MXFP8). 1X16 and 16X16 have e4m3 block scales and one f32 scale for the
 * tensor, which is stored with the operand (NVFP4). */
enum scaling { SCALING_TENSOR, SCALING_ROW, SCALING_1X128, SCALING_128X128, SCALING_1X32, SCALING_1X16, SCALING_16X16 };

enum { QUANTIZATION_BLOCK = 128 /* block size of 1X128 and 128X128 */, QUANTIZATION_HADAMARD = 16 };

/* How one operand of a GEMM is quantized. Plain data. */
struct quantization {
    enum number_format format;
    enum scaling scaling;
    bool power_of_two; /* scales of ROW, 1X128 and 128X128 are powers of two */
    bool stochastic;   /* FORMAT_E2M1: stochastic rounding, unbiased; else rounding to nearest */
    bool hadamard;     /* 1X16: the columnwise operand is of x after a random Hadamard transform of 16 rows at a time */
};

/* Returns whether the tensor has one scale, alone or combined with block scales. */
QUANTIZATION_INLINE bool scaling_whole(enum scaling scaling)
{
    return scaling == SCALING_TENSOR || scaling == SCALING_1X16 || scaling == SCALING_16X16;
}

/* Returns whether each scale depends on one block only, so that a tensor can be quantized while it is written. */
QUANTIZATION_INLINE bool scaling_local(enum scaling scaling)
{
    return scaling == SCALING_1X128 || scaling == SCALING_128X128 || scaling == SCALING_1X32;
}

/* Returns the number of blocks that cover `elements` elements. */
QUANTIZATION_INLINE int64_t quantization_blocks(int64_t elements)
{
    return (elements + QUANTIZATION_BLOCK - 1) / QUANTIZATION_BLOCK;
}

/* Shape of a quantized operand or of its scales. */
struct operand_shape {
    int64_t rows, cols, stride;
};

/* Returns the shape of the scales of an operand with `rows` rows and row_blocks x col_blocks blocks of 128. Rows of
 * block scales are dense, but aligned to 16 bytes: cuBLASLt has no argument for their stride. */
QUANTIZATION_INLINE struct operand_shape scale_shape_of(enum scaling scaling, int64_t rows, int64_t row_blocks,
                                                        int64_t col_blocks)
{
    struct operand_shape shape = {1, 1, 1};
    if (scaling == SCALING_ROW) {
        shape.cols = shape.stride = rows;
    } else if (scaling == SCALING_1X128 || scaling == SCALING_128X128) {
        shape.rows = scaling == SCALING_1X128 ? col_blocks : row_blocks;
        shape.cols = scaling == SCALING_1X128 ? rows : col_blocks;
        shape.stride = (shape.cols + 3) / 4 * 4;
    }
    return shape;
}

QUANTIZATION_INLINE float format_largest(enum number_format format)
{
    return format == FORMAT_E4M3 ? 448.0f : format == FORMAT_E5M2 ? 57344.0f : 6.0f;
}

/* Returns whether operands are bf16 instead of 8-bit floats. */
QUANTIZATION_INLINE bool quantization_emulated(const struct quantization *rule)
{
    return rule->scaling >= SCALING_1X32;
}

/* Returns the element type of the operands. */
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

/* Returns the multiplier of x before rounding, from amax = max |x| of the elements that share the scale: largest /
 * amax, rounded to nearest; 1 if amax is 0, inf or NaN; FLT_MAX if the quotient overflows. power_of_two clears its
 * mantissa. The scale is the reciprocal. (TransformerEngine's rule for current and block scaling.) */
QUANTIZATION_INLINE float quantization_multiplier(float amax, float largest, bool power_of_two)
{
    if (!(amax > 0.0f && amax <= FLT_MAX))
        return 1.0f;
    float multiplier = largest / amax;
    if (!(multiplier <= FLT_MAX))
        multiplier = FLT_MAX;
    return power_of_two ? quantization_float(quantization_bits(multiplier) & 0x7f800000u) : multiplier;
}

/* Returns the exponent e of an MXFP8 block's scale 2^e: that of amax / largest, rounded up, within -127 .. 127; -127
 * for a block of zeros. A block with NaN or inf has no scale: the caller writes NaN. (cuBLAS, TransformerEngine; OCP MX
 * rounds down.) */
QUANTIZATION_INLINE int quantization_e8m0(float amax, float largest)
{
    uint32_t bits = quantization_bits(amax / largest);
    int exponent = (int)(bits >> 23) - 127;
    if ((bits & 0x7fffffu) != 0 && !(exponent == -127 && (bits & 0x7fffffu) <= 0x400000u))
        exponent++; /* a denormal up to 2^-127 stays at -127 */
    return exponent > 127 ? 127 : exponent;
}

/* Returns 2^exponent, for -127 .. 127. */
QUANTIZATION_INLINE float quantization_power(int exponent)
{
    return quantization_float(exponent == -127 ? 0x400000u : (uint32_t)(exponent + 127) << 23);
}

/* Returns 1 / value for value > 0, at most FLT_MAX. Converts a multiplier to its scale and back: elements are
 * multiplied by the reciprocal of a given scale. */
QUANTIZATION_INLINE float quantization_reciprocal(float value)
{
    float reciprocal = 1.0f / value;
    return reciprocal > FLT_MAX ? FLT_MAX : reciprocal;
}

/* Returns the number to be rounded: x * multiplier, clipped to the format's largest number. inf becomes NaN, so that a
 * gradient that has diverged is not hidden. The sign and bits of a NaN are unspecified. */
QUANTIZATION_INLINE float quantization_scaled(float x, float multiplier, float largest)
{
    float product = x * multiplier;
    float bounded = product > largest ? largest : product < -largest ? -largest : product;
    return x > FLT_MAX || x < -FLT_MAX ? quantization_float(0x7fc00000u) : bounded;
}

/* Returns whether x is clipped. The tolerance of 2^-20 allows for the roundings of the multiplier and of its product
 * with x. */
QUANTIZATION_INLINE bool quantization_clipped(float x, float multiplier, float largest)
{
    float magnitude = x < 0.0f ? -x : x;
    return magnitude <= FLT_MAX && magnitude * multiplier > largest * (1.0f + 0x1p-20f);
}

/* Returns the distance between neighbouring numbers of a format at a magnitude, a power of two. */
QUANTIZATION_INLINE float quantization_step(float magnitude, enum number_format format)
{
    int mantissa = format == FORMAT_E4M3 ? 3 : format == FORMAT_E5M2 ? 2 : 1;
    int least = format == FORMAT_E4M3 ? -6 : format == FORMAT_E5M2 ? -14 : 0; /* exponent of denormals */
    int exponent = (int)(quantization_bits(magnitude) >> 23) - 127;
    return quantization_power((exponent > least ? exponent : least) - mantissa);
}

/* Returns the number of a format nearest to a value within its range, ties to the even mantissa. e2m1 has 0, 0.5, 1,
 * 1.5, 2, 3, 4, 6. 0 keeps its sign; NaN stays NaN. (core/dtype.h has the codes of the 8-bit floats.) */
QUANTIZATION_INLINE float quantization_rounded(float value, enum number_format format)
{
    float magnitude = quantization_float(quantization_bits(value) & 0x7fffffffu);
    if (!(magnitude <= FLT_MAX))
        return value;
    float to_multiple = 0x1.8p23f * quantization_step(magnitude, format); /* adding it rounds to a multiple of a step */
    float rounded = magnitude + to_multiple - to_multiple;
    return quantization_float(quantization_bits(rounded) | (quantization_bits(value) & 0x80000000u));
}

/* Rounds a value of magnitude up to 6 stochastically to e2m1: up with a probability equal to its relative distance from
 * the e2m1 number below, by uniform random bits. An e2m1 number, and NaN, stay unchanged. */
QUANTIZATION_INLINE float quantization_stochastic(float value, uint32_t random)
{
    float magnitude = quantization_float(quantization_bits(value) & 0x7fffffffu);
    if (!(magnitude <= FLT_MAX))
        return value;
    float step = quantization_step(magnitude, FORMAT_E2M1);
    float steps = magnitude / step;
    float below = (float)(int)steps;
    float rounded = (steps - below > (float)(random >> 8) * 0x1p-24f ? below + 1.0f : below) * step;
    return quantization_float(quantization_bits(rounded) | (quantization_bits(value) & 0x80000000u));
}

/* Mixes the bits of a word bijectively: each bit of the result depends on all bits of the word. */
QUANTIZATION_INLINE uint32_t quantization_mix(uint32_t word)
{
    word ^= word >> 16;
    word *= 0x9e3779b1u;
    word ^= word >> 13;
    word *= 0x5bd1e995u;
    word ^= word >> 15;
    return word;
}

/* Returns the key of an operand's random bits; draw, salt: as in struct quantized_operands. */
QUANTIZATION_INLINE uint32_t quantization_key(const int32_t draw[2], uint32_t salt, bool column)
{
    uint32_t key = quantization_mix((uint32_t)draw[0] + 0x9e3779b9u);
    key = quantization_mix(key + (uint32_t)draw[1]);
    key = quantization_mix(key + salt);
    return quantization_mix(key + (column ? 1u : 0u));
}

/* Returns the random bits of an operand's element (row, column), both below 2^32. */
QUANTIZATION_INLINE uint32_t quantization_random(uint32_t key, int64_t row, int64_t column)
{
    return quantization_mix(quantization_mix(key + (uint32_t)row) ^ ((uint32_t)column * 0xc2b2ae35u));
}

/* NVFP4 (1X16 and 16X16). The tensor's amax gives S = quantization_multiplier(amax, QUANTIZATION_NVFP4, false), and the
 * stored scale is 1 / S. A block's amax gives the block scale b, an e4m3 number. Elements are multiplied by the block's
 * multiplier S / b and rounded to e2m1. Operands contain (e2m1 number) * b. (TransformerEngine's rule.) With `hadamard`
 * the columnwise amaxes, and so the scales, are of the transformed values. */
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

#define QUANTIZATION_SIGNS 0xd7e8u /* bit i is set: element i of D is -1 */

/* Random Hadamard transform of 16 elements of one column. Groups of 16 rows begin at the tensor's first row; rows after
 * its last count as 0. y = H D x / 4, with H[i][j] = -1 to the number of bits set in i & j, and D the diagonal of fixed
 * random signs. H D / 4 is orthogonal, so it cancels in a GEMM that sums over these rows. */
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
