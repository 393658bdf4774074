/* The formats in which a model's linear layers compute: which linears are quantized, and how each of their operands is.
 * Plain data, made from a deck by setup/precision.h. */
#ifndef ARCHITECTURE_PRECISION_H
#define ARCHITECTURE_PRECISION_H

#include "core/quantization.h"
#include "architecture/layer_list.h"

/* The linear layers of a block, numbered like their weights (model/block.h). */
enum { LINEAR_QKV, LINEAR_O, LINEAR_UP, LINEAR_DOWN, LINEAR_COUNT };

/* Operands of a linear's three GEMMs: y = input weight', dinput = gradient weight, dweight = gradient' input. */
enum operand_kind { OPERAND_INPUT, OPERAND_WEIGHT, OPERAND_GRADIENT, OPERAND_COUNT };

/* The precision of a linear layer's GEMMs. */
struct linear_precision {
    bool quantized;        /* false: operands have the compute type, and the rest is unused */
    bool delayed;          /* delayed scaling: scales come from amaxes of earlier steps; all rules are SCALING_TENSOR */
    bool fast;             /* the forward GEMM may accumulate with fewer bits (gemm_args.fast) */
    bool wide_weight_gemm; /* the GEMM of the weight gradient is in the compute type */
    struct quantization rules[OPERAND_COUNT];
};

enum precision_kind { PRECISION_COMPUTE, PRECISION_EIGHT, PRECISION_FOUR, PRECISION_KINDS };

struct precision {
    struct linear_precision kinds[PRECISION_KINDS];
    struct layer_list eight, four; /* layers of PRECISION_EIGHT and PRECISION_FOUR; the others have PRECISION_COMPUTE */
    bool linears[LINEAR_COUNT];    /* linears that are quantized in eight and four */
    bool head;                     /* the head's GEMMs are quantized as PRECISION_EIGHT */
    int64_t history;               /* delayed scaling: steps */
    double margin;                 /* delayed scaling: a format's largest number is divided by 2^margin */
    bool quantizes_per_gemm;       /* weights are quantized for each GEMM; false: once per update */
    bool latest; /* delayed scaling: the scale comes from the last amax, not the largest of the history */
    struct layer_list statistics; /* quantized layers whose quantization error is measured in some steps; the head is
                                     the layer after the last */
};

/* Returns "qkv", "o", "up" or "down". */
const char *precision_linear_name(int linear);

/* Returns the precision of a linear of a layer; never NULL. */
const struct linear_precision *precision_of(const struct precision *precision, int layer, int linear);

/* Returns whether any layer, or the head, uses a format. */
bool precision_uses(const struct precision *precision, enum precision_kind kind);

/* Return whether any linear is quantized; has delayed scaling; is rounded stochastically. */
bool precision_quantizes(const struct precision *precision);
bool precision_delays(const struct precision *precision);
bool precision_draws(const struct precision *precision);

#endif
