/* Key header: the op table: all operations that run on a device, collectives included. Their arguments are plain data,
 * struct NAME_args, in the headers op_KIND.h that this one includes. A tensor left out of a compound literal is absent.
 *
 * Shapes are [rows, columns]: T tokens, H hidden size, F feed-forward width, V vocabulary size. Types: "f" is f32 or
 * bf16, "stat" is f32; both are f64 in the oracle (tests/ref), which defines each op in double precision. Ops
 * accumulate, and compute statistics, in f32 or wider, whatever the storage type.
 *
 * "x (+)= y" is x += y when accumulate, else x = y. "In a fixed order": the order of a sum does not vary from run to
 * run. */
#ifndef CORE_OP_H
#define CORE_OP_H

#include "core/op_activation.h"
#include "core/op_attention.h"
#include "core/op_collective.h"
#include "core/op_elements.h"
#include "core/op_experts.h"
#include "core/op_linear.h"
#include "core/op_loss.h"
#include "core/op_norm.h"
#include "core/op_optimizer.h"
#include "core/op_quantize.h"

/* Ops that executors run themselves. */
#define OP_DEVICE_TABLE(X)                                                                                             \
    X(GEMM, gemm)                                                                                                      \
    X(EMBEDDING_FORWARD, embedding_forward)                                                                            \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(RMSNORM_FORWARD, rmsnorm_forward)                                                                                \
    X(RMSNORM_BACKWARD, rmsnorm_backward)                                                                              \
    X(LAYERNORM_FORWARD, layernorm_forward)                                                                            \
    X(LAYERNORM_BACKWARD, layernorm_backward)                                                                          \
    X(HEAD_NORM_FORWARD, head_norm_forward)                                                                            \
    X(HEAD_NORM_BACKWARD, head_norm_backward)                                                                          \
    X(ROPE, rope)                                                                                                      \
    X(ATTENTION_FORWARD, attention_forward)                                                                            \
    X(ATTENTION_BACKWARD, attention_backward)                                                                          \
    X(ATTENTION_MERGE, attention_merge)                                                                                \
    X(ROUTE_FORWARD, route_forward)                                                                                    \
    X(ROUTE_BACKWARD, route_backward)                                                                                  \
    X(EXPERT_LOAD, expert_load)                                                                                        \
    X(EXPERT_ORDER, expert_order)                                                                                      \
    X(EXPERT_GEMM, expert_gemm)                                                                                        \
    X(EXPERT_GRADIENT, expert_gradient)                                                                                \
    X(COMBINE_FORWARD, combine_forward)                                                                                \
    X(COMBINE_BACKWARD, combine_backward)                                                                              \
    X(SWIGLU_FORWARD, swiglu_forward)                                                                                  \
    X(SWIGLU_BACKWARD, swiglu_backward)                                                                                \
    X(GELU_FORWARD, gelu_forward)                                                                                      \
    X(GELU_BACKWARD, gelu_backward)                                                                                    \
    X(TANH_FORWARD, tanh_forward)                                                                                      \
    X(TANH_BACKWARD, tanh_backward)                                                                                    \
    X(XENT_STAT, xent_stat)                                                                                            \
    X(XENT_PART, xent_part)                                                                                            \
    X(XENT_MERGE, xent_merge)                                                                                          \
    X(XENT_GRAD, xent_grad)                                                                                            \
    X(XENT_BOTH, xent_both)                                                                                            \
    X(MSE, mse)                                                                                                        \
    X(CLASS_WEIGHT, class_weight)                                                                                      \
    X(COPY, copy)                                                                                                      \
    X(SCATTER, scatter)                                                                                                \
    X(TRANSPOSE, transpose)                                                                                            \
    X(SPLIT, split)                                                                                                    \
    X(JOIN, join)                                                                                                      \
    X(FILL, fill)                                                                                                      \
    X(ADD, add)                                                                                                        \
    X(MULTIPLY, multiply)                                                                                              \
    X(AFFINE, affine)                                                                                                  \
    X(DROPOUT, dropout)                                                                                                \
    X(EXACT_ADD, exact_add)                                                                                            \
    X(EXACT_READ, exact_read)                                                                                          \
    X(QUANTIZE, quantize)                                                                                              \
    X(QUANTIZATION_STATISTIC, quantization_statistic)                                                                  \
    X(DELAYED_SCALE, delayed_scale)                                                                                    \
    X(SUM_SQUARES, sum_squares)                                                                                        \
    X(GRADIENT_SCALE, gradient_scale)                                                                                  \
    X(ADAMW, adamw)                                                                                                    \
    X(MOMENTUM, momentum)                                                                                              \
    X(MUON, muon)

