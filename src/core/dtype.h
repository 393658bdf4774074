/* Element types of tensors, and the single definition of each conversion between them. Rounding is to nearest, ties to
 * even, as on the GPU; only f32_high rounds ties away from zero. bf16 overflow gives infinity. E4M3 and E5M2 follow OCP
 * 8-bit floating point (rev 1.0) and saturate to the largest finite value (448, 57344), as quantisation for GEMMs does.
 */
#ifndef CORE_DTYPE_H
#define CORE_DTYPE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_E4M3, DTYPE_E5M2, DTYPE_F64, DTYPE_I32, DTYPE_I16, DTYPE_COUNT };

/* Returns the bytes of an element. */
static inline int64_t dtype_size(enum dtype dtype)
{
    static const int8_t size[DTYPE_COUNT] = {4, 2, 1, 1, 8, 4, 2};
    return size[dtype];
}

/* Returns "f32", "bf16", ... */
static inline const char *dtype_name(enum dtype dtype)
{
    static const char *const name[DTYPE_COUNT] = {"f32", "bf16", "e4m3", "e5m2", "f64", "i32", "i16"};
    return name[dtype];
}

static inline float bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

/* f32_high and f32_low split an f32 number into the nearest bf16 number and the remainder, in units of the f32 number's
 * last place. Ties round away from zero: with ties to even, the remainder could not tell whether a tie was rounded up
 * or down. A NaN may become a number. */
static inline uint16_t f32_high(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x8000u) >> 16);
}

static inline int16_t f32_low(float value)
{
    int16_t low;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t last = (uint16_t)bits;
    memcpy(&low, &last, sizeof low);
    return low;
}

/* As f32_high, but NaN stays NaN. For weights that are stored without remainders: GEMMs then read the same bf16 numbers
 * as with remainders, at ties too. */
static inline uint16_t f32_high_alone(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (uint16_t)(bits >> 16 | 0x40u) : f32_high(value);
}

/* Returns the f32 number that was split into high and low, bit for bit. */
static inline float f32_joined(uint16_t high, int16_t low)
{
    uint32_t bits = ((uint32_t)high << 16) + (uint32_t)(int32_t)low;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Converts to an 8-bit float with `mantissa` bits and exponent bias `bias`; `largest` is the largest finite value. */
static inline uint8_t f32_to_8bit(float value, int mantissa, int bias, float largest, uint8_t nan_bits)
{
    uint8_t sign = signbit(value) ? 0x80u : 0u;
    if (isnan(value))
        return (uint8_t)(sign | nan_bits);
    float magnitude = fabsf(value);
    if (magnitude > largest)
        magnitude = largest;
    int exponent;
    frexpf(magnitude, &exponent); /* magnitude = f * 2^exponent, 0.5 <= f < 1 */
    int scale = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    /* rintf rounds ties to even: the mantissa with its hidden bit, in units of the last place */
    int ulps = (int)rintf(ldexpf(magnitude, mantissa - scale));
    int biased = scale + bias;
    if (ulps >= 2 << mantissa) { /* rounding carried into the next binade */
        ulps >>= 1;
        biased++;
    }
    if (ulps < 1 << mantissa)
        return (uint8_t)(sign | ulps); /* denormal or zero: the stored exponent is 0 */
    return (uint8_t)(sign | biased << mantissa | (ulps - (1 << mantissa)));
}

static inline float f32_from_8bit(uint8_t bits, int mantissa, int bias)
{
    int exponent = (bits & 0x7f) >> mantissa;
    int fraction = bits & ((1 << mantissa) - 1);
    float magnitude = exponent == 0 ? ldexpf((float)fraction, 1 - bias - mantissa)
                                    : ldexpf((float)(fraction + (1 << mantissa)), exponent - bias - mantissa);
    return bits & 0x80 ? -magnitude : magnitude;
}

static inline uint8_t f32_to_e4m3(float value)
{
    return f32_to_8bit(value, 3, 7, 448.0f, 0x7f);
}

static inline float e4m3_to_f32(uint8_t bits)
{
    return (bits & 0x7f) == 0x7f ? NAN : f32_from_8bit(bits, 3, 7);
}

static inline uint8_t f32_to_e5m2(float value)
{
    return f32_to_8bit(value, 2, 15, 57344.0f, 0x7e);
}

static inline float e5m2_to_f32(uint8_t bits)
{
    if ((bits & 0x7c) == 0x7c)
        return bits & 3 ? NAN : (bits & 0x80 ? -INFINITY : INFINITY);
    return f32_from_8bit(bits, 2, 15);
}

#endif
