/* The op table: everything that a device does, collectives included. Arguments are plain data; a tensor left out
 * of a compound literal is absent. Shapes: T tokens, H hidden, F feed-forward width, V vocabulary. Accumulation and
 * statistics are fp32 (or wider) whatever the storage type. "f" stands for f32 or bf16 (f64 in the oracle);
 * statistics ("stat") are f32 (f64 in the oracle). tests/ref holds each op's definition in double precision. */
#ifndef CORE_OP_H
#define CORE_OP_H

#include "core/tensor.h"

struct group;

/* Ops that executors run themselves. */
#define OP_DEVICE_TABLE(X)                                                                                             \
    X(GEMM, gemm)                                                                                                      \
    X(EMBEDDING_FORWARD, embedding_forward)                                                                            \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(RMSNORM_FORWARD, rmsnorm_forward)                                                                                \
    X(RMSNORM_BACKWARD, rmsnorm_backward)                                                                              \
    X(LAYERNORM_FORWARD, layernorm_forward)                                                                            \
    X(LAYERNORM_BACKWARD, layernorm_backward)                                                                          \
    X(ROPE, rope)                                                                                                      \
    X(ATTENTION_FORWARD, attention_forward)                                                                            \
    X(ATTENTION_BACKWARD, attention_backward)                                                                          \
    X(SWIGLU_FORWARD, swiglu_forward)                                                                                  \
    X(SWIGLU_BACKWARD, swiglu_backward)                                                                                \
    X(GELU_FORWARD, gelu_forward)                                                                                      \
    X(GELU_BACKWARD, gelu_backward)                                                                                    \
    X(XENT_STAT, xent_stat)                                                                                            \
    X(XENT_GRAD, xent_grad)                                                                                            \
    X(COPY, copy)                                                                                                      \
    X(SPLIT, split)                                                                                                    \
    X(JOIN, join)                                                                                                      \
    X(FILL, fill)                                                                                                      \
    X(ADD, add)                                                                                                        \
    X(QUANTIZE, quantize)                                                                                              \
    X(SUM_SQUARES, sum_squares)                                                                                        \
    X(GRADIENT_SCALE, gradient_scale)                                                                                  \
    X(ADAMW, adamw)

/* Collectives, which executors pass on to the group's table. */
#define OP_COLLECTIVE_TABLE(X)                                                                                         \
    X(ALL_REDUCE, all_reduce)                                                                                          \
    X(REDUCE_SCATTER, reduce_scatter)                                                                                  \
    X(ALL_GATHER, all_gather)                                                                                          \
    X(BROADCAST, broadcast)

#define OP_TABLE(X)                                                                                                    \
    OP_DEVICE_TABLE(X)                                                                                                 \
    OP_COLLECTIVE_TABLE(X)

enum op {
#define X(NAME, name) OP_##NAME,
    OP_TABLE(X)
#undef X
        OP_COUNT
};

/* d = op(a) op(b) * scale_a * scale_b + bias in every row + (c, or the old d when accumulate). fp32 accumulation over
 * k. sum_a = (old when accumulate, else 0) + scale_a * sum over k of op(a), in a fixed order, which on a GPU that need
 * not be deterministic may be the library's own: where a is the transposed output gradient of a linear layer with bias,
 * the bias's gradient. */
struct gemm_args {
    struct tensor a;       /* [m, k]; [k, m] when transpose_a; f, e4m3 or e5m2 */
    struct tensor b;       /* [k, n]; [n, k] when transpose_b; f, e4m3 or e5m2 */
    struct tensor c;       /* optional addend [m, n], f; may be d itself; not together with accumulate */
    struct tensor d;       /* [m, n], f */
    struct tensor bias;    /* optional f [1, n] */
    struct tensor sum_a;   /* optional stat [1, m] */
    struct tensor scale_a; /* stat [1, 1], required for an 8-bit a: value = element * scale */
    struct tensor scale_b; /* the same for b */
    bool transpose_a, transpose_b;
    bool accumulate;
};

/* y[t] = weight[token[t]] * scale[t]. */
struct embedding_forward_args {
    struct tensor tokens; /* i32 [1, T], each in 0 .. V - 1 */
    struct tensor scale;  /* optional f32 [1, T]; absent: 1 */
    struct tensor weight; /* f [V, H] */
    struct tensor y;      /* f [T, H] */
};

/* dweight[v] = (old when accumulate, else 0) + sum over t with token[t] = v of dy[t] * scale[t], in the order of t; of
 * the token `padding` the sum is left out. (torch.nn.Embedding's padding_idx.) */
