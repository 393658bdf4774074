/* Key header: the op table: all operations that run on a device, collectives included, and their arguments, as plain
 * data. A tensor left out of a compound literal is absent.
 *
 * Shapes are [rows, columns]: T tokens, H hidden size, F feed-forward width, V vocabulary size. Types: "f" is f32 or
 * bf16, "stat" is f32; both are f64 in the oracle (tests/ref), which defines each op in double precision. Ops
 * accumulate, and compute statistics, in f32 or wider, whatever the storage type.
 *
 * "x (+)= y" is x += y when accumulate, else x = y. "In a fixed order": the order of a sum does not vary from run to
 * run. */
#ifndef CORE_OP_H
#define CORE_OP_H

#include "core/quantization.h"
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

/* d = op(a) op(b) + bias + addend, where op transposes or does nothing. The values of an operand with a scale are its
 * elements times the scale. Every row gets the same bias. The addend is c, or the old d when accumulate, or 0. The sum
 * over k accumulates in f32; with 8-bit operands on a GPU it follows the tensor cores' rules (see `fast`).
 *
 * sum_a (+)= sum over k of op(a). In the weight gradient of a linear layer with bias, a is the transposed output
 * gradient, so sum_a is the bias's gradient. It is summed in a fixed order, but a GPU that need not be deterministic
 * may leave the order to its GEMM library. Not with scales.
 *
 * Operands with scales were made by quantize and have k along their rows: a is [m, k] and b is [n, k], with transpose_b
 * and without transpose_a. Scales have the shapes of struct quantized_operands; for operands wider than 8 bits they are
 * [1, 1]. */
struct gemm_args {
    struct tensor a;       /* [m, k]; [k, m] when transpose_a; f, e4m3 or e5m2 */
    struct tensor b;       /* [k, n]; [n, k] when transpose_b; f, e4m3 or e5m2 */
    struct tensor c;       /* optional addend [m, n], f; may be d itself; not together with accumulate */
    struct tensor d;       /* [m, n], f */
    struct tensor bias;    /* optional f [1, n] */
    struct tensor sum_a;   /* optional stat [1, m] */
    struct tensor scale_a; /* stat; required for an 8-bit a */
    struct tensor scale_b; /* stat; required for an 8-bit b */
    enum scaling scaling_a, scaling_b;
    bool transpose_a, transpose_b;
    bool accumulate;
    bool fast; /* 8-bit operands: the sum may use fewer bits (cuBLASLt's fast accumulation) */
};

/* y[t] = weight[token[t] - origin] * scale[t]. The weight has the rows of the tokens origin .. origin + V - 1; for
 * other tokens y = 0, so the results for all parts of the vocabulary add up to the result for the whole. */
struct embedding_forward_args {
    struct tensor tokens; /* i32 [1, T], each >= 0 */
    struct tensor scale;  /* optional f32 [1, T]; absent: 1 */
    struct tensor weight; /* f [V, H] */
    struct tensor y;      /* f [T, H] */
    int64_t origin;
};

/* dweight[v] (+)= sum over all t with token[t] = origin + v of dy[t] * scale[t], in the order of t. Tokens without a
 * row in dweight, and the token `padding` (torch.nn.Embedding's padding_idx), add nothing. */
struct embedding_backward_args {
    struct tensor tokens;  /* i32 [1, T] */
    struct tensor scale;   /* optional f32 [1, T]; absent: 1 */
    struct tensor dy;      /* f [T, H] */
    struct tensor dweight; /* f [V, H]; a bf16 sum is rounded once */
    int64_t padding;       /* padding token; -1: none */
    int64_t origin;        /* as in embedding_forward */
    bool accumulate;
};

/* rstd = 1 / sqrt(mean(x^2) + eps); y = x * rstd * weight. (Zhang & Sennrich 2019.) With one_plus, all norms use 1 +
 * weight, added in f32, instead of the weight (Megatron's layernorm-1p). */
struct rmsnorm_forward_args {
    struct tensor x;      /* f [T, H] */
    struct tensor weight; /* f [1, H] */
    struct tensor y;      /* f [T, H] */
    struct tensor rstd;   /* stat [1, T] */
    float eps;
    bool one_plus;
};

/* dx = residual + rstd * (w dy - x * rstd^2 * mean(w dy x)); dweight (+)= sum_t dy x rstd, in a fixed order. */
struct rmsnorm_backward_args {
    struct tensor x;        /* f [T, H] */
    struct tensor weight;   /* f [1, H] */
    struct tensor rstd;     /* stat [1, T] */
    struct tensor dy;       /* f [T, H] */
    struct tensor residual; /* optional f [T, H]: gradient of the residual connection; may be dx itself */
    struct tensor dx;       /* f [T, H]; optional: absent if only dweight is wanted */
    struct tensor dweight;  /* stat [1, H]; optional: absent if only dx is wanted */
    bool accumulate;        /* for dweight */
    bool one_plus;
};

/* mean = mean(x); rstd = 1 / sqrt(mean((x - mean)^2) + eps); y = (x - mean) * rstd * weight (+ bias).
 * (Ba, Kiros & Hinton 2016.) */
