/* In which formats a model's linear layers compute: which linears are quantized, and how each operand of theirs is.
 * Plain data, made from a deck by setup/precision.h. */
#ifndef ARCHITECTURE_PRECISION_H
#define ARCHITECTURE_PRECISION_H

#include "core/quantization.h"
#include "architecture/layer_list.h"

/* The linear layers of a block, numbered like their weights (model/block.h). */
enum { LINEAR_QKV, LINEAR_O, LINEAR_UP, LINEAR_DOWN, LINEAR_COUNT };

/* Operands of a linear's three products: y = input weight', dinput = gradient weight, dweight = gradient' input. */
enum operand_kind { OPERAND_INPUT, OPERAND_WEIGHT, OPERAND_GRADIENT, OPERAND_COUNT };

/* How the products of a linear layer get their operands. */
struct linear_precision {
    bool quantized;           /* false: operands have the compute type, and the rest is unused */
    bool delayed;             /* scales are made of the amaxes of earlier steps: rules are SCALING_TENSOR */
    bool fast;                /* the forward product may sum in fewer bits (gemm_args.fast) */
    bool wide_weight_product; /* the weight's gradient is a product in the compute type */
    struct quantization rules[OPERAND_COUNT];
};

enum precision_kind { PRECISION_COMPUTE, PRECISION_EIGHT, PRECISION_FOUR, PRECISION_KINDS };

struct precision {
    struct linear_precision kinds[PRECISION_KINDS];
    struct layer_list eight, four; /* layers that compute so; the others have PRECISION_COMPUTE */
    bool linears[LINEAR_COUNT];    /* of these layers, the linears that do */
    bool head;                     /* so do the head's products, as the eight-bit layers */
    int64_t history;               /* of delayed scaling: steps */
    double margin;                 /* largest number of a format is divided by 2^margin */
    bool makes_copies;             /* of weights, for each product; false: copies are kept from update to update */
    bool latest;                   /* the scale is made of the last amax, not of the largest in the history */
    struct layer_list statistics;  /* quantized layers in which what that loses is measured at some steps; the head is
                                      the  one behind the last */
};

/* "qkv", "o", "up", "down". */
const char *precision_linear_name(int linear);

/* How a linear of a layer computes. Always valid. */
const struct linear_precision *precision_of(const struct precision *precision, int layer, int linear);

/* Is a format used by any layer, or by the head? */
bool precision_uses(const struct precision *precision, enum precision_kind kind);

/* Is any linear quantized; is any with delayed scaling; is any rounded at random? */
bool precision_quantizes(const struct precision *precision);
bool precision_delays(const struct precision *precision);
bool precision_draws(const struct precision *precision);

#endif
