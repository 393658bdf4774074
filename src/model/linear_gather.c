/* Operands that tensor ranks have in parts and gather, as values or in quantized form. */
#include "model/linear_private.h"
#include "model/sequence.h"

static const struct tensor absent;

bool linear_is_split(const struct unit *unit, const struct linear *linear, enum linear_split split)
{
    return linear->split == split && tensor_ranks(&unit->settings->tensor) > 1;
}

bool linear_gathers(const struct unit *unit, const struct linear *linear)
{
    return linear_is_split(unit, linear, LINEAR_COLUMN_PARALLEL) && sequence_parallel(unit);
}

struct tensor linear_gathered(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    return unit_tensor(execution, unit, linear->first + LINEAR_GATHERED);
}

bool linear_gathers_quantized(const struct unit *unit, const struct linear *linear, enum operand_kind kind)
{
    const struct linear_precision *p = linear->precision;
    return sequence_parallel(unit) &&
           linear->split == (kind == OPERAND_INPUT ? LINEAR_COLUMN_PARALLEL : LINEAR_ROW_PARALLEL) &&
           linear_is_quantized(linear) && p->rules[kind].scaling == SCALING_TENSOR && !p->wide_weight_gemm &&
           !linear_has_adapters(linear) &&
           !layer_list_has(&unit->settings->precision.statistics, operand_layer(linear->number)) &&
           (kind == OPERAND_INPUT || linear->bias < 0);
}

static struct tensor shared_amax(const struct execution *execution, const struct unit *unit,
                                 const struct linear *linear, const struct quantized_operands *rule, struct tensor own)
{
    struct quantized_operands to = {.rule = rule->rule,
                                    .amax = unit_tensor(execution, unit, linear->first + LINEAR_AMAX)};
    LAUNCH(execution->stream, FILL, fill, .x = to.amax, .value = 0);
    LAUNCH(execution->stream, QUANTIZE, quantize, .x = own, .to = to);
    LAUNCH(execution->stream, ALL_REDUCE, all_reduce, .group = execution->tensor, .x = to.amax, .maximum = true);
    return to.amax;
}

/* Makes the columnwise form by transposing. Its padding after the last token is zero, written as bf16, two bytes each;
 * rows have an even number of tokens. */
static void transpose_row(const struct execution *execution, const struct quantized_operands *to)
{
    const int64_t tokens = to->row.rows;
    const struct tensor *column = &to->column;
    LAUNCH(execution->stream, TRANSPOSE, transpose, .from = to->row, .to = tensor_columns(column, 0, tokens));
    if (column->cols > tokens)
        LAUNCH(execution->stream, FILL, fill, .value = 0,
               .x = (struct tensor){tensor_at(column, 0, tokens), DTYPE_BF16, column->rows, (column->cols - tokens) / 2,
                                    column->stride / 2});
}

/* Quantizes this rank's part rowwise, to its place among all. */
static void quantize_own(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                         const struct operand *operand)
{
    struct quantized_operands to = operand->to;
    if (operand_has_scales(&to))
        to.whole_amax = shared_amax(execution, unit, linear, &to, operand->own);
    to.row = sequence_own(execution, operand->to.row);
    to.column = to.column_scale = absent;
    LAUNCH(execution->stream, QUANTIZE, quantize, .x = operand->own, .to = to);
}

bool operand_place(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                   enum operand_kind kind, const struct operand *operand)
{
    const bool quantized = linear_quantizes(execution, linear) && linear_gathers_quantized(unit, linear, kind);
    if (quantized)
        quantize_own(execution, unit, linear, operand);
    else
        sequence_place(execution, operand->own, operand->value);
    return quantized;
}

void operand_gather(const struct execution *execution, const struct operand *operand, bool quantized)
{
    sequence_gather(execution, quantized ? operand->to.row : operand->value);
    if (quantized && tensor_present(&operand->to.column))
        transpose_row(execution, &operand->to);
}

bool operand_collect(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                     enum operand_kind kind, const struct operand *operand)
{
    if (!tensor_present(&operand->own))
        return false;
    const bool quantized = operand_place(execution, unit, linear, kind, operand);
    operand_gather(execution, operand, quantized);
    return quantized;
}

void linear_prepare(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x)
{
    const bool made =
        operand_collect(execution, unit, linear, OPERAND_INPUT, x) || linear_is_fused(execution, linear, OPERAND_INPUT);
    if (!linear_quantizes(execution, linear))
        return;
    if (has_quantized(&x->to) && !made)
        LAUNCH(execution->stream, QUANTIZE, quantize, .x = x->value, .to = x->to);
    linear_measure(execution, unit, linear, OPERAND_INPUT, x);
}
