/* Arguments of ops (core/op.h): activation functions. */
#ifndef CORE_OP_ACTIVATION_H
#define CORE_OP_ACTIVATION_H

#include "core/op_quantize.h"
#include "core/tensor.h"

/* Ops with a field `to` also write the quantized operands of y (or dx), as quantize would make them from y rounded to
 * its type. y may then be absent, and has x's type. Scalings: TENSOR with scale, 1X128, 128X128 or 1X32. */

/* y = silu(gate) * up, x = [gate | up]. */
struct swiglu_forward_args {
    struct tensor x;              /* f [T, 2 F] */
    struct tensor y;              /* f [T, F]; optional with `to` */
    struct tensor ends;           /* optional i32 [1, E], without `to`: rows from the last of ends on are not written */
    struct quantized_operands to; /* quantized operands of y */
    int64_t mean_rows;            /* the expected last of ends, for counts of bytes; 0: T */
};

/* The gradient of swiglu_forward: with s = sigmoid(gate), dx = [dy * up * s * (1 + gate (1 - s)) | dy * silu(gate)].
 * y_to: the forward's y is recomputed too, as quantized operands only, so that they need not be kept from forward. */
struct swiglu_backward_args {
    struct tensor x;                /* f [T, 2 F] */
    struct tensor dy;               /* f [T, F] */
    struct tensor dx;               /* f [T, 2 F]; optional with `to` */
    struct tensor ends;             /* optional, as in swiglu_forward, without `to` and y_to */
    struct quantized_operands to;   /* quantized operands of dx */
    struct quantized_operands y_to; /* optional quantized operands of y */
    int64_t mean_rows;              /* as in swiglu_forward */
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

#endif
