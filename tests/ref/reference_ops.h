/* The oracle's ops: reference_NAME runs the op NAME in double. Collectives of groups of several processes are not here:
 * the executor passes them to the group's table. */
#ifndef TESTS_REF_REFERENCE_OPS_H
#define TESTS_REF_REFERENCE_OPS_H

#include "base/range.h"
#include "core/op.h"

#define X(NAME, name) void reference_##name(const struct name##_args *args);
OP_DEVICE_TABLE(X)
#undef X

/* reference_matrix.c */

/* Split an f32 number: reference_high returns the nearest bf16 (ties away from zero), reference_low the remainder, in
 * units in the last place of f32 numbers of that magnitude. reference_joined returns the number. */
double reference_high(double x);
double reference_low(double x);
double reference_joined(double high, double low);

/* reference_quantization.c */
/* Returns the scale of element (row, col) of a quantized operand; 1 where `scale` is absent. */
double reference_scale(const struct tensor *scale, enum scaling scaling, int64_t row, int64_t col);
/* Makes the quantized operands of x. */
void reference_quantized(const struct tensor *x, const struct quantized_operands *to);
/* For ops that also quantize their result y. reference_made returns the tensor to write: y, or memory of its own if y
 * is absent. reference_made_end quantizes the tensor, and frees that memory. */
struct tensor reference_made(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);
void reference_made_end(const struct tensor *made, const struct tensor *y, const struct quantized_operands *to);

/* reference_matrix.c */

/* Return element (i, l) of op(a), and (l, j) of op(b), with their scales. */
double reference_left_operand(const struct gemm_args *args, int64_t i, int64_t l);
double reference_right_operand(const struct gemm_args *args, int64_t l, int64_t j);

/* reference_attention.c */

/* One slot of the segment tables. */
struct reference_span {
    int64_t q_start, q_length, kv_start, kv_length, q_offset;
};
struct reference_span reference_span(const struct attention_segments *segments, int64_t slot);
/* Returns the keys of the slot's segment that query i sees. */
struct index_range reference_visible_keys(const struct reference_span *span, int64_t i, bool causal, int64_t window);

#endif