struct layernorm_forward_args {
    struct tensor x;      /* f [T, H] */
    struct tensor weight; /* f [1, H] */
    struct tensor bias;   /* optional f [1, H] */
    struct tensor y;      /* f [T, H] */
    struct tensor mean;   /* stat [1, T] */
    struct tensor rstd;   /* stat [1, T] */
    float eps;
    bool one_plus;
};

/* With n = (x - mean) * rstd: dx = residual + rstd * (w dy - mean(w dy) - n * mean(w dy n)); dweight (+)= sum_t dy n;
 * dbias (+)= sum_t dy; sum (+)= sum_t dx, with dx as rounded to its type: the gradient of a bias that was added to x.
 * All sums are in a fixed order. */
struct layernorm_backward_args {
    struct tensor x;          /* f [T, H] */
    struct tensor weight;     /* f [1, H] */
    struct tensor mean, rstd; /* stat [1, T] */
    struct tensor dy;         /* f [T, H] */
    struct tensor residual;   /* optional f [T, H]: gradient of the residual connection; may be dx itself */
    struct tensor dx;         /* f [T, H]; optional: absent if only dweight and dbias are wanted */
    struct tensor dweight;    /* stat [1, H]; optional: absent if only dx is wanted */
    struct tensor dbias;      /* stat [1, H]; optional, not without dweight: absent if the norm has no bias */
    struct tensor sum;        /* stat [1, H]; optional, with dx */
    bool accumulate;          /* for dweight and dbias */
    bool accumulate_sum;      /* accumulate, for sum */
    bool one_plus;
};

/* rmsnorm of each head's head_dim elements, with the same weight for all heads. (Qwen 3's norms of queries and keys.)
 */
struct head_norm_forward_args {
    struct tensor x;      /* f [T, heads * head_dim] */
    struct tensor weight; /* f [1, head_dim] */
    struct tensor y;      /* f [T, heads * head_dim] */
    struct tensor rstd;   /* stat [heads, T] */
    int64_t head_dim;
    float eps;
    bool one_plus;
};

/* As rmsnorm_backward for each head; dweight (+)= the sum over tokens and heads of dy x rstd, in a fixed order. */
struct head_norm_backward_args {
    struct tensor x;       /* f [T, heads * head_dim] */
    struct tensor weight;  /* f [1, head_dim] */
    struct tensor rstd;    /* stat [heads, T] */
    struct tensor dy;      /* f [T, heads * head_dim] */
    struct tensor dx;      /* f [T, heads * head_dim]; optional: absent if only dweight is wanted */
    struct tensor dweight; /* stat [1, head_dim]; optional: absent if only dx is wanted */
    int64_t head_dim;
    bool accumulate; /* for dweight */
    bool one_plus;
};

/* Rotary position embedding (Su et al. 2021), in place. Rotates each pair (x1, x2) of a head's elements: x1' = x1 cos -
 * x2 sin, x2' = x2 cos + x1 sin; inverse: with -sin. Pair i is elements 2 i and 2 i + 1 when interleaved, else elements
 * i and head_dim / 2 + i (Hugging Face's rotate_half). */
struct rope_args {
    struct tensor x;         /* f [T, heads * head_dim], in place */
    struct tensor positions; /* i32 [1, T]: row numbers in the table */
    struct tensor table;     /* stat [positions, head_dim]: head_dim / 2 cosines, then head_dim / 2 sines */
    int64_t head_dim;
    bool interleaved;
    bool inverse;
};

enum { ATTENTION_LONGEST_WINDOW = 1 << 30 }; /* so that 32 bits suffice for positions and windows */

/* Segments of a packed batch: tables on the device, with one slot per segment. A slot with q_length 0 is empty. Query i
 * of a segment sees key j of the same segment if not causal, or if j <= i + q_offset, and with a sliding window also j
 * > i + q_offset - window; i and j count from 0 within the segment. If k and v use the tables of q, q_offset is all
 * zeros.
 *
 * Segments never share rows of q. In a backward they do not share rows of k and v either: if several segments see the
 * same keys, launch once for each segment and accumulate dk and dv.
 *
 * `longest` and `full` are what the host knows of the tables. They describe the queries if keys have tables
 * of their own. */
struct attention_segments {
    struct tensor q_start, q_length;   /* i32 [1, slots]: first row and number of rows of q and o */
    struct tensor kv_start, kv_length; /* i32 [1, slots]: first row and number of rows of k and v */
    struct tensor q_offset;            /* i32 [1, slots] */
    int64_t longest;                   /* maximum rows of a segment; 0: unknown */
    bool full;                         /* slot s has the `longest` rows from row s * longest on, and no row is left */
    int64_t again; /* the last `again` launches on this stream were this op, with the same shapes and the same,
                      unchanged tables, so the executor may reuse what it derived from them; 0: unknown */
};

/* o = softmax(scale * q k') v and lse = log(sum(exp(scale * q k'))), over the keys that a query sees; k' is k
 * transposed. Query head h uses kv head h / (heads / kv_heads). Rows outside all segments, and rows that see no key,
 * have o = 0 and lse = minus infinity, which is weight 0 when results over parts of the keys are merged. (Dao et al.
 * 2022.) */
