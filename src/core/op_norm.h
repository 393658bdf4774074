/* Arguments of ops (core/op.h): norms. */
#ifndef CORE_OP_NORM_H
#define CORE_OP_NORM_H

#include "core/tensor.h"

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

#endif
