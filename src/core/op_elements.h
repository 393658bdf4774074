/* Arguments of ops (core/op.h): copies and element-wise arithmetic. */
#ifndef CORE_OP_ELEMENTS_H
#define CORE_OP_ELEMENTS_H

#include "core/tensor.h"

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

#endif