struct attention_forward_args {
    struct tensor q;    /* f [Tq, heads * head_dim]; q, k, v and o may have any row stride */
    struct tensor k, v; /* f [Tk, kv_heads * head_dim] */
    struct tensor o;    /* f [Tq, heads * head_dim] */
    struct tensor lse;  /* stat [heads, Tq] */
    struct attention_segments segments;
    int64_t heads, kv_heads, head_dim;
    float scale;
    bool causal;
    int64_t window; /* sliding window: keys that a query sees at most, itself included; 0: no limit; causal only */
};

/* Gradients of attention_forward: dq, dk and dv (+)= the gradient, which is 0 for rows outside all segments. k and v
 * may be one part of the keys that o and lse were computed from; the gradients are then the sums over the launches for
 * all parts.
 *
 * With positions, q and k are outputs of rope, and dq and dk become the gradients of rope's inputs: the gradients of q
 * and k, rotated by the inverse of rope. They may be rounded before the rotation. */
struct attention_backward_args {
    struct tensor q, k, v, o, lse; /* as in attention_forward */
    struct tensor d_o;             /* f [Tq, heads * head_dim] */
    struct tensor dq;              /* q's type or stat, shape of q */
    struct tensor dk, dv;          /* k's type or stat, shape of k */
    struct attention_segments segments;
    int64_t heads, kv_heads, head_dim;
    float scale;
    bool causal;
    int64_t window;     /* as in attention_forward */
    bool accumulate_q;  /* accumulate, for dq */
    bool accumulate_kv; /* accumulate, for dk and dv */
    /* Optional, and not with accumulation: rope's arguments, for rows that q and k share. */
    struct tensor positions, table;
    bool interleaved;
};

/* Merges the attention result over one part of the keys into the result over other parts, in f32. With w = exp(lse) and
 * w' = exp(part_lse): o = (w o + w' part_o) / (w + w') and lse = log(w + w'). first: there is no other part yet, so o
 * and lse become the part's. Rows that see no key (lse minus infinity) have weight 0, whatever their o is; if no part
 * has weight, o is 0 and lse minus infinity. With `to`, the new o is also written there, rounded. (Dao et al. 2022.) */
struct attention_merge_args {
    struct tensor part_o;   /* f [T, heads * head_dim] */
    struct tensor part_lse; /* stat [heads, T] */
    struct tensor o;        /* stat [T, heads * head_dim] */
    struct tensor lse;      /* stat [heads, T] */
    struct tensor to;       /* optional f [T, heads * head_dim] */
    int64_t heads, head_dim;
    bool first;
};

/* Mixture of experts: a router chooses C of E experts for each token, T C pairs in all. expert_order numbers the pairs
 * by expert; the matrices of pairs, [T C, ...], have rows in this order, so an expert's rows are consecutive. */

enum { EXPERTS_MOST = 256 };

/* experts[t] = the C experts with the largest logits of token t, largest first, of equal logits the lower number first;
 * weights[t] = softmax of these C logits. (Shazeer et al. 2017; as Mixtral normalises it, Jiang et al. 2024.) Experts
 * are distinct, also where logits are NaN. */
struct route_forward_args {
    struct tensor logits;  /* stat [T, E], E at most EXPERTS_MOST */
    struct tensor experts; /* i32 [T, C], C from 1 to E */
    struct tensor weights; /* stat [T, C] */
};

/* d_logits = the gradient of the weights, with p = softmax(logits[t]) over all E:
 *
 *    d_logits[t, experts[t, c]] = w_c (dw_c - sum_i w_i dw_i), 0 for other experts
 *    d_logits[t, e] += p_e (l_e - sum_i p_i l_i), if labels[t] >= 0
 *
 * The second line is the gradient of the auxiliary loss that balances the load, auxiliary * sum over tokens with labels
 * of sum_e p_e l_e, where l_e = load[r, e] / load[r, E] is a constant, and r the row of load that has token t. (Fedus
 * et al. 2022, equations 4 to 6, times the number of labels.) */
struct route_backward_args {
    struct tensor logits;    /* stat [T, E] */
    struct tensor experts;   /* i32 [T, C] */
    struct tensor weights;   /* stat [T, C] */
    struct tensor d_weights; /* stat [T, C] */
    struct tensor labels;    /* i32 [1, T]; absent, as load: no auxiliary loss */
    struct tensor load;      /* stat [R, E + 1], as expert_load makes it, summed over the ranks that share a row */
    struct tensor d_logits;  /* f [T, E] */
    double auxiliary;
};

/* load[r, e] = the number of tokens with a label (>= 0) that have expert e, and load[r, E] = the number of tokens with
 * a label, both of the tokens r T/R .. (r + 1) T/R - 1. */
struct expert_load_args {
    struct tensor experts; /* i32 [T, C], each in 0 .. E - 1 */
    struct tensor labels;  /* i32 [1, T] */
    struct tensor load;    /* stat [R, E + 1], R divides T */
};

/* Sorts the pairs (t, c) by experts[t, c], those of an expert by t: places[t, c] = the pair's place in this order,
 * tokens[places[t, c]] = t, and ends[e] = the number of pairs with experts 0 .. e. */