/* Collectives, which executors pass on to the group's table. */
#define OP_COLLECTIVE_TABLE(X)                                                                                         \
    X(ALL_REDUCE, all_reduce)                                                                                          \
    X(REDUCE_SCATTER, reduce_scatter)                                                                                  \
    X(ALL_GATHER, all_gather)                                                                                          \
    X(BROADCAST, broadcast)                                                                                            \
    X(ALL_TO_ALL, all_to_all)                                                                                          \
    X(SHIFT, shift)                                                                                                    \
    X(SEND_RECEIVE, send_receive)

#define OP_TABLE(X)                                                                                                    \
    OP_DEVICE_TABLE(X)                                                                                                 \
    OP_COLLECTIVE_TABLE(X)

enum op {
#define X(NAME, name) OP_##NAME,
    OP_TABLE(X)
#undef X
        OP_COUNT
};

struct group;

/* Reflection: the tensors of an op, how it uses them, and their types and shapes. */
enum op_access { OP_READ = 1, OP_WRITE = 2, OP_READ_WRITE = 3 };

struct op_field {
    const char *name;
    size_t offset; /* offset of the struct tensor in the args */
    int access;    /* enum op_access */
    bool optional;
    unsigned dtypes; /* allowed types, bits 1 << enum dtype; 0: the type of the op's field 0 */
    /* Rows and columns, each a product of numbers and letters: "T 2F". A letter has one size in all fields of an op:
     * given by an argument (listed in op_check.c), the group's size for R, else set by the first field with the letter.
     * NULL: op_check's function for the op checks the shape. */
    const char *shape;
    size_t accumulate; /* offset in the args of the bool that turns WRITE into READ_WRITE; 0 = none */
    size_t overwrite;  /* offset of the bool that turns READ_WRITE into WRITE; 0 = none */
    size_t transpose;  /* offset of the bool that exchanges the shape's rows and columns; 0 = none */
};

struct op_info {
    const char *name;
    size_t args_bytes;
    bool collective; /* its args begin with the group */
    const struct op_field *fields;
    int field_count;
};

/* Returns the description of an op; a static struct. */
const struct op_info *op_info(enum op op);

/* Returns the floating-point operations of a GEMM, of experts too, or attention, 2 per useful multiply-add; 0 for all
 * other ops. */
int64_t op_flops(enum op op, const void *args);

/* Returns the minimum memory traffic in bytes, without reuse in caches: the size of each tensor, twice if the op both
 * reads and writes it. Matrices of the pairs of a mixture of experts count with their expected rows (mean_rows). */
int64_t op_bytes(enum op op, const void *args);

/* Return the tensor of field number `field`, and its access (enum op_access), given whether args accumulate. */
const struct tensor *op_tensor(enum op op, const void *args, int field);
int op_field_access(enum op op, const void *args, int field);

/* Returns the group of a collective's args; NULL if op is not a collective. */
struct group *op_group(enum op op, const void *args);

/* Checks that all required tensors are present, and that shapes and dtypes agree. Returns NULL, or what is wrong: a
 * text of this thread, valid until its next op_check. */
const char *op_check(enum op op, const void *args);

#endif
