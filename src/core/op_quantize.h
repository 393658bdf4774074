/* Arguments of ops (core/op.h): quantization. */
#ifndef CORE_OP_QUANTIZE_H
#define CORE_OP_QUANTIZE_H

#include "core/quantization.h"
#include "core/tensor.h"

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

#endif