struct expert_order_args {
    struct tensor experts; /* i32 [T, C], each in 0 .. E - 1; a token's are distinct */
    struct tensor places;  /* i32 [T, C] */
    struct tensor tokens;  /* i32 [1, T C] */
    struct tensor ends;    /* i32 [1, E], E at most EXPERTS_MOST */
};

/* d[s] = a[s] op(b_e) for each row s of expert e, rows ends[e - 1] .. ends[e] - 1, where b_e is the e-th of E equal
 * parts of b's rows, and op transposes or does nothing. Rows from ends[E - 1] on are not written. Accumulates in f32.
 */
struct expert_gemm_args {
    struct tensor a;    /* f [S, K] */
    struct tensor b;    /* a's type [E K, N]; [E N, K] when transpose_b */
    struct tensor ends; /* i32 [1, E] */
    struct tensor d;    /* a's type [S, N] */
    bool transpose_b;
};

/* dweight_e (+)= dy_e' x_e, the e-th of E equal parts of dweight's rows, where dy_e and x_e are the rows of expert e,
 * as in expert_gemm. Without rows it is 0. In a fixed order. */
struct expert_gradient_args {
    struct tensor dy;      /* f [S, N] */
    struct tensor x;       /* dy's type [S, K] */
    struct tensor ends;    /* i32 [1, E] */
    struct tensor dweight; /* f [E N, K]; a bf16 sum is rounded once */
    bool accumulate;
};

/* y[t] = addend[t] + sum over c of weights[t, c] x[places[t, c]], in f32 in the order of c, rounded once. */
struct combine_forward_args {
    struct tensor x;       /* f [S, H] */
    struct tensor places;  /* i32 [T, C], each in 0 .. S - 1 */
    struct tensor weights; /* optional stat [T, C]; absent: 1 */
    struct tensor addend;  /* optional f [T, H], of x's type; may be y itself; absent: 0 */
    struct tensor y;       /* x's type [T, H] */
};

/* dx[places[t, c]] = weights[t, c] dy[t]; d_weights[t, c] = dy[t] . x[places[t, c]]. */
struct combine_backward_args {
    struct tensor dy;        /* f [T, H] */
    struct tensor x;         /* dy's type [S, H] */
    struct tensor places;    /* i32 [T, C], each in 0 .. S - 1, without duplicates */
    struct tensor weights;   /* stat [T, C] */
    struct tensor dx;        /* dy's type [S, H] */
    struct tensor d_weights; /* stat [T, C] */
};

/* The quantized operands made from a tensor x [T, K], and how they are made. When a scale is made from an amax, NaN and
 * inf in x count as inf. In the operands NaN stays NaN, and inf becomes NaN.
 *
 * scale present (SCALING_TENSOR only; aligned to 16 bytes, which cuBLASLt requires): x is quantized with that scale
 * (delayed scaling), and row_scale and column_scale are absent. Otherwise the scales are made from x (current scaling):
 * row_scale if row is present, column_scale if column is present. With SCALING_TENSOR both are the same number, and may
 * be the same tensor. Shapes of the scales of an operand [R, C]:
 *
 *    TENSOR, 1X16, 16X16   [1, 1]
 *    ROW                   [1, R]
 *    1X128                 [ceil(C / 128), R]; element (r, c) has the scale at (c / 128, r)
 *    128X128               [ceil(R / 128), ceil(C / 128)]
 *    1X32                  absent
 *
 * The row stride of 1X128 and 128X128 scales is the number of columns rounded up to a multiple of 4. The last block of
 * a row may be shorter. On a GPU scales of 8-bit operands are aligned to 16 bytes, except TENSOR's.
 *
 * whole_amax present (8-bit operands with SCALING_TENSOR, without scale): x is a part of a tensor, possibly empty, and
 * the scales are made from whole_amax, the amax of the whole tensor. */
struct quantized_operands {
    struct tensor row;    /* optional rowwise operand [T, K] of quantization_dtype(rule) */
    struct tensor column; /* optional [K, P], P >= T: transposed; columns from T on are zero (with rule.hadamard: from
                             the next multiple of 16 on, and P is such a multiple) */
    struct tensor row_scale;    /* stat */
    struct tensor column_scale; /* stat */
    struct tensor scale;        /* optional stat [1, 1] */
    struct tensor whole_amax;   /* optional stat [1, 1] */
    struct tensor amax;         /* optional stat [1, 1]: becomes the maximum of itself and max |x| */
    struct tensor draw; /* i32 [1, 2], with rule.stochastic: the micro-batch's number, which keys the random bits */
    uint32_t salt;      /* with rule.stochastic: distinguishes operands of a micro-batch */
    struct quantization rule;
};

static inline bool has_quantized(const struct quantized_operands *to)
{
    return tensor_present(&to->row) || tensor_present(&to->column);
}

/* Ops with a field `to` also write the quantized operands of y (or dx), as quantize would make them from y rounded to
 * its type. y may then be absent, and has x's type. Scalings: TENSOR with scale, 1X128, 128X128 or 1X32. */

/* y = silu(gate) * up, x = [gate | up]. */
struct swiglu_forward_args {
    struct tensor x;              /* f [T, 2 F] */
    struct tensor y;              /* f [T, F]; optional with `to` */
    struct quantized_operands to; /* quantized operands of y */
};

