/* Inputs and output gradients of linear layers: which quantized forms an op makes of them, and where they are. */
#include "model/linear_private.h"

static const struct tensor absent;

bool linear_is_quantized(const struct linear *linear)
{
    return linear->precision != NULL && linear->precision->quantized;
}

bool linear_quantizes(const struct execution *execution, const struct linear *linear)
{
    return linear_is_quantized(linear) && (execution->pass == PASS_FORWARD || execution->pass == PASS_BACKWARD);
}

bool linear_has_adapters(const struct linear *linear)
{
    return linear->adapter.count > 0;
}

/* Returns whether the weight gradient reads columnwise forms. */
static bool has_columns(const struct linear *linear)
{
    return !linear->precision->wide_weight_gemm && !linear->frozen;
}

struct quantized_operands linear_quantized(const struct execution *execution, const struct linear_precision *precision,
                                           int number)
{
    struct quantized_operands to = {.rule = precision->rules[number % OPERAND_COUNT], .salt = (uint32_t)number};
    if (precision->delayed) {
        to.scale = tensor_rows(&execution->scales, number, 1);
        to.amax = tensor_rows(&execution->amax, number, 1);
    }
    if (to.rule.stochastic)
        to.draw = execution->batch->draw;
    return to;
}

struct quantized_operands linear_rule(const struct execution *execution, const struct linear *linear,
                                      enum operand_kind kind)
{
    return linear_quantized(execution, linear->precision, linear->number + (int)kind);
}

bool operand_has_scales(const struct quantized_operands *to)
{
    return !tensor_present(&to->scale) && to->rule.scaling != SCALING_1X32;
}

struct tensor operand_row_scale(const struct quantized_operands *to)
{
    return tensor_present(&to->scale) ? to->scale : to->row_scale;
}

struct tensor operand_column_scale(const struct quantized_operands *to)
{
    return tensor_present(&to->scale) ? to->scale : to->column_scale;
}

/* Returns a tensor [rows, cols] in the memory of the unit's tensor `id`. */
static struct tensor shaped(const struct execution *execution, const struct unit *unit, int id, int64_t rows,
                            int64_t cols)
{
    return tensor_matrix(execution->services->address(execution, unit, id),
                         execution_dtype(execution, unit->tensors[id].role), rows, cols);
}

static struct tensor shaped_scale(const struct execution *execution, const struct unit *unit, int id,
                                  enum scaling scaling, const struct tensor *operand)
{
    const struct operand_shape s =
        scale_shape_of(scaling, operand->rows, quantization_blocks(operand->rows), quantization_blocks(operand->cols));
    return shaped(execution, unit, id, s.rows, s.cols);
}

/* Returns whether an op that can quantize the operand also does: if a scale is known (delayed scaling) or belongs to a
 * block. */
static bool fuses(const struct linear *linear, enum operand_kind kind)
{
    return linear_is_quantized(linear) && linear->fused[kind] &&
           (linear->precision->delayed || scaling_local(linear->precision->rules[kind].scaling));
}

bool linear_remakes(const struct linear *linear)
{
    return linear->remade && fuses(linear, OPERAND_INPUT) && has_columns(linear);
}

static struct operand operand_of(const struct execution *execution, const struct unit *unit,
                                 const struct linear *linear, enum operand_kind kind, struct tensor value)
{
    const int id = linear->first + (kind == OPERAND_GRADIENT ? LINEAR_GRADIENT : 0);
    if (!linear_quantizes(execution, linear))
        return (struct operand){.value = value};
    struct quantized_operands to = linear_rule(execution, linear, kind);
    const bool late =
        kind == OPERAND_INPUT && linear_remakes(linear) && (execution->pass == PASS_FORWARD || execution->recompute);
    const bool columns = has_columns(linear) && !late;
    const bool rows = kind == OPERAND_GRADIENT || !execution->recompute ||
                      id_set_has(execution->wanted, linear->section) || linear_gathers_quantized(unit, linear, kind);
    const bool scales = operand_has_scales(&to), shared = to.rule.scaling == SCALING_TENSOR;
    const struct tensor row = shaped(execution, unit, id + LINEAR_ROW, value.rows, value.cols);
    const struct tensor scale =
        scales ? shaped_scale(execution, unit, id + LINEAR_ROW_SCALE, to.rule.scaling, &row) : absent;
    if (rows) {
        to.row = row;
        to.row_scale = scale;
    }
    if (columns)
        to.column = shaped(execution, unit, id + LINEAR_COLUMN, value.cols,
                           quantization_blocks(value.rows) * QUANTIZATION_BLOCK);
    if (columns && scales)
        to.column_scale =
            shared ? scale : shaped_scale(execution, unit, id + LINEAR_COLUMN_SCALE, to.rule.scaling, &to.column);
    return (struct operand){.value = value, .to = to};
}

struct operand linear_input(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            struct tensor x)
{
    if (!linear_gathers(unit, linear))
        return operand_of(execution, unit, linear, OPERAND_INPUT, x);
    struct operand operand =
        operand_of(execution, unit, linear, OPERAND_INPUT, linear_gathered(execution, unit, linear));
    operand.own = x;
    return operand;
}

struct operand linear_gradient(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                               struct tensor dy)
{
    return operand_of(execution, unit, linear, OPERAND_GRADIENT, dy);
}

bool linear_measures(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    const bool again =
        execution->recompute || (execution->pass == PASS_BACKWARD && (execution->gradients & GRADIENT_INPUT) == 0);
    return tensor_present(&execution->quantization_errors) && !again &&
           layer_list_has(&unit->settings->precision.statistics, operand_layer(linear->number));
}

void linear_measure(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    enum operand_kind kind, const struct operand *operand)
{
    const struct quantized_operands *to = &operand->to;
    if (!linear_measures(execution, unit, linear))
        return;
    LAUNCH(execution->stream, QUANTIZATION_STATISTIC, quantization_statistic, .x = operand->value,
           .scale = scaling_whole(to->rule.scaling) ? operand_row_scale(to) : absent,
           .result = tensor_rows(&execution->quantization_errors, linear->number + (int)kind, 1), .rule = to->rule);
}

bool linear_is_fused(const struct execution *execution, const struct linear *linear, enum operand_kind kind)
{
    const bool whole = kind == OPERAND_INPUT || execution->gradients == GRADIENT_BOTH;
    return linear_quantizes(execution, linear) && fuses(linear, kind) && whole;
}

struct operand linear_made(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                           enum operand_kind kind, const struct operand *operand)
{
    if (!linear_is_fused(execution, linear, kind))
        return (struct operand){.value = operand->value};
    const bool value =
        linear->precision->wide_weight_gemm || linear_has_adapters(linear) || linear_measures(execution, unit, linear);
    return (struct operand){.value = value ? operand->value : absent, .to = operand->to};
}

struct quantized_operands linear_remade(const struct execution *execution, const struct linear *linear,
                                        const struct operand *input)
{
    struct quantized_operands to = {0};
    if (!linear_quantizes(execution, linear) || !linear_remakes(linear))
        return to;
    to = input->to;
    to.row = to.row_scale = to.amax = absent; /* forward has made them */
    return to;
}
