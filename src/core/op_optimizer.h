/* Arguments of ops (core/op.h): gradient norms and optimizers. */
#ifndef CORE_OP_OPTIMIZER_H
#define CORE_OP_OPTIMIZER_H

#include "core/tensor.h"

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

#endif
