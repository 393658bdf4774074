/* Arguments of ops (core/op.h): losses. */
#ifndef CORE_OP_LOSS_H
#define CORE_OP_LOSS_H

#include "core/tensor.h"

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
 * number of labels. The columns may be a part of the vocabulary that begins at token `origin`. */
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

#endif
