/* The oracle's ops, one function each: void reference_NAME(const struct NAME_args *). Collectives of groups larger
 * than one process are not here: the executor hands them to the group's table. */
#ifndef TESTS_REF_REFERENCE_OPS_H
#define TESTS_REF_REFERENCE_OPS_H

#include "core/op.h"

/* reference_matrix.c */
void reference_gemm(const struct gemm_args *args);
void reference_embedding_forward(const struct embedding_forward_args *args);
void reference_embedding_backward(const struct embedding_backward_args *args);
void reference_copy(const struct copy_args *args);
void reference_scatter(const struct scatter_args *args);
void reference_transpose(const struct transpose_args *args);
void reference_split(const struct split_args *args);
void reference_join(const struct join_args *args);
void reference_fill(const struct fill_args *args);
void reference_add(const struct add_args *args);
void reference_exact_add(const struct exact_add_args *args);
void reference_exact_read(const struct exact_read_args *args);

/* An f32 number as the nearest bf16 (ties away from zero) and what that is short of it, in units of the last place of
 * the f32 numbers between them; and back. */
double reference_high(double x);
double reference_low(double x);
double reference_joined(double high, double low);

/* reference_quantization.c */
void reference_quantize(const struct quantize_args *args);
void reference_quantization_statistic(const struct quantization_statistic_args *args);
void reference_delayed_scale(const struct delayed_scale_args *args);
/* The scale of element (row, col) of a copy; 1 where `scale` is absent. */
double reference_scale(const struct tensor *scale, enum scaling scaling, int64_t row, int64_t col);
/* The copies of x. */
void reference_copies(const struct tensor *x, const struct quantized_copies *to);
/* Where an op with copies writes y: to y, or, where that is absent, to memory of its own. reference_made_end makes the
 * copies of it, and frees that memory. */
struct tensor reference_made(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);
void reference_made_end(const struct tensor *made, const struct tensor *y, const struct quantized_copies *to);

/* reference_layer.c */
void reference_rmsnorm_forward(const struct rmsnorm_forward_args *args);
void reference_rmsnorm_backward(const struct rmsnorm_backward_args *args);
void reference_layernorm_forward(const struct layernorm_forward_args *args);
void reference_layernorm_backward(const struct layernorm_backward_args *args);
void reference_rope(const struct rope_args *args);
void reference_swiglu_forward(const struct swiglu_forward_args *args);
void reference_swiglu_backward(const struct swiglu_backward_args *args);
void reference_gelu_forward(const struct gelu_forward_args *args);
void reference_gelu_backward(const struct gelu_backward_args *args);

/* reference_attention.c */

/* One segment slot, read from the tables. */
struct reference_span {
    int64_t q_start, q_length, kv_start, kv_length, q_offset;
};
struct reference_span reference_span(const struct attention_segments *segments, int64_t slot);
/* Keys 0 .. this - 1 of the slot's segment are seen by its query i. */
int64_t reference_visible_keys(const struct reference_span *span, int64_t i, bool causal);

void reference_attention_forward(const struct attention_forward_args *args);
void reference_attention_backward(const struct attention_backward_args *args);
void reference_attention_merge(const struct attention_merge_args *args);

/* reference_training.c */
void reference_xent_stat(const struct xent_stat_args *args);
void reference_xent_part(const struct xent_part_args *args);
void reference_xent_merge(const struct xent_merge_args *args);
void reference_xent_grad(const struct xent_grad_args *args);
void reference_xent_both(const struct xent_both_args *args);
void reference_sum_squares(const struct sum_squares_args *args);
void reference_gradient_scale(const struct gradient_scale_args *args);
void reference_adamw(const struct adamw_args *args);

#endif
