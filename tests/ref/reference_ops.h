/* The oracle's ops: reference_NAME runs the op NAME in double. Collectives of groups larger than one process are not
 * here: the executor hands them to the group's table. */
#ifndef TESTS_REF_REFERENCE_OPS_H
#define TESTS_REF_REFERENCE_OPS_H

#include "core/op.h"

#define X(NAME, name) void reference_##name(const struct name##_args *args);
OP_DEVICE_TABLE(X)
#undef X

/* reference_matrix.c */

/* An f32 number as the nearest bf16 (ties away from zero) and what that is short of it, in units of the last place of
 * the f32 numbers between them; and back. */
double reference_high(double x);
double reference_low(double x);
double reference_joined(double high, double low);

/* reference_quantization.c */
/* The scale of element (row, col) of a copy; 1 where `scale` is absent. */
double reference_scale(const struct tensor *scale, enum scaling scaling, int64_t row, int64_t col);
/* The copies of x. */
void reference_copies(const struct tensor *x, const struct quantized_copies *to);
/* Where an op with copies writes y: to y, or, where that is absent, to memory of its own. reference_made_end makes the
 * copies of it, and frees that memory. */
struct tensor reference_made(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols);
void reference_made_end(const struct tensor *made, const struct tensor *y, const struct quantized_copies *to);

/* reference_attention.c */

/* One segment slot, read from the tables. */
struct reference_span {
    int64_t q_start, q_length, kv_start, kv_length, q_offset;
};
struct reference_span reference_span(const struct attention_segments *segments, int64_t slot);
/* Keys 0 .. this - 1 of the slot's segment are seen by its query i. */
int64_t reference_visible_keys(const struct reference_span *span, int64_t i, bool causal);

#endif
