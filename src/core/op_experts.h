/* Arguments of ops (core/op.h): mixtures of experts. */
#ifndef CORE_OP_EXPERTS_H
#define CORE_OP_EXPERTS_H

#include "core/tensor.h"

/* Mixture of experts: a router chooses C experts for each token, T C pairs in all. An executor computes the pairs of E
 * experts: all, or some of them. expert_order numbers the pairs by expert; the matrices of pairs, [S, ...], have rows
 * in this order, so an expert's rows are consecutive. S is the largest number of pairs that there can be. Rows from
 * ends[E - 1] on belong to no pair: no op writes them, and no result depends on them. */

enum { EXPERTS_MOST = 256 };

/* experts[t] = the C experts with the largest logits of token t, largest first, of equal logits the lower number first;
 * weights[t] = softmax of the chosen logits. (Shazeer et al. 2017; as Mixtral normalises it, Jiang et al. 2024.)
 * Experts are distinct, also where logits are NaN. */
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

/* Sorts the pairs (t, c) with experts first .. first + E - 1 by experts[t, c], those of an expert by t: places[t, c] =
 * the pair's place in this order, tokens[places[t, c]] = t, and ends[e] = the number of pairs with experts first ..
 * first + e. The places of other pairs are -1. Elements of tokens from ends[E - 1] on are not written. */
struct expert_order_args {
    struct tensor experts; /* i32 [T, C], each >= 0; a token's are distinct */
    struct tensor places;  /* i32 [T, C] */
    struct tensor tokens;  /* i32 [1, S], S = T min(C, E) */
    struct tensor ends;    /* i32 [1, E], E at most EXPERTS_MOST */
    int64_t first;
};

/* d[s] = a[s] op(b_e) for each row s of expert e, rows ends[e - 1] .. ends[e] - 1, where b_e is the e-th of E equal
 * parts of b's rows, and op transposes or does nothing. Rows from ends[E - 1] on are not written. Accumulates in f32.
 */
struct expert_gemm_args {
    struct tensor a;    /* f [S, K] */
    struct tensor b;    /* a's type [E K, N]; [E N, K] when transpose_b */
    struct tensor ends; /* i32 [1, E] */
    struct tensor d;    /* a's type [S, N] */
    int64_t mean_rows;  /* the expected ends[E - 1], for counts of FLOPs and bytes; 0: S */
    bool transpose_b;
};

/* dweight_e (+)= dy_e' x_e, the e-th of E equal parts of dweight's rows, where dy_e and x_e are the rows of expert e,
 * as in expert_gemm. Without rows it is 0. In a fixed order. */
struct expert_gradient_args {
    struct tensor dy;      /* f [S, N] */
    struct tensor x;       /* dy's type [S, K] */
    struct tensor ends;    /* i32 [1, E] */
    struct tensor dweight; /* f [E N, K]; a bf16 sum is rounded once */
    int64_t mean_rows;     /* as in expert_gemm */
    bool accumulate;
};

/* y[t] = addend[t] + sum over c of weights[t, c] x[places[t, c]], in f32 in the order of c, rounded once. Pairs with
 * place -1 add nothing. */
struct combine_forward_args {
    struct tensor x;       /* f [S, H] */
    struct tensor places;  /* i32 [T, C], each in -1 .. S - 1 */
    struct tensor weights; /* optional stat [T, C]; absent: 1 */
    struct tensor addend;  /* optional f [T, H], of x's type; may be y itself; absent: 0 */
    struct tensor y;       /* x's type [T, H] */
    int64_t mean_rows;     /* the expected number of places that are not -1, for counts of bytes; 0: S */
};

/* dx[places[t, c]] = weights[t, c] dy[t]; d_weights[t, c] = dy[t] . x[places[t, c]], 0 for place -1. Rows of dx without
 * a place are not written. */
struct combine_backward_args {
    struct tensor dy;        /* f [T, H] */
    struct tensor x;         /* dy's type [S, H] */
    struct tensor places;    /* i32 [T, C], each in -1 .. S - 1, without duplicates but -1 */
    struct tensor weights;   /* stat [T, C] */
    struct tensor dx;        /* dy's type [S, H] */
    struct tensor d_weights; /* stat [T, C] */
    int64_t mean_rows;       /* as in combine_forward */
};

#endif