struct embedding_backward_args {
    struct tensor tokens;  /* i32 [1, T] */
    struct tensor scale;   /* optional f32 [1, T]; absent: 1 */
    struct tensor dy;      /* f [T, H] */
    struct tensor dweight; /* stat [V, H] */
    int64_t padding;       /* -1: none */
    bool accumulate;
};

/* rstd = 1 / sqrt(mean(x^2) + eps); y = x * rstd * weight. (Zhang & Sennrich 2019.) */
struct rmsnorm_forward_args {
    struct tensor x;      /* f [T, H] */
    struct tensor weight; /* f [1, H] */
    struct tensor y;      /* f [T, H] */
    struct tensor rstd;   /* stat [1, T] */
    float eps;
};

/* dx = residual + rstd * (w dy - x * rstd^2 * mean(w dy x)); dweight (+)= sum_t dy x rstd, in a fixed order. */
struct rmsnorm_backward_args {
    struct tensor x;        /* f [T, H] */
    struct tensor weight;   /* f [1, H] */
    struct tensor rstd;     /* stat [1, T] */
    struct tensor dy;       /* f [T, H] */
    struct tensor residual; /* optional f [T, H], the gradient that by-passes the norm; may be dx itself */
    struct tensor dx;       /* f [T, H]; optional: absent when only the weight's gradient is wanted */
    struct tensor dweight;  /* stat [1, H]; optional: absent when only the input's gradient is wanted */
    bool accumulate;        /* for dweight */
};

/* mean = mean(x); rstd = 1 / sqrt(mean((x - mean)^2) + eps); y = (x - mean) * rstd * weight + bias.
 * (Ba, Kiros & Hinton 2016.) */
struct layernorm_forward_args {
    struct tensor x;      /* f [T, H] */
    struct tensor weight; /* f [1, H] */
    struct tensor bias;   /* f [1, H] */
    struct tensor y;      /* f [T, H] */
    struct tensor mean;   /* stat [1, T] */
    struct tensor rstd;   /* stat [1, T] */
    float eps;
};

/* With n = (x - mean) * rstd: dx = residual + rstd * (w dy - mean(w dy) - n * mean(w dy n));
 * dweight (+)= sum_t dy n; dbias (+)= sum_t dy; both in a fixed order. */
struct layernorm_backward_args {
    struct tensor x;          /* f [T, H] */
    struct tensor weight;     /* f [1, H] */
    struct tensor mean, rstd; /* stat [1, T] */
    struct tensor dy;         /* f [T, H] */
    struct tensor residual;   /* optional f [T, H], the gradient that by-passes the norm; may be dx itself */
    struct tensor dx;         /* f [T, H]; optional: absent when only the weight's and bias's gradients are wanted */
    struct tensor dweight;    /* stat [1, H]; optional, with dbias: absent when only the input's gradient is wanted */
    struct tensor dbias;      /* stat [1, H]; optional, with dweight */
    bool accumulate;          /* for dweight and dbias */
};

/* Rotary positions, in place. Half-split (Hugging Face's rotate_half): pair i of a head is its elements i and
 * head_dim / 2 + i; interleaved: its elements 2 i and 2 i + 1. For each pair (x1, x2):
 * x1' = x1 cos - x2 sin, x2' = x2 cos + x1 sin; inverse: with -sin. (Su et al. 2021.) */
struct rope_args {
    struct tensor x;         /* f [T, heads * head_dim], in place */
    struct tensor positions; /* i32 [1, T], each in 0 .. rows of the table - 1 */
    struct tensor table;     /* stat [positions, head_dim]: head_dim / 2 cosines, then head_dim / 2 sines */
    int64_t head_dim;
    bool interleaved;
    bool inverse;
};

/* Segments of a packed batch, on the device. Slots with q_length 0 are empty; query i (counted in its segment) sees key
 * j of the same segment slot when not causal or j <= i + q_offset. Segments do not overlap in q; in a backward not in k
 * and v either: keys that several segments see take a launch for each, which add up. Where the tables of k and v are
 * those of q themselves, q_offset holds zeros. The rest is what the host knows of the tables. */
struct attention_segments {
    struct tensor q_start, q_length;   /* i32 [1, slots]: first row and number of rows of q and o */
    struct tensor kv_start, kv_length; /* i32 [1, slots]: the same for k and v */
    struct tensor q_offset;            /* i32 [1, slots] */
    int64_t longest;                   /* no segment has more rows than this; 0: not known */
    bool regular;                      /* rows are slots * longest: the segment of slot s begins at row s * longest */
};