/* y_to: also makes the forward's y again, as quantized operands only, so that nobody has to keep them. */
struct swiglu_backward_args {
    struct tensor x;                /* f [T, 2 F] */
    struct tensor dy;               /* f [T, F] */
    struct tensor dx;               /* f [T, 2 F]; optional with `to` */
    struct quantized_operands to;   /* quantized operands of dx */
    struct quantized_operands y_to; /* optional quantized operands of y */
};

/* y = x * Phi(x); Phi is the normal distribution's cumulative function, computed with erf. tanh_form: the approximation
 * y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2. (Hendrycks & Gimpel 2016.) */
struct gelu_forward_args {
    struct tensor x;              /* f [T, F] */
    struct tensor y;              /* f [T, F]; optional with `to` */
    struct quantized_operands to; /* quantized operands of y */
    bool tanh_form;
};

/* dx = dy * (derivative of GELU at x). sum (+)= sum_t dx, with dx as rounded to its type, in a fixed order: the
 * gradient of a bias that was added to x. y_to as in swiglu_backward. */
struct gelu_backward_args {
    struct tensor x;                /* f [T, F] */
    struct tensor dy;               /* f [T, F] */
    struct tensor dx;               /* f [T, F]; may be dy itself; optional with `to` */
    struct quantized_operands to;   /* quantized operands of dx */
    struct quantized_operands y_to; /* optional quantized operands of y */
    struct tensor sum;              /* optional stat [1, F] */
    bool tanh_form;
    bool accumulate; /* for sum */
};

/* y = tanh(x). */
struct tanh_forward_args {
    struct tensor x; /* f [T, F] */
    struct tensor y; /* f [T, F]; may be x itself */
};

/* dx = dy * (1 - y^2), with the y that tanh_forward wrote. */
struct tanh_backward_args {
    struct tensor y;  /* f [T, F] */
    struct tensor dy; /* f [T, F] */
    struct tensor dx; /* f [T, F]; may be dy itself */
};

/* Cross-entropy. If label >= 0: lse = log(sum(exp(logits))) and loss = lse - logit[label]; otherwise both are 0. total
 * += {sum of loss, number of labels >= 0}, summed in double in the order of t. */
struct xent_stat_args {
    struct tensor logits; /* f [T, V] */
    struct tensor labels; /* i32 [1, T], -100 = ignored */
    struct tensor loss;   /* stat [1, T] */
    struct tensor lse;    /* stat [1, T] */
    struct tensor total;  /* f64 [1, 2], read and written */
};

/* Computes the loss statistics of one part of the vocabulary (tokens origin .. origin + V - 1), in three rows: largest
 * = max(logits), sum = sum(exp(logits - largest)), and target = logits[label - origin], or 0 if the label is in another
 * part. All three are 0 where label < 0. */
enum xent_statistic { XENT_LARGEST, XENT_SUM, XENT_TARGET, XENT_STATISTICS };
struct xent_part_args {
    struct tensor logits;     /* f [T, V], V > 0 */
    struct tensor labels;     /* i32 [1, T] */
    struct tensor statistics; /* stat [XENT_STATISTICS, T] */
    int64_t origin;
};

/* Merges the statistics of all parts of the vocabulary into the results of xent_stat. With m the maximum of largest
 * over the parts: lse = m + log(sum over parts of sum * exp(largest - m)), loss = lse - sum over parts of target.
 * (Megatron-LM's vocabulary-parallel cross-entropy, Narayanan et al. 2021.) */
struct xent_merge_args {
    struct tensor statistics; /* stat [parts * XENT_STATISTICS, T] */
    struct tensor labels;     /* i32 [1, T] */
    struct tensor loss;       /* stat [1, T] */
    struct tensor lse;        /* stat [1, T] */
    struct tensor total;      /* f64 [1, 2], read and written */
};

/* Replaces logits by the gradient of the sum over tokens of loss + z_loss lse^2: (1 + 2 z_loss lse) softmax(logits) -
 * onehot(label), or 0 in rows with label < 0. (z-loss: Chowdhery et al. 2022, PaLM.) The gradient is not divided by the
 * number of labels. The columns may be a part of the vocabulary that begins at token
 * `origin`. */
struct xent_grad_args {
    struct tensor logits; /* f [T, V] */
    struct tensor labels; /* i32 [1, T] */
    struct tensor lse;    /* stat [1, T], of the whole vocabulary */
    int64_t origin;
    float z_loss;
};

/* Does xent_stat, without lse, and then xent_grad, for the whole vocabulary, but reads each logit from memory once. */
struct xent_both_args {
    struct tensor logits; /* f [T, V] */
    struct tensor labels; /* i32 [1, T] */
    struct tensor loss;   /* stat [1, T] */
    struct tensor total;  /* f64 [1, 2], read and written */
    float z_loss;
};

/* Mean squared error of N numbers a row. If label >= 0: loss = mean over j of (predictions[t, j] - targets[label, j])^2
 * and gradient = 2 (predictions - targets) / N, the gradient of the sum of losses; otherwise both are 0. total += {sum
 * of loss, number of labels >= 0}, summed in double in a fixed order. */
