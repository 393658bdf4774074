/* The table of ops: names, tensors, access. */
#include "core/op.h"
#include "core/group.h"

#define FIELD(op, member, how)                                                                                         \
    {                                                                                                                  \
#member, offsetof(struct op##_args, member), how, false, 0, 0                                                  \
    }
#define OPTIONAL(op, member, how)                                                                                      \
    {                                                                                                                  \
#member, offsetof(struct op##_args, member), how, true, 0, 0                                                   \
    }
#define ACCUMULATED_BY(op, member, flag, is_optional)                                                                  \
    {                                                                                                                  \
#member, offsetof(struct op##_args, member), OP_WRITE, is_optional, offsetof(struct op##_args, flag), 0        \
    }
#define OVERWRITTEN_BY(op, member, flag)                                                                               \
    {                                                                                                                  \
#member, offsetof(struct op##_args, member), OP_READ_WRITE, false, 0, offsetof(struct op##_args, flag)         \
    }
#define ACCUMULATED(op, member, is_optional) ACCUMULATED_BY(op, member, accumulate, is_optional)

#define SEGMENT_FIELDS(op)                                                                                             \
    FIELD(op, segments.q_start, OP_READ), FIELD(op, segments.q_length, OP_READ),                                       \
        FIELD(op, segments.kv_start, OP_READ), FIELD(op, segments.kv_length, OP_READ),                                 \
        FIELD(op, segments.q_offset, OP_READ)

#define COPIES_FIELDS(op)                                                                                              \
    OPTIONAL(op, to.row, OP_WRITE), OPTIONAL(op, to.column, OP_WRITE), OPTIONAL(op, to.row_scale, OP_WRITE),           \
        OPTIONAL(op, to.column_scale, OP_WRITE), OPTIONAL(op, to.scale, OP_READ), OPTIONAL(op, to.draw, OP_READ),      \
        OPTIONAL(op, to.whole_amax, OP_READ), OPTIONAL(op, to.amax, OP_READ_WRITE)