/* o = softmax(scale * q k' over visible keys) v for each query head h with kv head h / (heads / kv_heads);
 * lse = log(sum(exp(scale * q k'))). Rows of o that no segment covers, or that see no key, are 0, and their lse is
 * minus infinity: weight 0 where results over parts of the keys are merged. (Dao et al. 2022.) */
struct attention_forward_args {
    struct tensor q;    /* f [Tq, heads * head_dim], any row stride, as k, v and o */
    struct tensor k, v; /* f [Tk, kv_heads * head_dim] */
    struct tensor o;    /* f [Tq, heads * head_dim] */
    struct tensor lse;  /* stat [heads, Tq] */
    struct attention_segments segments;
    int64_t heads, kv_heads, head_dim;
    float scale;
    bool causal;
};

/* Gradients of the above: dq, dk, dv = (old when accumulate_q or accumulate_kv, else 0) + what the segments add, which
 * is 0 for rows that none covers. k and v may be a part of the keys that o and lse are of; launches over all parts then
 * add up to the gradients. */
struct attention_backward_args {
    struct tensor q, k, v, o, lse; /* as above */
    struct tensor d_o;             /* f [Tq, heads * head_dim] */
    struct tensor dq;              /* q's type or stat, shape of q */
    struct tensor dk, dv;          /* k's type or stat, shape of k */
    struct attention_segments segments;
    int64_t heads, kv_heads, head_dim;
    float scale;
    bool causal;
    bool accumulate_q;  /* for dq */
    bool accumulate_kv; /* for dk and dv */
};

/* y = silu(gate) * up, x = [gate | up]. */
struct swiglu_forward_args {
    struct tensor x; /* f [T, 2 F] */
    struct tensor y; /* f [T, F] */
};

struct swiglu_backward_args {
    struct tensor x;  /* f [T, 2 F] */
    struct tensor dy; /* f [T, F] */
    struct tensor dx; /* f [T, 2 F] */
};

/* y = x * Phi(x), Phi the normal distribution's cumulative function (erf); tanh_form: its approximation
 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2. (Hendrycks & Gimpel 2016.) */
struct gelu_forward_args {
    struct tensor x; /* f [T, F] */
    struct tensor y; /* f [T, F] */
    bool tanh_form;
};

/* dx = dy * dy/dx of the above at x; sum (+)= sum_t dx, of the rounded values, in a fixed order: the gradient of a bias
 * in x. */
struct gelu_backward_args {
    struct tensor x;   /* f [T, F] */
    struct tensor dy;  /* f [T, F] */
    struct tensor dx;  /* f [T, F]; may be dy itself */
    struct tensor sum; /* optional stat [1, F] */
    bool tanh_form;
    bool accumulate; /* for sum */
};

/* For labels >= 0: loss = lse - logit[label], lse = log(sum(exp(logits))); for others both are 0.
 * total += {sum of loss, number of labels >= 0}, summed in double in the order of t. */
struct xent_stat_args {
    struct tensor logits; /* f [T, V] */
    struct tensor labels; /* i32 [1, T], -100 = ignored */
    struct tensor loss;   /* stat [1, T] */
    struct tensor lse;    /* stat [1, T] */
    struct tensor total;  /* f64 [1, 2], read and written */
};

/* In place: logits -> softmax(logits) - onehot(label), rows with labels < 0 -> 0. Unscaled: the gradient of the
 * sum of losses. */
struct xent_grad_args {
    struct tensor logits; /* f [T, V] */
    struct tensor labels; /* i32 [1, T] */
    struct tensor lse;    /* stat [1, T] */
};

/* Same dtype and shape; either side may be in host memory. */
struct copy_args {
    struct tensor from, to;
};

/* f32 numbers as bf16 ones and what these are short of (core/dtype.h). Either side may be host memory of the
 * executor's. */
struct split_args {
    struct tensor from; /* f32 [1, n] */
    struct tensor high; /* bf16 [1, n] */
    struct tensor low;  /* optional i16 [1, n] */
};

/* The f32 numbers that were split, exactly. */
struct join_args {
    struct tensor high; /* bf16 [1, n] */
    struct tensor low;  /* i16 [1, n] */
    struct tensor to;   /* f32 [1, n] */
};

struct fill_args {
    struct tensor x; /* any float type */
    double value;
};

/* to += from. */
struct add_args {
    struct tensor from; /* stat [rows, cols] */
    struct tensor to;   /* stat, the same shape */
};

/* Current scaling: scale = max|x| / 448 (1 when x is all zero); row and column hold x / scale rounded to e4m3. */
struct quantize_args {
    struct tensor x;      /* f [T, K] */
    struct tensor row;    /* optional e4m3 [T, K] */
    struct tensor column; /* optional e4m3 [K, T] */
    struct tensor scale;  /* stat [1, 1] */
};

