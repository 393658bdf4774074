#include "checkpoint/safetensors_dtype.h"
#include "core/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    int64_t size;
} dtypes[SAFETENSORS_DTYPES] = {
    [SAFETENSORS_BOOL] = {"BOOL", 1},       [SAFETENSORS_U8] = {"U8", 1},           [SAFETENSORS_I8] = {"I8", 1},
    [SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1}, [SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1}, [SAFETENSORS_I16] = {"I16", 2},
    [SAFETENSORS_U16] = {"U16", 2},         [SAFETENSORS_F16] = {"F16", 2},         [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_I32] = {"I32", 4},         [SAFETENSORS_U32] = {"U32", 4},         [SAFETENSORS_F32] = {"F32", 4},
    [SAFETENSORS_F64] = {"F64", 8},         [SAFETENSORS_I64] = {"I64", 8},         [SAFETENSORS_U64] = {"U64", 8},
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

bool safetensors_dtype_find(const char *name, enum safetensors_dtype *dtype)
{
    for (int d = 0; d < SAFETENSORS_DTYPES; d++)
        if (strcmp(dtypes[d].name, name) == 0) {
            *dtype = (enum safetensors_dtype)d;
            return true;
        }
    return false;
}

int64_t safetensors_dtype_size(enum safetensors_dtype dtype)
{
    return dtypes[dtype].size;
}

int64_t safetensors_dtype_bytes(enum safetensors_dtype dtype, int dims, const int64_t *shape)
{
    int64_t bytes = dtypes[dtype].size;
    for (int i = 0; i < dims; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return -1;
    return bytes;
}

/* Converts IEEE 754 binary16: 5 bits of exponent with bias 15, 10 of mantissa. */
static float f16_to_f32(uint16_t half)
{
    const uint32_t exponent = half >> 10 & 31u, mantissa = half & 1023u;
    uint32_t bits = mantissa << 13;
    float value;
    if (exponent == 0) { /* denormal or zero: in units of 2^-24 */
        value = (float)mantissa * 0x1p-24f;
        return half >> 15 ? -value : value;
    }
    bits |= exponent == 31 ? 0x7f800000u : (exponent + 127 - 15) << 23;
    bits |= (uint32_t)(half >> 15) << 31;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Loads an element of an array that may be unaligned. */
static uint16_t load_u16(const void *in, int64_t i)
{
    uint16_t bits;
    memcpy(&bits, (const char *)in + i * (int64_t)sizeof bits, sizeof bits);
    return bits;
}

bool safetensors_to_float(enum safetensors_dtype dtype, const void *in, int64_t n, float *out)
{
    if (dtype == SAFETENSORS_F32)
        memcpy(out, in, (size_t)n * sizeof *out);
    else if (dtype == SAFETENSORS_BF16)
        for (int64_t i = 0; i < n; i++)
            out[i] = bf16_to_f32(load_u16(in, i));
    else if (dtype == SAFETENSORS_F16)
        for (int64_t i = 0; i < n; i++)
            out[i] = f16_to_f32(load_u16(in, i));
    else
        return false;
    return true;
}

bool safetensors_from_float(enum safetensors_dtype dtype, const float *in, int64_t n, void *out)
{
    if (dtype == SAFETENSORS_F32)
        memcpy(out, in, (size_t)n * sizeof *in);
    else if (dtype == SAFETENSORS_BF16)
        for (int64_t i = 0; i < n; i++) {
            uint16_t bits = f32_to_bf16(in[i]);
            memcpy((char *)out + i * (int64_t)sizeof bits, &bits, sizeof bits);
        }
    else
        return false;
    return true;
}
