/* The table of ops: one row each, with its tensors, how it uses them, and their types and shapes. */
#include "core/op.h"

/* -- Rows: what an op does with each tensor, the types that the tensor may have, and its shape ------------------- */

enum {
    F32 = 1 << DTYPE_F32,
    F64 = 1 << DTYPE_F64,
    BF16 = 1 << DTYPE_BF16,
    I32 = 1 << DTYPE_I32,
    I16 = 1 << DTYPE_I16,
    STAT = F32 | F64,
    FLOAT = STAT | BF16,
    EIGHT_BIT = 1 << DTYPE_E4M3 | 1 << DTYPE_E5M2,
    ANY = (1 << DTYPE_COUNT) - 1,
    SAME = 0 /* the type of the op's first field */
};

enum { OPTIONAL = 4 /* with enum op_access: the tensor may be absent */ };

#define FLAG(op, flag) offsetof(struct op##_args, flag)
#define ROW(op, member, how, dtypes, shape, accumulate, overwrite, transpose)                                          \
    {                                                                                                                  \
#member, offsetof(struct op##_args, member), (how)&OP_READ_WRITE, ((how)&OPTIONAL) != 0, dtypes, shape,        \
            accumulate, overwrite, transpose                                                                           \
    }
#define FIELD(op, member, how, dtypes, shape) ROW(op, member, how, dtypes, shape, 0, 0, 0)
#define ACCUMULATED_BY(op, flag, member, how, dtypes, shape) ROW(op, member, how, dtypes, shape, FLAG(op, flag), 0, 0)
#define ACCUMULATED(op, member, how, dtypes, shape) ACCUMULATED_BY(op, accumulate, member, how, dtypes, shape)
#define OVERWRITTEN_BY(op, flag, member, how, dtypes, shape) ROW(op, member, how, dtypes, shape, 0, FLAG(op, flag), 0)
#define TRANSPOSED_BY(op, flag, member, how, dtypes, shape) ROW(op, member, how, dtypes, shape, 0, 0, FLAG(op, flag))

#define SEGMENT_FIELDS(op)                                                                                             \
    FIELD(op, segments.q_start, OP_READ, I32, "1 S"), FIELD(op, segments.q_length, OP_READ, I32, "1 S"),               \
        FIELD(op, segments.kv_start, OP_READ, I32, "1 S"), FIELD(op, segments.kv_length, OP_READ, I32, "1 S"),         \
        FIELD(op, segments.q_offset, OP_READ, I32, "1 S")

/* Quantized operands of a tensor [T, columns]. */
#define QUANTIZED_FIELDS_IN(op, to, columns)                                                                           \
    FIELD(op, to.row, OP_WRITE | OPTIONAL, EIGHT_BIT | BF16, "T " columns),                                            \
        FIELD(op, to.column, OP_WRITE | OPTIONAL, EIGHT_BIT | BF16, columns " P"),                                     \
        FIELD(op, to.row_scale, OP_WRITE | OPTIONAL, STAT, NULL),                                                      \
        FIELD(op, to.column_scale, OP_WRITE | OPTIONAL, STAT, NULL),                                                   \
        FIELD(op, to.scale, OP_READ | OPTIONAL, STAT, "1 1"), FIELD(op, to.draw, OP_READ | OPTIONAL, I32, "1 2"),      \
        FIELD(op, to.whole_amax, OP_READ | OPTIONAL, STAT, "1 1"),                                                     \
        FIELD(op, to.amax, OP_READ_WRITE | OPTIONAL, STAT, "1 1")
#define QUANTIZED_FIELDS(op, columns) QUANTIZED_FIELDS_IN(op, to, columns)