/* sum = sum of x^2 in double, in an order that depends on the shape alone. */
struct sum_squares_args {
    struct tensor x;   /* stat [rows, cols] */
    struct tensor sum; /* f64 [1, 1] */
};

/* count = total[1]; norm = sqrt(sum of squares) / count; scale = min(1, max_norm / (norm + 1e-6)) / count;
 * count 0 gives scale 0 and norm 0; max_norm 0 means no clipping. (torch.nn.utils.clip_grad_norm_.)
 * Where the norm or total[0] is not finite, scale is NaN: adamw then leaves everything as it is. Else there will be an
 * update, and updates += 1. corrections = {1 - beta1^updates, 1 - beta2^updates}, for adamw. */
struct gradient_scale_args {
    struct tensor squares;     /* f64 [1, n], summed in order */
    struct tensor total;       /* f64 [1, 2], as xent_stat leaves it, summed over ranks */
    struct tensor scale;       /* stat [1, 1], written */
    struct tensor norm;        /* stat [1, 1], written */
    struct tensor updates;     /* f64 [1, 1], read and written: updates that the moments have seen */
    struct tensor corrections; /* stat [1, 2], written */
    double beta1, beta2;
    float max_norm;
};

/* Step constants of AdamW that change by step, in device memory. Both corrections are those of gradient_scale. */
enum adamw_step { ADAMW_LR, ADAMW_CORRECTION_1, ADAMW_CORRECTION_2, ADAMW_STEP_COUNT };

/* Decoupled weight decay (Loshchilov & Hutter 2019), as torch.optim.AdamW: with g = gradient * scale, lr = step[LR] *
 * lr_factor: w -= lr * weight_decay * w; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 * w -= lr * (m / step[CORRECTION_1]) / (sqrt(v / step[CORRECTION_2]) + eps). correction_i = 1 - b_i^t.
 * With a scale of NaN nothing changes. */
struct adamw_args {
    struct tensor weight;   /* stat [1, n], or bf16 with low: then both are the number */
    struct tensor low;      /* i16 [1, n], of a bf16 weight */
    struct tensor gradient; /* stat [1, n] */
    struct tensor m, v;     /* stat [1, n] */
    struct tensor step;     /* stat [1, ADAMW_STEP_COUNT] */
    struct tensor scale;    /* stat [1, 1] */
    double beta1, beta2, eps, weight_decay, lr_factor;
};

/* Collectives, over `group`; every member launches the same ones in the same order. Sums are in f32 (f64 for f64): in
 * host memory in rank order, ((x_0 + x_1) + x_2) + ...; between devices in the order of their library. */
struct all_reduce_args {
    struct group *group;
    struct tensor x; /* stat or f64, contiguous; the sum over ranks, in place */
};

struct reduce_scatter_args {
    struct group *group;
    struct tensor in;  /* stat [size, n]: row r is the contribution to rank r */
    struct tensor out; /* stat [1, n] */
};

struct all_gather_args {
    struct group *group;
    struct tensor in;  /* any [1, n] */
    struct tensor out; /* same dtype [size, n]: row r comes from rank r */
};

struct broadcast_args {
    struct group *group;
    struct tensor x; /* any, contiguous; root's values on return */
    int root;
};

/* Reflection: which tensors an op has and how it uses them. */
enum op_access { OP_READ = 1, OP_WRITE = 2, OP_READ_WRITE = 3 };

struct op_field {
    const char *name;
    size_t offset; /* of the struct tensor in the args */
    int access;    /* enum op_access */
    bool optional;
    size_t accumulate; /* offset of a bool that turns WRITE into READ_WRITE; 0 = none */
};

struct op_info {
    const char *name;
    size_t args_bytes;
    const struct op_field *fields;
    int field_count;
};

const struct op_info *op_info(enum op op);

/* Useful multiply-adds times 2 of GEMM and attention; 0 for all others. */
int64_t op_flops(enum op op, const void *args);

/* Bytes of its tensors, those that are read and written twice: what must pass through memory at least, where nothing
 * stays in a cache. */
int64_t op_bytes(enum op op, const void *args);

/* Field i of args: its tensor, and its access with accumulate resolved. */
const struct tensor *op_tensor(enum op op, const void *args, int field);
int op_field_access(enum op op, const void *args, int field);

/* NULL when the arguments have all that is required and shapes and dtypes agree, else what is wrong (a static text). */
const char *op_check(enum op op, const void *args);

#endif
