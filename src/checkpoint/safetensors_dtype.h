/* Element types of safetensors files: names, sizes, and conversion to and from float. Source of the names:
 * github.com/huggingface/safetensors, README ("Format"). */
#ifndef CHECKPOINT_SAFETENSORS_DTYPE_H
#define CHECKPOINT_SAFETENSORS_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum safetensors_dtype {
    SAFETENSORS_BOOL,
    SAFETENSORS_U8,
    SAFETENSORS_I8,
    SAFETENSORS_F8_E4M3,
    SAFETENSORS_F8_E5M2,
    SAFETENSORS_I16,
    SAFETENSORS_U16,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I32,
    SAFETENSORS_U32,
    SAFETENSORS_F32,
    SAFETENSORS_F64,
    SAFETENSORS_I64,
    SAFETENSORS_U64,
    SAFETENSORS_DTYPES
};

/* Returns the name in a header: "BF16". */
const char *safetensors_dtype_name(enum safetensors_dtype dtype);
/* Finds the type of a name; returns false if there is none. */
bool safetensors_dtype_find(const char *name, enum safetensors_dtype *dtype);
/* Returns the bytes per element. */
int64_t safetensors_dtype_size(enum safetensors_dtype dtype);
/* Returns the bytes of a tensor of shape [shape[0], ..., shape[dims - 1]], each at least 0; dims = 0 is one element.
 * -1: the number does not fit int64_t. */
int64_t safetensors_dtype_bytes(enum safetensors_dtype dtype, int dims, const int64_t *shape);

/* Converts in[n] to out[n] exactly (a NaN stays a NaN). Returns false and does nothing unless dtype is F32, BF16 or
 * F16. */
bool safetensors_to_float(enum safetensors_dtype dtype, const void *in, int64_t n, float *out);
/* Rounds in[n] to out[n], to nearest with ties to even. Returns false and does nothing unless dtype is F32 or BF16. */
bool safetensors_from_float(enum safetensors_dtype dtype, const float *in, int64_t n, void *out);

#endif
