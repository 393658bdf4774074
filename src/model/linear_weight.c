/* Quantized forms of the weight of a linear layer: in the store, or made for each GEMM. */
#include "model/linear_private.h"

static const struct tensor absent;

struct operand_shape linear_weight_shape(const struct unit *unit, const struct linear *linear, int which)
{
    const struct weight *w = &unit->weights[linear->weight];
    const enum scaling scaling = linear->precision->rules[OPERAND_WEIGHT].scaling;
    switch (which) {
    case LINEAR_ROW:
        return (struct operand_shape){w->rows, w->cols, w->cols};
    case LINEAR_COLUMN:
        return (struct operand_shape){w->cols, w->rows, w->rows};
    case LINEAR_ROW_SCALE:
        return scale_shape_of(scaling, w->rows, quantization_blocks(w->rows), quantization_blocks(w->cols));
    default:
        return scale_shape_of(scaling, w->cols, quantization_blocks(w->cols), quantization_blocks(w->rows));
    }
}

static struct tensor quantized_weight(const struct execution *execution, const struct unit *unit,
                                      const struct linear *linear, int which)
{
    if (unit->rowwise_base != NULL && which == LINEAR_ROW)
        return unit_row_copy(unit, linear->weight);
    if (unit->rowwise_base != NULL && which == LINEAR_ROW_SCALE)
        return tensor_rows(&unit->row_scales, linear->weight, 1);
    if (!linear->quantizes_per_gemm)
        return unit_quantized(execution, unit, linear->first_quantized + which);
    struct tensor made = unit_tensor(execution, unit, linear->first + LINEAR_WEIGHT + which);
    made.cols = linear_weight_shape(unit, linear, which).cols;
    return made;
}

static struct quantized_operands operands_of_weight(const struct execution *execution, const struct unit *unit,
                                                    const struct linear *linear)
{
    struct quantized_operands to = linear_rule(execution, linear, OPERAND_WEIGHT);
    to.row = quantized_weight(execution, unit, linear, LINEAR_ROW);
    to.column = quantized_weight(execution, unit, linear, LINEAR_COLUMN);
    if (operand_has_scales(&to))
        to.row_scale = to.column_scale = quantized_weight(execution, unit, linear, LINEAR_ROW_SCALE);
    if (operand_has_scales(&to) && to.rule.scaling != SCALING_TENSOR)
        to.column_scale = quantized_weight(execution, unit, linear, LINEAR_COLUMN_SCALE);
    return to;
}

static struct quantized_operands quantize_weight(const struct execution *execution, const struct unit *unit,
                                                 const struct linear *linear, bool rows, bool columns)
{
    struct quantized_operands to = operands_of_weight(execution, unit, linear);
    if (!rows)
        to.row = to.row_scale = absent;
    if (!columns)
        to.column = to.column_scale = absent;
    if (rows || columns)
        LAUNCH(execution->stream, QUANTIZE, quantize, .x = unit_weight(execution, unit, linear->weight), .to = to);
    return to;
}

/* Forward and recompute read the rowwise form; the GEMM of dx reads the columnwise form. */
void linear_quantize_weight(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            bool all)
{
    const bool backward = execution->pass == PASS_BACKWARD, own = linear->section < 0;
    if (!linear_is_quantized(linear) || linear->quantizes_per_gemm)
        return;
    const bool again = backward && (own || id_set_has(execution->wanted, linear->section));
    const bool rows = all || execution->pass == PASS_FORWARD || again;
    const bool columns = all || (backward && (own || (execution->gradients & GRADIENT_INPUT)));
    if (unit->rowwise_base == NULL) {
        quantize_weight(execution, unit, linear, rows, columns);
    } else if (columns) {
        const struct quantized_operands to = operands_of_weight(execution, unit, linear);
        LAUNCH(execution->stream, TRANSPOSE, transpose, .from = to.row, .to = to.column);
    }
}

struct quantized_operands linear_ready_weight(const struct execution *execution, const struct unit *unit,
                                              const struct linear *linear, bool column)
{
    if (!linear->quantizes_per_gemm)
        return operands_of_weight(execution, unit, linear);
    return quantize_weight(execution, unit, linear, !column, column);
}