struct mse_args {
    struct tensor predictions; /* f [T, N], N > 0 */
    struct tensor labels;      /* i32 [1, T]: the row of targets, below S; negative: none */
    struct tensor targets;     /* f32 [S, N] */
    struct tensor gradient;    /* optional, of predictions' type [T, N]; may be predictions itself */
    struct tensor loss;        /* stat [1, T] */
    struct tensor total;       /* f64 [1, 2], read and written */
};

/* Weights the classes of a cross-entropy, as the argument `weight` of torch.nn.CrossEntropyLoss. If label >= 0: loss *=
 * weights[label], gradient *= weights[label] and total += {loss, weights[label]}, summed in double in a fixed order;
 * other rows are unchanged. */
struct class_weight_args {
    struct tensor labels;   /* i32 [1, T]; negative: none */
    struct tensor weights;  /* f32 [1, V] */
    struct tensor loss;     /* stat [1, T], read and written */
    struct tensor gradient; /* optional f [T, V], read and written */
    struct tensor total;    /* f64 [1, 2], read and written */
};

/* to = from. Both have the same dtype and shape; either may be in host memory. */
struct copy_args {
    struct tensor from, to;
};

/* to[rows[t]] = from[t]. `rows` has no duplicates; other rows of `to` stay unchanged. */
struct scatter_args {
    struct tensor from; /* f [T, n] */
    struct tensor rows; /* i32 [1, T], each in 0 .. R - 1 */
    struct tensor to;   /* from's type [R, n] */
};

/* to = from transposed, byte by byte. Makes the columnwise operand from a rowwise one with a single scale. */
struct transpose_args {
    struct tensor from; /* e4m3 or e5m2 [rows, cols] */
    struct tensor to;   /* same dtype [cols, rows]; does not overlap from */
};

/* Splits each f32 number into a bf16 number (high) and a 16-bit remainder (low); see core/dtype.h. Without low, it is
 * rounded to the same bf16 number, except that NaN stays NaN. Either side may be host memory that the executor
 * allocated. */
struct split_args {
    struct tensor from; /* f32 [1, n] */
    struct tensor high; /* bf16 [1, n] */
    struct tensor low;  /* optional i16 [1, n] */
};

/* The inverse of split: to = the f32 numbers that were split, exactly; without low, the bf16 numbers as f32. */
struct join_args {
    struct tensor high; /* bf16 [1, n] */
    struct tensor low;  /* optional i16 [1, n] */
    struct tensor to;   /* f32 [1, n] */
};

struct fill_args {
    struct tensor x; /* any float type */
    double value;
};

/* to += from, added in f32 and rounded to to's type. */
struct add_args {
    struct tensor from; /* f [rows, cols] */
    struct tensor to;   /* f, the same shape */
};

/* x *= factor, which is rounded to f32; multiplied in f32 and rounded to x's type. */
struct multiply_args {
    struct tensor x; /* f [rows, cols] */
    double factor;
};

/* to = factor * from / max(sqrt(squares), eps) + diagonal * I; without squares there is no division. Computed in f32,
 * with one factor that is rounded to f32, and rounded once to to's type. */
struct affine_args {
    struct tensor from;    /* f [M, N]; may be to itself */
    struct tensor squares; /* optional f64 [1, 1] */
    struct tensor to;      /* from's type [M, N]; M = N with a diagonal */
    double factor, diagonal, eps;
};

/* Dropout (Srivastava et al. 2014): y (+)= x / (1 - probability) for the elements that are kept, and 0 for the others.
 * keys[t], salt and origin + c decide whether element (t, c) is kept (core/dropout.h). */
struct dropout_args {
    struct tensor x;    /* f [T, H] */
    struct tensor keys; /* i32 [1, T]: keys of the tokens */
    struct tensor y;    /* x's type [T, H]; may be x itself */
    double probability; /* above 0, below 1 */
    uint32_t salt;      /* differs between tensors with the same keys */
    int64_t origin;     /* the column of the whole tensor that is x's first one; columns are below 2^32 */
    bool accumulate;
};

/* to (+)= from, rounded to the nearest multiple of quantum (a power of two), ties to even; NaN where |from| > most.
 * Sums below 2^53 quanta are exact, and therefore independent of their order (Demmel & Nguyen 2013). */
struct exact_add_args {
    struct tensor from; /* stat or f64 [1, n] */
    struct tensor to;   /* f64 [1, n] */
    double quantum, most;
    bool accumulate;
};

/* to = from, rounded. */
struct exact_read_args {
    struct tensor from; /* f64 [1, n] */
    struct tensor to;   /* stat [1, n] */
};

/* Makes the quantized operands of x. sum (+)= sum of x over T, in a fixed order: the bias's gradient if x is the
 * gradient of a linear layer's output. */
struct quantize_args {
    struct tensor x; /* f [T, K] */
    struct quantized_operands to;
    struct tensor sum; /* optional stat [1, K] */
    bool accumulate;   /* for sum */
};

