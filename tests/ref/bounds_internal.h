/* Shared by the bounds of all ops. */
#ifndef TESTS_REF_BOUNDS_INTERNAL_H
#define TESTS_REF_BOUNDS_INTERNAL_H

#include "bounds.h"
#include "reference.h"

#include <math.h>

/* Unit roundoff of fp32: one operation is off by at most this, relatively. */
#define BOUNDS_U 0x1p-24

/* What exp, log, sqrt and 1 / x of an executor may be off by, relatively: four units in the last place. */
#define BOUNDS_FUNCTION (8.0 * BOUNDS_U)

/* Where exp is smaller than this, an executor that keeps the argument within fp32's range (+-88) may give up to this.
 */
#define BOUNDS_EXP_FLOOR 0x1p-120

/* n roundings one after the other, and so any sum of n products with its multiplications. */
static inline double bounds_gamma(double n)
{
    return n * BOUNDS_U / (1.0 - n * BOUNDS_U);
}

static inline double bounds_absolute(const struct tensor *x, int64_t row, int64_t col)
{
    return fabs(reference_load(x, row, col));
}

/* What matrix units may round a value by on its way to or from a tensor of this type; 0 without them. */
double bounds_matrix_unit(const struct tensor *tensor);

/* bounds_layer.c */
void bounds_rmsnorm_forward(struct trial *trial, const struct rmsnorm_forward_args *args);
void bounds_rmsnorm_backward(struct trial *trial, const struct rmsnorm_backward_args *args);
void bounds_layernorm_forward(struct trial *trial, const struct layernorm_forward_args *args);
void bounds_layernorm_backward(struct trial *trial, const struct layernorm_backward_args *args);
void bounds_rope(struct trial *trial, const struct rope_args *args);
void bounds_swiglu_forward(struct trial *trial, const struct swiglu_forward_args *args);
void bounds_swiglu_backward(struct trial *trial, const struct swiglu_backward_args *args);
void bounds_gelu_forward(struct trial *trial, const struct gelu_forward_args *args);
void bounds_gelu_backward(struct trial *trial, const struct gelu_backward_args *args);

/* bounds_quantization.c */
void bounds_quantize(struct trial *trial, const struct quantize_args *args);
void bounds_quantization_statistic(struct trial *trial, const struct quantization_statistic_args *args);

/* bounds_attention.c */
void bounds_attention_forward(struct trial *trial, const struct attention_forward_args *args);
void bounds_attention_backward(struct trial *trial, const struct attention_backward_args *args);
void bounds_attention_merge(struct trial *trial, const struct attention_merge_args *args);

#endif