static const struct op_field gemm_fields[] = {
    TRANSPOSED_BY(gemm, transpose_a, a, OP_READ, FLOAT | EIGHT_BIT, "M K"),
    TRANSPOSED_BY(gemm, transpose_b, b, OP_READ, FLOAT | EIGHT_BIT, "K N"),
    FIELD(gemm, c, OP_READ | OPTIONAL, FLOAT, "M N"),
    FIELD(gemm, scale_a, OP_READ | OPTIONAL, STAT, NULL),
    FIELD(gemm, scale_b, OP_READ | OPTIONAL, STAT, NULL),
    FIELD(gemm, bias, OP_READ | OPTIONAL, FLOAT, "1 N"),
    ACCUMULATED(gemm, d, OP_WRITE, FLOAT, "M N"),
    ACCUMULATED(gemm, sum_a, OP_WRITE | OPTIONAL, STAT, "1 M"),
};
static const struct op_field embedding_forward_fields[] = {
    FIELD(embedding_forward, tokens, OP_READ, I32, "1 T"),
    FIELD(embedding_forward, scale, OP_READ | OPTIONAL, F32, "1 T"),
    FIELD(embedding_forward, weight, OP_READ, FLOAT, "V H"),
    FIELD(embedding_forward, y, OP_WRITE, FLOAT, "T H"),
    FIELD(embedding_forward, ends, OP_READ | OPTIONAL, I32, "1 E"),
};
static const struct op_field embedding_backward_fields[] = {
    FIELD(embedding_backward, tokens, OP_READ, I32, "1 T"),
    FIELD(embedding_backward, scale, OP_READ | OPTIONAL, F32, "1 T"),
    FIELD(embedding_backward, dy, OP_READ, FLOAT, "T H"),
    ACCUMULATED(embedding_backward, dweight, OP_WRITE, FLOAT, "V H"),
};
static const struct op_field rmsnorm_forward_fields[] = {
    FIELD(rmsnorm_forward, x, OP_READ, FLOAT, "T H"),
    FIELD(rmsnorm_forward, weight, OP_READ, FLOAT, "1 H"),
    FIELD(rmsnorm_forward, y, OP_WRITE, FLOAT, "T H"),
    FIELD(rmsnorm_forward, rstd, OP_WRITE, STAT, "1 T"),
};
static const struct op_field rmsnorm_backward_fields[] = {
    FIELD(rmsnorm_backward, x, OP_READ, FLOAT, "T H"),
    FIELD(rmsnorm_backward, weight, OP_READ, FLOAT, "1 H"),
    FIELD(rmsnorm_backward, rstd, OP_READ, STAT, "1 T"),
    FIELD(rmsnorm_backward, dy, OP_READ, FLOAT, "T H"),
    FIELD(rmsnorm_backward, residual, OP_READ | OPTIONAL, FLOAT, "T H"),
    FIELD(rmsnorm_backward, dx, OP_WRITE | OPTIONAL, FLOAT, "T H"),
    ACCUMULATED(rmsnorm_backward, dweight, OP_WRITE | OPTIONAL, STAT, "1 H"),
};
static const struct op_field layernorm_forward_fields[] = {
    FIELD(layernorm_forward, x, OP_READ, FLOAT, "T H"),
    FIELD(layernorm_forward, weight, OP_READ, FLOAT, "1 H"),
    FIELD(layernorm_forward, bias, OP_READ | OPTIONAL, FLOAT, "1 H"),
    FIELD(layernorm_forward, y, OP_WRITE, FLOAT, "T H"),
    FIELD(layernorm_forward, mean, OP_WRITE, STAT, "1 T"),
    FIELD(layernorm_forward, rstd, OP_WRITE, STAT, "1 T"),
};
static const struct op_field layernorm_backward_fields[] = {
    FIELD(layernorm_backward, x, OP_READ, FLOAT, "T H"),
    FIELD(layernorm_backward, weight, OP_READ, FLOAT, "1 H"),
    FIELD(layernorm_backward, mean, OP_READ, STAT, "1 T"),
    FIELD(layernorm_backward, rstd, OP_READ, STAT, "1 T"),
    FIELD(layernorm_backward, dy, OP_READ, FLOAT, "T H"),
    FIELD(layernorm_backward, residual, OP_READ | OPTIONAL, FLOAT, "T H"),
    FIELD(layernorm_backward, dx, OP_WRITE | OPTIONAL, FLOAT, "T H"),
    ACCUMULATED(layernorm_backward, dweight, OP_WRITE | OPTIONAL, STAT, "1 H"),
    ACCUMULATED(layernorm_backward, dbias, OP_WRITE | OPTIONAL, STAT, "1 H"),
    ACCUMULATED_BY(layernorm_backward, accumulate_sum, sum, OP_WRITE | OPTIONAL, STAT, "1 H"),
};
static const struct op_field head_norm_forward_fields[] = {
    FIELD(head_norm_forward, x, OP_READ, FLOAT, "T HD"),
    FIELD(head_norm_forward, weight, OP_READ, FLOAT, "1 D"),
    FIELD(head_norm_forward, y, OP_WRITE, FLOAT, "T HD"),
    FIELD(head_norm_forward, rstd, OP_WRITE, STAT, "H T"),
};
static const struct op_field head_norm_backward_fields[] = {
    FIELD(head_norm_backward, x, OP_READ, FLOAT, "T HD"),
    FIELD(head_norm_backward, weight, OP_READ, FLOAT, "1 D"),
    FIELD(head_norm_backward, rstd, OP_READ, STAT, "H T"),
    FIELD(head_norm_backward, dy, OP_READ, FLOAT, "T HD"),
    FIELD(head_norm_backward, dx, OP_WRITE | OPTIONAL, FLOAT, "T HD"),
    ACCUMULATED(head_norm_backward, dweight, OP_WRITE | OPTIONAL, STAT, "1 D"),
};
static const struct op_field rope_fields[] = {
    FIELD(rope, x, OP_READ_WRITE, FLOAT, "T ND"),
    FIELD(rope, positions, OP_READ, I32, "1 T"),
    FIELD(rope, table, OP_READ, STAT, "P D"),
};
static const struct op_field attention_forward_fields[] = {
    FIELD(attention_forward, q, OP_READ, FLOAT, "Q HD"),  FIELD(attention_forward, k, OP_READ, FLOAT, "N KD"),
    FIELD(attention_forward, v, OP_READ, FLOAT, "N KD"),  FIELD(attention_forward, o, OP_WRITE, FLOAT, "Q HD"),
    FIELD(attention_forward, lse, OP_WRITE, STAT, "H Q"), SEGMENT_FIELDS(attention_forward),
};
static const struct op_field attention_backward_fields[] = {
    FIELD(attention_backward, q, OP_READ, FLOAT, "Q HD"),
    FIELD(attention_backward, k, OP_READ, FLOAT, "N KD"),
    FIELD(attention_backward, v, OP_READ, FLOAT, "N KD"),
    FIELD(attention_backward, o, OP_READ, FLOAT, "Q HD"),
    FIELD(attention_backward, lse, OP_READ, STAT, "H Q"),
    FIELD(attention_backward, d_o, OP_READ, FLOAT, "Q HD"),
    ACCUMULATED_BY(attention_backward, accumulate_q, dq, OP_WRITE, FLOAT, "Q HD"),
    ACCUMULATED_BY(attention_backward, accumulate_kv, dk, OP_WRITE, FLOAT, "N KD"),
    ACCUMULATED_BY(attention_backward, accumulate_kv, dv, OP_WRITE, FLOAT, "N KD"),
    FIELD(attention_backward, positions, OP_READ | OPTIONAL, I32, "1 Q"),
    FIELD(attention_backward, table, OP_READ | OPTIONAL, STAT, "P D"),
    SEGMENT_FIELDS(attention_backward),
};
static const struct op_field attention_merge_fields[] = {
    FIELD(attention_merge, part_o, OP_READ, FLOAT, "T HD"),
    FIELD(attention_merge, part_lse, OP_READ, STAT, "H T"),
    OVERWRITTEN_BY(attention_merge, first, o, OP_READ_WRITE, STAT, "T HD"),
    OVERWRITTEN_BY(attention_merge, first, lse, OP_READ_WRITE, STAT, "H T"),
    FIELD(attention_merge, to, OP_WRITE | OPTIONAL, FLOAT, "T HD"),
};
static const struct op_field route_forward_fields[] = {
    FIELD(route_forward, logits, OP_READ, STAT, "T E"),
    FIELD(route_forward, experts, OP_WRITE, I32, "T C"),
    FIELD(route_forward, weights, OP_WRITE, STAT, "T C"),
};
static const struct op_field route_backward_fields[] = {
    FIELD(route_backward, logits, OP_READ, STAT, "T E"),
    FIELD(route_backward, experts, OP_READ, I32, "T C"),
    FIELD(route_backward, weights, OP_READ, STAT, "T C"),
    FIELD(route_backward, d_weights, OP_READ, STAT, "T C"),
    FIELD(route_backward, labels, OP_READ | OPTIONAL, I32, "1 T"),
    FIELD(route_backward, load, OP_READ | OPTIONAL, STAT, NULL),
    FIELD(route_backward, d_logits, OP_WRITE, FLOAT, "T E"),
};
static const struct op_field expert_load_fields[] = {
    FIELD(expert_load, experts, OP_READ, I32, "T C"),
    FIELD(expert_load, labels, OP_READ, I32, "1 T"),
    FIELD(expert_load, load, OP_WRITE, STAT, NULL),
};
static const struct op_field expert_order_fields[] = {
    FIELD(expert_order, experts, OP_READ, I32, "T C"),
    FIELD(expert_order, places, OP_WRITE, I32, "T C"),
    FIELD(expert_order, tokens, OP_WRITE, I32, "1 S"),
    FIELD(expert_order, ends, OP_WRITE, I32, "1 E"),
};
static const struct op_field expert_gemm_fields[] = {
    FIELD(expert_gemm, a, OP_READ, FLOAT, "S K"),
    FIELD(expert_gemm, b, OP_READ, SAME, NULL),
    FIELD(expert_gemm, ends, OP_READ, I32, "1 E"),
    FIELD(expert_gemm, d, OP_WRITE, SAME, "S N"),
};
static const struct op_field expert_gradient_fields[] = {
    FIELD(expert_gradient, dy, OP_READ, FLOAT, "S N"),
    FIELD(expert_gradient, x, OP_READ, SAME, "S K"),
    FIELD(expert_gradient, ends, OP_READ, I32, "1 E"),
    ACCUMULATED(expert_gradient, dweight, OP_WRITE, FLOAT, "EN K"),
};
static const struct op_field combine_forward_fields[] = {
    FIELD(combine_forward, x, OP_READ, FLOAT, "S H"),
    FIELD(combine_forward, places, OP_READ, I32, "T C"),
    FIELD(combine_forward, weights, OP_READ | OPTIONAL, STAT, "T C"),
    FIELD(combine_forward, addend, OP_READ | OPTIONAL, SAME, "T H"),
    FIELD(combine_forward, y, OP_WRITE, SAME, "T H"),
};
static const struct op_field combine_backward_fields[] = {
    FIELD(combine_backward, dy, OP_READ, FLOAT, "T H"),   FIELD(combine_backward, x, OP_READ, SAME, "S H"),
    FIELD(combine_backward, places, OP_READ, I32, "T C"), FIELD(combine_backward, weights, OP_READ, STAT, "T C"),
    FIELD(combine_backward, dx, OP_WRITE, SAME, "S H"),   FIELD(combine_backward, d_weights, OP_WRITE, STAT, "T C"),
};
static const struct op_field swiglu_forward_fields[] = {
    FIELD(swiglu_forward, x, OP_READ, FLOAT, "T 2F"),
    FIELD(swiglu_forward, y, OP_WRITE | OPTIONAL, FLOAT, "T F"),
    FIELD(swiglu_forward, ends, OP_READ | OPTIONAL, I32, "1 E"),
    QUANTIZED_FIELDS(swiglu_forward, "F"),
};
static const struct op_field swiglu_backward_fields[] = {
    FIELD(swiglu_backward, x, OP_READ, FLOAT, "T 2F"),
    FIELD(swiglu_backward, dy, OP_READ, FLOAT, "T F"),
    FIELD(swiglu_backward, dx, OP_WRITE | OPTIONAL, FLOAT, "T 2F"),
    FIELD(swiglu_backward, ends, OP_READ | OPTIONAL, I32, "1 E"),
    QUANTIZED_FIELDS(swiglu_backward, "2F"),
    QUANTIZED_FIELDS_IN(swiglu_backward, y_to, "F"),
};
static const struct op_field gelu_forward_fields[] = {
    FIELD(gelu_forward, x, OP_READ, FLOAT, "T F"),
    FIELD(gelu_forward, y, OP_WRITE | OPTIONAL, FLOAT, "T F"),
    QUANTIZED_FIELDS(gelu_forward, "F"),
};
static const struct op_field gelu_backward_fields[] = {
    FIELD(gelu_backward, x, OP_READ, FLOAT, "T F"),
    FIELD(gelu_backward, dy, OP_READ, FLOAT, "T F"),
    FIELD(gelu_backward, dx, OP_WRITE | OPTIONAL, FLOAT, "T F"),
    QUANTIZED_FIELDS(gelu_backward, "F"),
    QUANTIZED_FIELDS_IN(gelu_backward, y_to, "F"),
    ACCUMULATED(gelu_backward, sum, OP_WRITE | OPTIONAL, STAT, "1 F"),
};
static const struct op_field tanh_forward_fields[] = {
    FIELD(tanh_forward, x, OP_READ, FLOAT, "T F"),
    FIELD(tanh_forward, y, OP_WRITE, FLOAT, "T F"),
};
static const struct op_field tanh_backward_fields[] = {
    FIELD(tanh_backward, y, OP_READ, FLOAT, "T F"),
    FIELD(tanh_backward, dy, OP_READ, FLOAT, "T F"),
    FIELD(tanh_backward, dx, OP_WRITE, FLOAT, "T F"),
};
static const struct op_field xent_stat_fields[] = {
    FIELD(xent_stat, logits, OP_READ, FLOAT, "T V"),    FIELD(xent_stat, labels, OP_READ, I32, "1 T"),
    FIELD(xent_stat, loss, OP_WRITE, STAT, "1 T"),      FIELD(xent_stat, lse, OP_WRITE, STAT, "1 T"),
    FIELD(xent_stat, total, OP_READ_WRITE, F64, "1 2"),
};
static const struct op_field xent_part_fields[] = {
    FIELD(xent_part, logits, OP_READ, FLOAT, "T V"),
    FIELD(xent_part, labels, OP_READ, I32, "1 T"),
    FIELD(xent_part, statistics, OP_WRITE, STAT, "3 T"),
};
static const struct op_field xent_merge_fields[] = {
    FIELD(xent_merge, statistics, OP_READ, STAT, "3P T"), FIELD(xent_merge, labels, OP_READ, I32, "1 T"),
    FIELD(xent_merge, loss, OP_WRITE, STAT, "1 T"),       FIELD(xent_merge, lse, OP_WRITE, STAT, "1 T"),
    FIELD(xent_merge, total, OP_READ_WRITE, F64, "1 2"),
};
static const struct op_field xent_grad_fields[] = {
    FIELD(xent_grad, logits, OP_READ_WRITE, FLOAT, "T V"),
    FIELD(xent_grad, labels, OP_READ, I32, "1 T"),
    FIELD(xent_grad, lse, OP_READ, STAT, "1 T"),
};
static const struct op_field xent_both_fields[] = {
    FIELD(xent_both, logits, OP_READ_WRITE, FLOAT, "T V"),
    FIELD(xent_both, labels, OP_READ, I32, "1 T"),
    FIELD(xent_both, loss, OP_WRITE, STAT, "1 T"),
    FIELD(xent_both, total, OP_READ_WRITE, F64, "1 2"),
};
static const struct op_field mse_fields[] = {
    FIELD(mse, predictions, OP_READ, FLOAT, "T N"), FIELD(mse, labels, OP_READ, I32, "1 T"),
    FIELD(mse, targets, OP_READ, F32, "S N"),       FIELD(mse, gradient, OP_WRITE | OPTIONAL, SAME, "T N"),
    FIELD(mse, loss, OP_WRITE, STAT, "1 T"),        FIELD(mse, total, OP_READ_WRITE, F64, "1 2"),
};
static const struct op_field class_weight_fields[] = {
    FIELD(class_weight, labels, OP_READ, I32, "1 T"),
    FIELD(class_weight, weights, OP_READ, F32, "1 V"),
    FIELD(class_weight, loss, OP_READ_WRITE, STAT, "1 T"),
    FIELD(class_weight, gradient, OP_READ_WRITE | OPTIONAL, FLOAT, "T V"),
    FIELD(class_weight, total, OP_READ_WRITE, F64, "1 2"),
};
static const struct op_field copy_fields[] = {
    FIELD(copy, from, OP_READ, ANY, "M N"),
    FIELD(copy, to, OP_WRITE, SAME, "M N"),
};
static const struct op_field scatter_fields[] = {
    FIELD(scatter, from, OP_READ, FLOAT, "T N"),
    FIELD(scatter, rows, OP_READ, I32, "1 T"),
    FIELD(scatter, to, OP_READ_WRITE, SAME, "M N"),
};
static const struct op_field transpose_fields[] = {
    FIELD(transpose, from, OP_READ, EIGHT_BIT, "M N"),
    FIELD(transpose, to, OP_WRITE, SAME, "N M"),
};
static const struct op_field split_fields[] = {
    FIELD(split, from, OP_READ, F32, "1 N"),
    FIELD(split, high, OP_WRITE, BF16, "1 N"),
    FIELD(split, low, OP_WRITE | OPTIONAL, I16, "1 N"),
};
static const struct op_field join_fields[] = {
    FIELD(join, high, OP_READ, BF16, "1 N"),
    FIELD(join, low, OP_READ | OPTIONAL, I16, "1 N"),
    FIELD(join, to, OP_WRITE, F32, "1 N"),
};
static const struct op_field fill_fields[] = {
    FIELD(fill, x, OP_WRITE, FLOAT, "M N"),
};
static const struct op_field add_fields[] = {
    FIELD(add, from, OP_READ, FLOAT, "M N"),
    FIELD(add, to, OP_READ_WRITE, FLOAT, "M N"),
};
static const struct op_field multiply_fields[] = {
    FIELD(multiply, x, OP_READ_WRITE, FLOAT, "M N"),
};
static const struct op_field affine_fields[] = {
    FIELD(affine, from, OP_READ, FLOAT, "M N"),
    FIELD(affine, squares, OP_READ | OPTIONAL, F64, "1 1"),
    FIELD(affine, to, OP_WRITE, SAME, "M N"),
};
static const struct op_field dropout_fields[] = {
    FIELD(dropout, x, OP_READ, FLOAT, "T H"),
    FIELD(dropout, keys, OP_READ, I32, "1 T"),
    ACCUMULATED(dropout, y, OP_WRITE, SAME, "T H"),
};
static const struct op_field exact_add_fields[] = {
    FIELD(exact_add, from, OP_READ, STAT, "1 N"),
    ACCUMULATED(exact_add, to, OP_WRITE, F64, "1 N"),
};
static const struct op_field exact_read_fields[] = {
    FIELD(exact_read, from, OP_READ, F64, "1 N"),
    FIELD(exact_read, to, OP_WRITE, STAT, "1 N"),
};
static const struct op_field quantize_fields[] = {
    FIELD(quantize, x, OP_READ, FLOAT, "T K"),
    QUANTIZED_FIELDS(quantize, "K"),
    ACCUMULATED(quantize, sum, OP_WRITE | OPTIONAL, STAT, "1 K"),
};
static const struct op_field quantization_statistic_fields[] = {
    FIELD(quantization_statistic, x, OP_READ, FLOAT, "T K"),
    FIELD(quantization_statistic, scale, OP_READ | OPTIONAL, STAT, "1 1"),
    FIELD(quantization_statistic, result, OP_READ_WRITE, F64, "1 10"),
};
static const struct op_field delayed_scale_fields[] = {
    FIELD(delayed_scale, amax, OP_READ_WRITE, STAT, "N 1"),
    FIELD(delayed_scale, history, OP_READ_WRITE, STAT, "N L"),
    FIELD(delayed_scale, scale, OP_READ_WRITE, STAT, "N 1"),
    FIELD(delayed_scale, largest, OP_READ, STAT, "N 1"),
};
static const struct op_field sum_squares_fields[] = {
    FIELD(sum_squares, x, OP_READ, FLOAT, "M N"),
    FIELD(sum_squares, sum, OP_WRITE, F64, "1 P"),
};
static const struct op_field gradient_scale_fields[] = {
    FIELD(gradient_scale, squares, OP_READ, F64, "1 N"),
    FIELD(gradient_scale, total, OP_READ, F64, "1 2"),
    FIELD(gradient_scale, scale, OP_WRITE, STAT, "1 1"),
    FIELD(gradient_scale, norm, OP_WRITE, STAT, "1 1"),
    FIELD(gradient_scale, updates, OP_READ_WRITE, F64, "1 1"),
    FIELD(gradient_scale, corrections, OP_WRITE, STAT, "1 2"),
};
static const struct op_field adamw_fields[] = {
    FIELD(adamw, weight, OP_READ_WRITE, FLOAT, "1 N"), FIELD(adamw, low, OP_READ_WRITE | OPTIONAL, I16, "1 N"),
    FIELD(adamw, gradient, OP_READ, FLOAT, "1 N"),     FIELD(adamw, m, OP_READ_WRITE, FLOAT, "1 N"),
    FIELD(adamw, v, OP_READ_WRITE, FLOAT, "1 N"),      FIELD(adamw, step, OP_READ, STAT, "1 3"),
    FIELD(adamw, scale, OP_READ, STAT, "1 1"),
};
static const struct op_field momentum_fields[] = {
    FIELD(momentum, gradient, OP_READ, FLOAT, "1 N"),
    FIELD(momentum, m, OP_READ_WRITE, FLOAT, "1 N"),
    FIELD(momentum, update, OP_WRITE, FLOAT, "1 N"),
    FIELD(momentum, scale, OP_READ, STAT, "1 1"),
};
static const struct op_field muon_fields[] = {
    FIELD(muon, weight, OP_READ_WRITE, FLOAT, "1 N"), FIELD(muon, low, OP_READ_WRITE | OPTIONAL, I16, "1 N"),
    FIELD(muon, update, OP_READ, FLOAT, "1 N"),       FIELD(muon, rate, OP_READ, STAT, "1 1"),
    FIELD(muon, scale, OP_READ, STAT, "1 1"),
};
static const struct op_field all_reduce_fields[] = {
    FIELD(all_reduce, x, OP_READ_WRITE, FLOAT, "M N"),
    FIELD(all_reduce, scratch, OP_WRITE | OPTIONAL, SAME, "R P"),
};
static const struct op_field reduce_scatter_fields[] = {
    FIELD(reduce_scatter, in, OP_READ, FLOAT, "R N"),
    FIELD(reduce_scatter, out, OP_WRITE, SAME, "1 N"),
    FIELD(reduce_scatter, scratch, OP_WRITE | OPTIONAL, SAME, "R N"),
};
static const struct op_field all_gather_fields[] = {
    FIELD(all_gather, in, OP_READ, ANY, "1 N"),
    FIELD(all_gather, out, OP_WRITE, SAME, "R N"),
};
static const struct op_field broadcast_fields[] = {
    FIELD(broadcast, x, OP_READ_WRITE, ANY, "M N"),
};
static const struct op_field all_to_all_fields[] = {
    FIELD(all_to_all, in, OP_READ, ANY, "R N"),
    FIELD(all_to_all, out, OP_WRITE, SAME, "R N"),
};
static const struct op_field shift_fields[] = {
    FIELD(shift, in, OP_READ, ANY, "1 N"),
    FIELD(shift, out, OP_WRITE, SAME, "1 N"),
};
static const struct op_field send_receive_fields[] = {
    FIELD(send_receive, to_next, OP_READ | OPTIONAL, ANY, "M N"),
    FIELD(send_receive, from_previous, OP_WRITE | OPTIONAL, ANY, NULL),
    FIELD(send_receive, to_previous, OP_READ | OPTIONAL, ANY, NULL),
    FIELD(send_receive, from_next, OP_WRITE | OPTIONAL, ANY, NULL),
};