/* Columns of quantization_statistic_args.result. The columns before STATISTIC_AMAX are sums, the others maxima. */
enum quantization_statistic {
    STATISTIC_COUNT,      /* number of elements */
    STATISTIC_UNDERFLOWS, /* number of nonzero elements that become 0 */
    STATISTIC_CLIPPED, /* number of finite elements beyond the format's largest number * scale (quantization_clipped) */
    STATISTIC_ERROR,   /* sum of squares of (quantized value - x) */
    STATISTIC_SQUARES, /* sum of squares of x */
    STATISTIC_SCALES,  /* number of scales */
    STATISTIC_POWERS,  /* number of scales that are powers of two */
    STATISTIC_AMAX,    /* max |x| */
    STATISTIC_SCALE,   /* the largest scale */
    STATISTIC_INVERSE, /* the largest reciprocal of a scale */
    STATISTICS
};

/* Adds to `result` statistics of the quantization error of x in its rowwise operand. Computes block scales as quantize
 * does, and rounds elements to nearest. Elements that are not finite count only in STATISTIC_COUNT, and a 1X32 block
 * that contains one has no scale. The scale of a 1X16 or 16X16 block is the block's times the tensor's; a scale of 0
 * counts only in STATISTIC_SCALES. */
struct quantization_statistic_args {
    struct tensor x;      /* f [T, K] */
    struct tensor scale;  /* stat [1, 1]: scale of the tensor, for SCALING_TENSOR, 1X16, 16X16 */
    struct tensor result; /* f64 [1, STATISTICS], read and written */
    struct quantization rule;
};

/* Delayed scaling of n tensors: updates their scales from the amaxes of a step. For each i with amax[i] positive and
 * finite, history[i] moves one place back, which drops its last entry, and amax[i] becomes its first entry. Then, with
 * m the largest entry of history[i] (its first entry when latest), scale[i] = 1 / (largest[i] / m), where the quotient
 * is at most FLT_MAX. If amax[i] is 0 (the tensor was not used) or not finite, nothing changes. amax becomes 0.
 * (TransformerEngine's rule, except that TransformerEngine also records inf, which then fixes the scale until it leaves
 * the history.) */
struct delayed_scale_args {
    struct tensor amax;    /* stat [n, 1], read and written */
    struct tensor history; /* stat [n, length], read and written */
    struct tensor scale;   /* stat [n, 1], read and written */
    struct tensor largest; /* stat [n, 1]: the format's largest number / 2^margin */
    bool latest;
};

enum { SQUARES_BLOCK = 128, SQUARES_PARTS = 3 };
#define SQUARES_STEP 0x1p-26 /* ratio of a part's quantum to the previous part's */

/* sum = sum of x^2 in double, in an order that depends only on the shape.
 *
 * With quantum, a power of two: each block of SQUARES_BLOCK numbers is summed in a fixed order, its sum is split into
 * multiples of quantum, of SQUARES_STEP * quantum and of SQUARES_STEP^2 * quantum, and each part is summed over the
 * blocks. The sums are exact below a total of 2^53 quanta. Therefore, however a vector is split at block boundaries,
 * the results of its pieces add up to the same bits, in any order. */
struct sum_squares_args {
    struct tensor x;   /* f [rows, cols]; with quantum stat [1, n], n a multiple of SQUARES_BLOCK */
    struct tensor sum; /* f64 [1, 1]; with quantum [1, SQUARES_PARTS] */
    double quantum;    /* 0: none */
};

/* Computes the factor that turns summed gradients into clipped mean gradients (torch.nn.utils.clip_grad_norm_): count =
 * total[1]; norm = sqrt(sum of squares) / count; scale = min(1, max_norm / (norm + 1e-6)) / count. With count 0, scale
 * and norm are 0. max_norm 0 means no clipping.
 *
 * If the norm or total[0] (the loss) is not finite, scale is NaN, and adamw skips the update. Otherwise updates += 1.
 * Then corrections = {1 - beta1^updates, 1 - beta2^updates}, adamw's bias corrections. */
struct gradient_scale_args {
    struct tensor squares;     /* f64 [1, n], partial sums of squares, summed in order */
    struct tensor total;       /* f64 [1, 2], as xent_stat writes it, summed over ranks */
    struct tensor scale;       /* stat [1, 1], written */
    struct tensor norm;        /* stat [1, 1], written */
    struct tensor updates;     /* f64 [1, 1], read and written: number of updates in m and v */
    struct tensor corrections; /* stat [1, 2], written */
    double beta1, beta2;
    float max_norm;
};

/* Columns of adamw_args.step, in device memory because they change in each step. gradient_scale writes the two
 * corrections, 1 - beta1^updates and 1 - beta2^updates. */
enum adamw_step { ADAMW_LR, ADAMW_CORRECTION_1, ADAMW_CORRECTION_2, ADAMW_STEP_COUNT };

/* Adam with decoupled weight decay (Loshchilov & Hutter 2019), as torch.optim.AdamW. With g = gradient * scale and lr =
 * step[LR] * lr_factor:
 *   w -= lr * weight_decay * w
 *   m = beta1 m + (1 - beta1) g
 *   v = beta2 v + (1 - beta2) g^2
 *   w -= lr * (m / step[CORRECTION_1]) / (sqrt(v / step[CORRECTION_2]) + eps)
 * Everything is computed in f32, and rounded once where it is stored in bf16. If scale is NaN, nothing changes. */
