/* The tensors and quantized forms that a linear layer declares. */
#include "model/linear_private.h"
#include "model/sequence.h"

static void declare_exchange(struct unit *unit, const struct linear *linear)
{
    const struct weight *w = &unit->weights[linear->weight];
    const int64_t width = linear->split == LINEAR_COLUMN_PARALLEL ? w->cols : w->rows;
    if (linear->split == LINEAR_REPLICATED || !sequence_parallel(unit))
        return;
    unit_declare_tensor(unit, linear->first + LINEAR_GATHERED, "gathered", linear->tokens, width, ROLE_VALUE);
    unit_declare_tensor(unit, linear->first + LINEAR_PARTIAL, "part of a sum", linear->tokens, width, ROLE_VALUE);
    sequence_declare_scratch(unit, linear->first + LINEAR_SCRATCH, linear->tokens, width);
    unit_declare_tensor(unit, linear->first + LINEAR_AMAX, "amax of all ranks", 1, 1, ROLE_STATISTIC);
}

/* Declares the quantized forms of an input or output gradient of `width` columns. With one scale for the tensor,
 * rowwise and columnwise form share it. */
static void declare_operand(struct unit *unit, const struct linear *linear, enum operand_kind kind, int64_t width)
{
    const struct linear_precision *p = linear->precision;
    const struct quantization *rule = &p->rules[kind];
    const int id = linear->first + (kind == OPERAND_GRADIENT ? LINEAR_GRADIENT : 0);
    const bool input = kind == OPERAND_INPUT, columns = !p->wide_weight_gemm, all = linear->tokens == UNIT_TOKENS;
    const enum tensor_role role = role_of_quantized(rule);
    const int64_t blocks = all ? UNIT_TOKEN_BLOCKS : quantization_blocks(linear->tokens);
    const int64_t padded = all ? UNIT_PADDED_TOKENS : blocks * QUANTIZATION_BLOCK;
    const struct operand_shape row = scale_shape_of(rule->scaling, linear->tokens, blocks, quantization_blocks(width));
    const struct operand_shape column = scale_shape_of(rule->scaling, width, quantization_blocks(width), blocks);
    unit_declare_tensor(unit, id + LINEAR_ROW, input ? "input rowwise" : "gradient rowwise", linear->tokens, width,
                        role);
    if (columns)
        unit_declare_tensor(unit, id + LINEAR_COLUMN, input ? "input columnwise" : "gradient columnwise", width, padded,
                            role);
    if (p->delayed || rule->scaling == SCALING_1X32)
        return;
    unit_declare_tensor(unit, id + LINEAR_ROW_SCALE, input ? "input row scale" : "gradient row scale", row.rows,
                        row.cols, ROLE_STATISTIC);
    if (columns && rule->scaling != SCALING_TENSOR)
        unit_declare_tensor(unit, id + LINEAR_COLUMN_SCALE, input ? "input column scale" : "gradient column scale",
                            column.rows, column.cols, ROLE_STATISTIC);
}

/* Declares a quantized form of the weight, or its scales: in the store, or as a tensor of the unit with rows of
 * shape.stride elements. */
static void declare_quantized(struct unit *unit, const struct linear *linear, int which, struct operand_shape shape,
                              enum tensor_role role)
{
    static const char *const names[LINEAR_QUANTIZED] = {"weight rowwise", "weight columnwise", "weight row scale",
                                                        "weight column scale"};
    if (linear->quantizes_per_gemm)
        unit_declare_tensor(unit, linear->first + LINEAR_WEIGHT + which, names[which], shape.rows, shape.stride, role);
    else
        unit_declare_quantized(unit, linear->first_quantized + which, shape.rows, shape.cols, shape.stride, role);
}

static void declare_weight(struct unit *unit, const struct linear *linear)
{
    const enum tensor_role role = role_of_quantized(&linear->precision->rules[OPERAND_WEIGHT]);
    for (int which = 0; which < LINEAR_QUANTIZED; which++)
        declare_quantized(unit, linear, which, linear_weight_shape(unit, linear, which),
                          which <= LINEAR_COLUMN ? role : ROLE_STATISTIC);
}

void linear_declare(struct unit *unit, const struct linear *linear)
{
    declare_exchange(unit, linear);
    adapter_declare(unit, &linear->adapter, linear->tokens, unit->weights[linear->weight].cols);
    if (!linear_is_quantized(linear))
        return;
    struct weight *w = &unit->weights[linear->weight];
    declare_operand(unit, linear, OPERAND_INPUT, w->cols);
    declare_operand(unit, linear, OPERAND_GRADIENT, w->rows);
    declare_weight(unit, linear);
    w->operand = linear->number + (int)OPERAND_WEIGHT;
    if (!linear->quantizes_per_gemm && linear->precision->rules[OPERAND_WEIGHT].scaling == SCALING_TENSOR)
        w->quantized = linear->precision;
}