_Static_assert(XENT_STATISTICS == 3 && STATISTICS == 10 && ADAMW_STEP_COUNT == 3, "numbers in the rows' shapes");

static const struct op_info table[OP_COUNT] = {
#define INFO(NAME, name, collective)                                                                                   \
    [OP_##NAME] = {#name, sizeof(struct name##_args), collective, name##_fields,                                       \
                   sizeof name##_fields / sizeof *name##_fields},
#define X(NAME, name) INFO(NAME, name, false)
    OP_DEVICE_TABLE(X)
#undef X
#define X(NAME, name) INFO(NAME, name, true)
        OP_COLLECTIVE_TABLE(X)
#undef X
#undef INFO
};

#define X(NAME, name) _Static_assert(offsetof(struct name##_args, group) == 0, "a collective's first argument");
OP_COLLECTIVE_TABLE(X)
#undef X

const struct op_info *op_info(enum op op)
{
    return &table[op];
}

const struct tensor *op_tensor(enum op op, const void *args, int field)
{
    return (const struct tensor *)((const char *)args + table[op].fields[field].offset);
}

int op_field_access(enum op op, const void *args, int field)
{
    const struct op_field *f = &table[op].fields[field];
    if (f->accumulate != 0 && *(const bool *)((const char *)args + f->accumulate))
        return OP_READ_WRITE;
    if (f->overwrite != 0 && *(const bool *)((const char *)args + f->overwrite))
        return OP_WRITE;
    return f->access;
}

struct group *op_group(enum op op, const void *args)
{
    return table[op].collective ? *(struct group *const *)args : NULL;
}