struct adamw_args {
    struct tensor weight;   /* f [1, n]; with low: bf16, the high part of split; else of the type of m and v */
    struct tensor low;      /* optional i16 [1, n] */
    struct tensor gradient; /* f [1, n], of the type of m and v, or bf16 with low */
    struct tensor m, v;     /* f [1, n]; with low stat */
    struct tensor step;     /* stat [1, ADAMW_STEP_COUNT] */
    struct tensor scale;    /* stat [1, 1] */
    double beta1, beta2, eps, weight_decay, lr_factor;
};

/* The momentum of Muon (torch.optim.Muon). With g = gradient * scale:
 *   m = momentum m + (1 - momentum) g
 *   update = nesterov ? momentum m + (1 - momentum) g : m
 * Everything is computed in f32, and rounded once where it is stored. If scale is NaN, m does not change and update is
 * 0. */
struct momentum_args {
    struct tensor gradient; /* f [1, n], of m's type, or bf16 with an f32 m */
    struct tensor m;        /* f [1, n] */
    struct tensor update;   /* f [1, n], of any type */
    struct tensor scale;    /* stat [1, 1] */
    double momentum;
    bool nesterov;
};

/* The step of Muon with an orthogonalized update (torch.optim.Muon). With lr = rate * lr_factor:
 *   w -= lr * weight_decay * w
 *   w -= lr * adjustment * update
 * Everything is computed in f32, and rounded once where it is stored in bf16. If scale is NaN, nothing changes. */
struct muon_args {
    struct tensor weight; /* f [1, n]; with low: bf16, the high part of split */
    struct tensor low;    /* optional i16 [1, n] */
    struct tensor update; /* f [1, n], of any type */
    struct tensor rate;   /* stat [1, 1] */
    struct tensor scale;  /* stat [1, 1] */
    double lr_factor, weight_decay, adjustment;
};

/* Collectives over `group`, which has `size` ranks. All ranks launch the same collectives in the same order. f32 and
 * bf16 are summed in f32, f64 in f64. In host memory the sum is in rank order, ((x_0 + x_1) + x_2) + ..., and rounded
 * to bf16 once. Between devices the communication library chooses the order, and may round each partial sum to bf16.
 *
 * With `scratch`, devices sum in rank order as the host does, if `scratch` and the summed tensors are in
 * memory that the group allocated (core/group.h): all contributions are copied to `scratch`, which occupies no SMs, and
 * then added. The content of `scratch` is undefined afterwards. */
struct all_reduce_args {
    struct group *group;
    struct tensor x;       /* f or f64, contiguous; replaced by the sum or maximum over ranks */
    bool maximum;          /* not for bf16; the numbers must not be NaN (NCCL loses NaN) */
    struct tensor scratch; /* optional, for sums: same dtype [size, n], n elements of x */
};

struct reduce_scatter_args {
    struct group *group;
    struct tensor in;      /* f [size, n]: row r is the contribution to rank r */
    struct tensor out;     /* same dtype [1, n]; may be this rank's row of in; other rows of in stay unchanged */
    struct tensor scratch; /* optional: same dtype [size, n] */
};

struct all_gather_args {
    struct group *group;
    struct tensor in;  /* any [1, n]; may be this rank's row of out */
    struct tensor out; /* same dtype [size, n]: row r comes from rank r */
};

struct broadcast_args {
    struct group *group;
    struct tensor x; /* any, contiguous; replaced by root's values on all ranks */
    int root;
};

struct all_to_all_args {
    struct group *group;
    struct tensor in;  /* any [size, n]: row r goes to rank r */
    struct tensor out; /* same dtype [size, n]: row r comes from rank r; does not overlap in */
};

/* Sends around a ring: rank r sends to rank r + 1, and the last rank to the first. */
struct shift_args {
    struct group *group;
    struct tensor in;  /* any [1, n] */
    struct tensor out; /* same dtype [1, n], received from the previous rank; does not overlap in */
};

/* Pipeline send and receive: each rank sends to its two neighbours in the group and receives from them, all at once;
 * the last and the first rank are neighbours. Any of the four tensors may be absent. A send of one rank needs a receive
 * of its neighbour; messages of one direction arrive in order. Collective over neighbouring ranks with data for each
 * other; a group's first send_receive is collective over all its ranks. Transfers of one direction on one stream do not
 * wait for other directions or streams. */
struct send_receive_args {
    struct group *group;
    struct tensor to_next;       /* any, contiguous, as are the others */
    struct tensor from_previous; /* the previous rank's to_next, of the same size */
    struct tensor to_previous;
    struct tensor from_next; /* this and from_previous overlap none of the others */
};
enum transfer_direction {
    SEND_TO_NEXT,
    RECEIVE_FROM_PREVIOUS,
    SEND_TO_PREVIOUS,
    RECEIVE_FROM_NEXT,
    TRANSFER_DIRECTIONS
};

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

const struct op_info *op_info(enum op op);

/* Returns the floating-point operations of a GEMM, of experts too, or attention, 2 per useful multiply-add; 0 for all
 * other ops. */
int64_t op_flops(enum op op, const void *args);

/* Returns the minimum memory traffic in bytes, without reuse in caches: the size of each tensor, twice if the op both
 * reads and writes it. */
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