static const struct op_field gemm_fields[] = {
    FIELD(gemm, a, OP_READ),          FIELD(gemm, b, OP_READ),          OPTIONAL(gemm, c, OP_READ),
    OPTIONAL(gemm, scale_a, OP_READ), OPTIONAL(gemm, scale_b, OP_READ), OPTIONAL(gemm, bias, OP_READ),
    ACCUMULATED(gemm, d, false),      ACCUMULATED(gemm, sum_a, true),
};
static const struct op_field embedding_forward_fields[] = {
    FIELD(embedding_forward, tokens, OP_READ),
    OPTIONAL(embedding_forward, scale, OP_READ),
    FIELD(embedding_forward, weight, OP_READ),
    FIELD(embedding_forward, y, OP_WRITE),
};
static const struct op_field embedding_backward_fields[] = {
    FIELD(embedding_backward, tokens, OP_READ),
    OPTIONAL(embedding_backward, scale, OP_READ),
    FIELD(embedding_backward, dy, OP_READ),
    ACCUMULATED(embedding_backward, dweight, false),
};
static const struct op_field rmsnorm_forward_fields[] = {
    FIELD(rmsnorm_forward, x, OP_READ),
    FIELD(rmsnorm_forward, weight, OP_READ),
    FIELD(rmsnorm_forward, y, OP_WRITE),
    FIELD(rmsnorm_forward, rstd, OP_WRITE),
};
static const struct op_field rmsnorm_backward_fields[] = {
    FIELD(rmsnorm_backward, x, OP_READ),           FIELD(rmsnorm_backward, weight, OP_READ),
    FIELD(rmsnorm_backward, rstd, OP_READ),        FIELD(rmsnorm_backward, dy, OP_READ),
    OPTIONAL(rmsnorm_backward, residual, OP_READ), OPTIONAL(rmsnorm_backward, dx, OP_WRITE),
    ACCUMULATED(rmsnorm_backward, dweight, true),
};
static const struct op_field layernorm_forward_fields[] = {
    FIELD(layernorm_forward, x, OP_READ),     FIELD(layernorm_forward, weight, OP_READ),
    FIELD(layernorm_forward, bias, OP_READ),  FIELD(layernorm_forward, y, OP_WRITE),
    FIELD(layernorm_forward, mean, OP_WRITE), FIELD(layernorm_forward, rstd, OP_WRITE),
};
static const struct op_field layernorm_backward_fields[] = {
    FIELD(layernorm_backward, x, OP_READ),        FIELD(layernorm_backward, weight, OP_READ),
    FIELD(layernorm_backward, mean, OP_READ),     FIELD(layernorm_backward, rstd, OP_READ),
    FIELD(layernorm_backward, dy, OP_READ),       OPTIONAL(layernorm_backward, residual, OP_READ),
    OPTIONAL(layernorm_backward, dx, OP_WRITE),   ACCUMULATED(layernorm_backward, dweight, true),
    ACCUMULATED(layernorm_backward, dbias, true), ACCUMULATED_BY(layernorm_backward, sum, accumulate_sum, true),
};
static const struct op_field rope_fields[] = {
    FIELD(rope, x, OP_READ_WRITE),
    FIELD(rope, positions, OP_READ),
    FIELD(rope, table, OP_READ),
};
static const struct op_field attention_forward_fields[] = {
    FIELD(attention_forward, q, OP_READ),    FIELD(attention_forward, k, OP_READ),
    FIELD(attention_forward, v, OP_READ),    FIELD(attention_forward, o, OP_WRITE),
    FIELD(attention_forward, lse, OP_WRITE), SEGMENT_FIELDS(attention_forward),
};
static const struct op_field attention_backward_fields[] = {
    FIELD(attention_backward, q, OP_READ),
    FIELD(attention_backward, k, OP_READ),
    FIELD(attention_backward, v, OP_READ),
    FIELD(attention_backward, o, OP_READ),
    FIELD(attention_backward, lse, OP_READ),
    FIELD(attention_backward, d_o, OP_READ),
    ACCUMULATED_BY(attention_backward, dq, accumulate_q, false),
    ACCUMULATED_BY(attention_backward, dk, accumulate_kv, false),
    ACCUMULATED_BY(attention_backward, dv, accumulate_kv, false),
    OPTIONAL(attention_backward, positions, OP_READ),
    OPTIONAL(attention_backward, table, OP_READ),
    SEGMENT_FIELDS(attention_backward),
};
static const struct op_field attention_merge_fields[] = {
    FIELD(attention_merge, part_o, OP_READ),   FIELD(attention_merge, part_lse, OP_READ),
    OVERWRITTEN_BY(attention_merge, o, first), OVERWRITTEN_BY(attention_merge, lse, first),
    OPTIONAL(attention_merge, to, OP_WRITE),
};
static const struct op_field swiglu_forward_fields[] = {
    FIELD(swiglu_forward, x, OP_READ),
    OPTIONAL(swiglu_forward, y, OP_WRITE),
    COPIES_FIELDS(swiglu_forward),
};
static const struct op_field swiglu_backward_fields[] = {
    FIELD(swiglu_backward, x, OP_READ),
    FIELD(swiglu_backward, dy, OP_READ),
    OPTIONAL(swiglu_backward, dx, OP_WRITE),
    COPIES_FIELDS(swiglu_backward),
};
static const struct op_field gelu_forward_fields[] = {
    FIELD(gelu_forward, x, OP_READ),
    OPTIONAL(gelu_forward, y, OP_WRITE),
    COPIES_FIELDS(gelu_forward),
};
static const struct op_field gelu_backward_fields[] = {
    FIELD(gelu_backward, x, OP_READ), FIELD(gelu_backward, dy, OP_READ),     OPTIONAL(gelu_backward, dx, OP_WRITE),
    COPIES_FIELDS(gelu_backward),     ACCUMULATED(gelu_backward, sum, true),
};
static const struct op_field xent_stat_fields[] = {
    FIELD(xent_stat, logits, OP_READ), FIELD(xent_stat, labels, OP_READ),      FIELD(xent_stat, loss, OP_WRITE),
    FIELD(xent_stat, lse, OP_WRITE),   FIELD(xent_stat, total, OP_READ_WRITE),
};
static const struct op_field xent_part_fields[] = {
    FIELD(xent_part, logits, OP_READ),
    FIELD(xent_part, labels, OP_READ),
    FIELD(xent_part, statistics, OP_WRITE),
};
static const struct op_field xent_merge_fields[] = {
    FIELD(xent_merge, statistics, OP_READ), FIELD(xent_merge, labels, OP_READ),      FIELD(xent_merge, loss, OP_WRITE),
    FIELD(xent_merge, lse, OP_WRITE),       FIELD(xent_merge, total, OP_READ_WRITE),
};
static const struct op_field xent_grad_fields[] = {
    FIELD(xent_grad, logits, OP_READ_WRITE),
    FIELD(xent_grad, labels, OP_READ),
    FIELD(xent_grad, lse, OP_READ),
};
static const struct op_field xent_both_fields[] = {
    FIELD(xent_both, logits, OP_READ_WRITE),
    FIELD(xent_both, labels, OP_READ),
    FIELD(xent_both, loss, OP_WRITE),
    FIELD(xent_both, total, OP_READ_WRITE),
};
static const struct op_field copy_fields[] = {FIELD(copy, from, OP_READ), FIELD(copy, to, OP_WRITE)};
static const struct op_field scatter_fields[] = {
    FIELD(scatter, from, OP_READ),
    FIELD(scatter, rows, OP_READ),
    FIELD(scatter, to, OP_READ_WRITE),
};
static const struct op_field transpose_fields[] = {FIELD(transpose, from, OP_READ), FIELD(transpose, to, OP_WRITE)};
static const struct op_field split_fields[] = {
    FIELD(split, from, OP_READ),
    FIELD(split, high, OP_WRITE),
    OPTIONAL(split, low, OP_WRITE),
};
static const struct op_field join_fields[] = {
    FIELD(join, high, OP_READ),
    OPTIONAL(join, low, OP_READ),
    FIELD(join, to, OP_WRITE),
};
static const struct op_field fill_fields[] = {FIELD(fill, x, OP_WRITE)};
static const struct op_field add_fields[] = {FIELD(add, from, OP_READ), FIELD(add, to, OP_READ_WRITE)};
static const struct op_field exact_add_fields[] = {FIELD(exact_add, from, OP_READ), ACCUMULATED(exact_add, to, false)};
static const struct op_field exact_read_fields[] = {FIELD(exact_read, from, OP_READ), FIELD(exact_read, to, OP_WRITE)};
static const struct op_field quantize_fields[] = {
    FIELD(quantize, x, OP_READ),
    COPIES_FIELDS(quantize),
    ACCUMULATED(quantize, sum, true),
};
static const struct op_field quantization_statistic_fields[] = {
    FIELD(quantization_statistic, x, OP_READ),
    OPTIONAL(quantization_statistic, scale, OP_READ),
    FIELD(quantization_statistic, result, OP_READ_WRITE),
};
static const struct op_field delayed_scale_fields[] = {
    FIELD(delayed_scale, amax, OP_READ_WRITE),
    FIELD(delayed_scale, history, OP_READ_WRITE),
    FIELD(delayed_scale, scale, OP_READ_WRITE),
    FIELD(delayed_scale, largest, OP_READ),
};
static const struct op_field sum_squares_fields[] = {FIELD(sum_squares, x, OP_READ), FIELD(sum_squares, sum, OP_WRITE)};
static const struct op_field gradient_scale_fields[] = {
    FIELD(gradient_scale, squares, OP_READ),       FIELD(gradient_scale, total, OP_READ),
    FIELD(gradient_scale, scale, OP_WRITE),        FIELD(gradient_scale, norm, OP_WRITE),
    FIELD(gradient_scale, updates, OP_READ_WRITE), FIELD(gradient_scale, corrections, OP_WRITE),
};
static const struct op_field adamw_fields[] = {
    FIELD(adamw, weight, OP_READ_WRITE), OPTIONAL(adamw, low, OP_READ_WRITE), FIELD(adamw, gradient, OP_READ),
    FIELD(adamw, m, OP_READ_WRITE),      FIELD(adamw, v, OP_READ_WRITE),      FIELD(adamw, step, OP_READ),
    FIELD(adamw, scale, OP_READ),
};
static const struct op_field all_reduce_fields[] = {
    FIELD(all_reduce, x, OP_READ_WRITE),
    OPTIONAL(all_reduce, room, OP_WRITE),
};
static const struct op_field reduce_scatter_fields[] = {
    FIELD(reduce_scatter, in, OP_READ),
    FIELD(reduce_scatter, out, OP_WRITE),
    OPTIONAL(reduce_scatter, room, OP_WRITE),
};
static const struct op_field all_gather_fields[] = {FIELD(all_gather, in, OP_READ), FIELD(all_gather, out, OP_WRITE)};
static const struct op_field broadcast_fields[] = {FIELD(broadcast, x, OP_READ_WRITE)};
static const struct op_field all_to_all_fields[] = {FIELD(all_to_all, in, OP_READ), FIELD(all_to_all, out, OP_WRITE)};
static const struct op_field shift_fields[] = {FIELD(shift, in, OP_READ), FIELD(shift, out, OP_WRITE)};
static const struct op_field relay_fields[] = {
    OPTIONAL(relay, to_next, OP_READ), OPTIONAL(relay, from_before, OP_WRITE), OPTIONAL(relay, to_before, OP_READ),
    OPTIONAL(relay, from_next, OP_WRITE)};

static const struct op_info table[OP_COUNT] = {
#define X(NAME, name)                                                                                                  \
    [OP_##NAME] = {#name, sizeof(struct name##_args), name##_fields, sizeof name##_fields / sizeof *name##_fields},
    OP_TABLE(X)
#undef X
};

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
