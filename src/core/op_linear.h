/* Arguments of ops (core/op.h): GEMMs and embeddings. */
#ifndef CORE_OP_LINEAR_H
#define CORE_OP_LINEAR_H

#include "core/quantization.h"
#include "core/tensor.h"

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
    struct tensor ends;   /* optional i32 [1, E]: rows from the last of ends on are not written */
    int64_t mean_rows;    /* the expected last of ends, for counts of bytes; 0: T */
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

#endif
