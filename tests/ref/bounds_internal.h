/* Definitions that the bounds of all ops share. */
#ifndef TESTS_REF_BOUNDS_INTERNAL_H
#define TESTS_REF_BOUNDS_INTERNAL_H

#include "bounds.h"
#include "reference.h"

#include <math.h>

/* Unit roundoff of fp32: the relative error of one operation is at most this. */
#define BOUNDS_U 0x1p-24

/* Allowed relative error of an executor's exp, log, sqrt and 1 / x: four units in the last place. */
#define BOUNDS_FUNCTION (8.0 * BOUNDS_U)

/* An executor that clamps the argument of exp to fp32's range (+-88) may return up to this where exp is smaller. */
#define BOUNDS_EXP_FLOOR 0x1p-120

/* Error factor of n consecutive roundings, and hence of any sum of n products including the multiplications. */
static inline double bounds_gamma(double n)
{
    return n * BOUNDS_U / (1.0 - n * BOUNDS_U);
}

static inline double bounds_absolute(const struct tensor *x, int64_t row, int64_t col)
{
    return fabs(reference_load(x, row, col));
}

/* Returns the relative rounding of a value by matrix units on its way to or from a tensor of this type; 0 without
 * bounds_of_matrix_units. */
double bounds_matrix_unit(const struct tensor *tensor);

/* bounds_layer.c */
void bounds_rmsnorm_forward(struct trial *trial, const struct rmsnorm_forward_args *args);
void bounds_rmsnorm_backward(struct trial *trial, const struct rmsnorm_backward_args *args);
void bounds_head_norm_forward(struct trial *trial, const struct head_norm_forward_args *args);
void bounds_head_norm_backward(struct trial *trial, const struct head_norm_backward_args *args);
void bounds_layernorm_forward(struct trial *trial, const struct layernorm_forward_args *args);
void bounds_layernorm_backward(struct trial *trial, const struct layernorm_backward_args *args);
void bounds_rope(struct trial *trial, const struct rope_args *args);
void bounds_swiglu_forward(struct trial *trial, const struct swiglu_forward_args *args);
void bounds_swiglu_backward(struct trial *trial, const struct swiglu_backward_args *args);
void bounds_dropout(struct trial *trial, const struct dropout_args *args);
void bounds_tanh_forward(struct trial *trial, const struct tanh_forward_args *args);
void bounds_tanh_backward(struct trial *trial, const struct tanh_backward_args *args);
void bounds_gelu_forward(struct trial *trial, const struct gelu_forward_args *args);
void bounds_gelu_backward(struct trial *trial, const struct gelu_backward_args *args);

/* bounds_experts.c */
void bounds_route_forward(struct trial *trial, const struct route_forward_args *args);
void bounds_route_backward(struct trial *trial, const struct route_backward_args *args);
void bounds_expert_gemm(struct trial *trial, const struct expert_gemm_args *args);
void bounds_expert_gradient(struct trial *trial, const struct expert_gradient_args *args);
void bounds_combine_forward(struct trial *trial, const struct combine_forward_args *args);
void bounds_combine_backward(struct trial *trial, const struct combine_backward_args *args);

/* bounds_quantization.c */
void bounds_quantize(struct trial *trial, const struct quantize_args *args);
void bounds_quantization_statistic(struct trial *trial, const struct quantization_statistic_args *args);

/* bounds_attention.c */
void bounds_attention_forward(struct trial *trial, const struct attention_forward_args *args);
void bounds_attention_backward(struct trial *trial, const struct attention_backward_args *args);
void bounds_attention_merge(struct trial *trial, const struct attention_merge_args *args);

#endif
