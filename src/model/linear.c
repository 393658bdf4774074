#include "model/linear.h"
#include "model/sequence.h"

static const struct tensor absent;

static bool linear_is_quantized(const struct linear *linear)
{
    return linear->precision != NULL && linear->precision->quantized;
}

/* Returns whether this pass quantizes. */
static bool linear_quantizes(const struct execution *execution, const struct linear *linear)
{
    return linear_is_quantized(linear) && (execution->pass == PASS_FORWARD || execution->pass == PASS_BACKWARD);
}

/* Returns whether backward reads the values of input and output gradient, for the gradients of adapters. */
static bool linear_has_adapters(const struct linear *linear)
{
    return linear->adapter.count > 0;
}

/* Returns whether the weight gradient reads columnwise forms. */
static bool has_columns(const struct linear *linear)
{
    return !linear->precision->wide_weight_gemm && !linear->frozen;
}

/* -- Tensor ranks ------------------------------------------------------------------------------------------------ */

static bool linear_is_split(const struct unit *unit, const struct linear *linear, enum linear_split split)
{
    return linear->split == split && tensor_ranks(&unit->settings->tensor) > 1;
}

bool linear_gathers(const struct unit *unit, const struct linear *linear)
{
    return linear_is_split(unit, linear, LINEAR_COLUMN_PARALLEL) && sequence_parallel(unit);
}

static struct tensor linear_gathered(const struct execution *execution, const struct unit *unit,
                                     const struct linear *linear)
{
    return unit_tensor(execution, unit, linear->first + LINEAR_GATHERED);
}

/* Returns the tensor for this rank's term of a sum over ranks that ends in `sum`. */
static struct tensor partial(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                             struct tensor sum)
{
    return sequence_parallel(unit) ? unit_tensor(execution, unit, linear->first + LINEAR_PARTIAL) : sum;
}

/* Returns whether the operand can be gathered in rowwise quantized form, and transposed to the columnwise form. Not if
 * GEMMs, adapters or statistics read its value, if rounding is stochastic, or if its sum is a bias gradient. */
static bool linear_gathers_quantized(const struct unit *unit, const struct linear *linear, enum operand_kind kind)
{
    const struct linear_precision *p = linear->precision;
    return sequence_parallel(unit) &&
           linear->split == (kind == OPERAND_INPUT ? LINEAR_COLUMN_PARALLEL : LINEAR_ROW_PARALLEL) &&
           linear_is_quantized(linear) && p->rules[kind].scaling == SCALING_TENSOR && !p->wide_weight_gemm &&
           !linear_has_adapters(linear) &&
           !layer_list_has(&unit->settings->precision.statistics, operand_layer(linear->number)) &&
           (kind == OPERAND_INPUT || linear->bias < 0);
}

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

/* -- Declaring --------------------------------------------------------------------------------------------------- */

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

static struct operand_shape linear_weight_shape(const struct unit *unit, const struct linear *linear, int which)
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

/* -- Operands ---------------------------------------------------------------------------------------------------- */

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

static struct quantized_operands linear_rule(const struct execution *execution, const struct linear *linear,
                                             enum operand_kind kind)
{
    return linear_quantized(execution, linear->precision, linear->number + (int)kind);
}

static bool operand_has_scales(const struct quantized_operands *to)
{
    return !tensor_present(&to->scale) && to->rule.scaling != SCALING_1X32;
}

/* Return the scale of a quantized form: given (delayed scaling), or made by quantizing. */
static struct tensor operand_row_scale(const struct quantized_operands *to)
{
    return tensor_present(&to->scale) ? to->scale : to->row_scale;
}

static struct tensor operand_column_scale(const struct quantized_operands *to)
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

/* Returns whether the input's columnwise form is made in backward (linear_remade). */
static bool linear_remakes(const struct linear *linear)
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

/* Returns the quantized weight for a GEMM that reads its rowwise or columnwise form, and makes that form if the store
 * does not keep it. */
static struct quantized_operands linear_ready_weight(const struct execution *execution, const struct unit *unit,
                                                     const struct linear *linear, bool column)
{
    if (!linear->quantizes_per_gemm)
        return operands_of_weight(execution, unit, linear);
    return quantize_weight(execution, unit, linear, !column, column);
}

/* Returns whether quantization errors are measured now; recomputed operands are not. */
static bool linear_measures(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    const bool again =
        execution->recompute || (execution->pass == PASS_BACKWARD && (execution->gradients & GRADIENT_INPUT) == 0);
    return tensor_present(&execution->quantization_errors) && !again &&
           layer_list_has(&unit->settings->precision.statistics, operand_layer(linear->number));
}

/* Adds the operand's quantization error to the step's statistics, if they are measured. */
static void linear_measure(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                           enum operand_kind kind, const struct operand *operand)
{
    const struct quantized_operands *to = &operand->to;
    if (!linear_measures(execution, unit, linear))
        return;
    LAUNCH(execution->stream, QUANTIZATION_STATISTIC, quantization_statistic, .x = operand->value,
           .scale = scaling_whole(to->rule.scaling) ? operand_row_scale(to) : absent,
           .result = tensor_rows(&execution->quantization_errors, linear->number + (int)kind, 1), .rule = to->rule);
}

/* Returns whether the op that writes the operand also quantizes it. The halves of a split backward quantize in separate
 * launches. */
static bool linear_is_fused(const struct execution *execution, const struct linear *linear, enum operand_kind kind)
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

/* Puts this rank's part of an operand that is split over tensor ranks to its place among all. Returns whether the
 * quantized form is gathered; then the value is not. */
static bool operand_place(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                          enum operand_kind kind, const struct operand *operand)
{
    const bool quantized = linear_quantizes(execution, linear) && linear_gathers_quantized(unit, linear, kind);
    if (quantized)
        quantize_own(execution, unit, linear, operand);
    else
        sequence_place(execution, operand->own, operand->value);
    return quantized;
}

/* Gathers an operand after `operand_place`, whose result is `quantized`, and transposes the quantized form to the
 * columnwise one, if a GEMM reads it. */
static void operand_gather(const struct execution *execution, const struct operand *operand, bool quantized)
{
    sequence_gather(execution, quantized ? operand->to.row : operand->value);
    if (quantized && tensor_present(&operand->to.column))
        transpose_row(execution, &operand->to);
}

/* Gathers an operand if it is split over tensor ranks. Returns whether the quantized form was gathered; then the value
 * is not gathered. */
static bool operand_collect(const struct execution *execution, const struct unit *unit, const struct linear *linear,
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

/* -- GEMMs ------------------------------------------------------------------------------------------------------- */

static void multiply_weight(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            const struct operand *x, struct tensor y, struct tensor bias, struct tensor addend)
{
    if (!linear_quantizes(execution, linear)) {
        LAUNCH(execution->stream, GEMM, gemm, .a = x->value, .b = unit_weight(execution, unit, linear->weight),
               .transpose_b = true, .bias = bias, .c = addend, .d = y);
        return;
    }
    const struct quantized_operands w = linear_ready_weight(execution, unit, linear, false);
    if (linear_measures(execution, unit, linear))
        linear_measure(execution, unit, linear, OPERAND_WEIGHT,
                       &(struct operand){.value = unit_weight(execution, unit, linear->weight), .to = w});
    LAUNCH(execution->stream, GEMM, gemm, .a = x->to.row, .scale_a = operand_row_scale(&x->to),
           .scaling_a = x->to.rule.scaling, .b = w.row, .scale_b = operand_row_scale(&w), .scaling_b = w.rule.scaling,
           .transpose_b = true, .bias = bias, .c = addend, .d = y, .fast = linear->precision->fast);
}

static void multiply_forward(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                             const struct operand *x, struct tensor y, struct tensor bias, struct tensor addend)
{
    multiply_weight(execution, unit, linear, x, y, bias, addend);
    adapter_project(execution, unit, &linear->adapter, x->value);
    adapter_forward(execution, unit, &linear->adapter, y);
}

void linear_forward(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x, struct tensor y, struct tensor addend)
{
    const struct tensor bias = linear->bias >= 0 ? unit_weight(execution, unit, linear->bias) : absent;
    if (!linear_is_split(unit, linear, LINEAR_ROW_PARALLEL)) {
        multiply_forward(execution, unit, linear, x, y, bias, addend);
        return;
    }
    const struct tensor part = partial(execution, unit, linear, y);
    const bool first = execution->tensor->rank == 0,
               whole = !sequence_parallel(unit); /* one rank adds bias and addend */
    multiply_forward(execution, unit, linear, x, part, first ? bias : absent, first && whole ? addend : absent);
    sequence_sum(execution, unit, part, y, linear->first + LINEAR_SCRATCH);
    if (!whole && tensor_present(&addend))
        LAUNCH(execution->stream, ADD, add, .from = addend, .to = y);
}

struct tensor linear_sum(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    bool made = linear->summed && execution->gradients == GRADIENT_BOTH;
    return made && linear->bias >= 0 ? unit_gradient(execution, unit, linear->bias) : absent;
}

bool linear_accumulates(const struct unit *unit, const struct linear *linear)
{
    return linear->adds || unit_accumulates(unit, linear->weight);
}

/* Returns the bias gradient if linear_backward computes it. */
static struct tensor own_sum(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    struct tensor made = linear_sum(execution, unit, linear);
    bool wanted = (execution->gradients & GRADIENT_WEIGHT) && linear->bias >= 0 && !tensor_present(&made);
    return wanted ? unit_gradient(execution, unit, linear->bias) : absent;
}

static void multiply_weight_gradient(const struct execution *execution, const struct unit *unit,
                                     const struct linear *linear, const struct operand *x, const struct operand *dy)
{
    adapter_weight_gradients(execution, unit, &linear->adapter, x->value, dy->value, linear->adds);
    if ((execution->gradients & GRADIENT_WEIGHT) == 0)
        return;
    if (!linear_quantizes(execution, linear) || linear->precision->wide_weight_gemm)
        LAUNCH(execution->stream, GEMM, gemm, .a = dy->value, .transpose_a = true, .b = x->value,
               .d = unit_gradient(execution, unit, linear->weight), .sum_a = own_sum(execution, unit, linear),
               .accumulate = linear_accumulates(unit, linear));
    else
        LAUNCH(execution->stream, GEMM, gemm, .a = dy->to.column, .scale_a = operand_column_scale(&dy->to),
               .scaling_a = dy->to.rule.scaling, .b = x->to.column, .scale_b = operand_column_scale(&x->to),
               .scaling_b = x->to.rule.scaling, .transpose_b = true,
               .d = unit_gradient(execution, unit, linear->weight), .accumulate = linear_accumulates(unit, linear));
}

void linear_finish(const struct execution *execution, const struct unit *unit, struct linear_pending *pending)
{
    if (pending->present)
        multiply_weight_gradient(execution, unit, &pending->linear, &pending->x, &pending->dy);
    pending->present = false;
}

/* Returns whether a linear postpones its weight gradient. */
static bool defers(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                   const struct linear_pending *pending)
{
    return pending != NULL &&
           (sequence_parallel(unit) || (linear_quantizes(execution, linear) && linear_remakes(linear)));
}

/* As operand_collect for the output gradient, overlapped with the pending weight gradient. */
static bool collect_gradient(struct execution *execution, const struct unit *unit, const struct linear *linear,
                             const struct operand *dy, struct linear_pending *pending)
{
    if (pending == NULL || !pending->present || !tensor_present(&dy->own))
        return operand_collect(execution, unit, linear, OPERAND_GRADIENT, dy);
    const struct execution concurrent = execution_concurrent(execution);
    const bool quantized = operand_place(execution, unit, linear, OPERAND_GRADIENT, dy);
    execution_fork(execution);
    operand_gather(&concurrent, dy, quantized);
    linear_finish(execution, unit, pending);
    execution_join(execution);
    return quantized;
}

/* Returns dy of all tokens, gathered from tensor ranks if they have parts, and quantizes it unless its op has done so.
 */
static struct operand ready_gradient(struct execution *execution, const struct unit *unit, const struct linear *linear,
                                     struct tensor value, struct linear_pending *pending)
{
    const bool gathers = sequence_parallel(unit) && linear_is_split(unit, linear, LINEAR_ROW_PARALLEL);
    struct operand dy =
        linear_gradient(execution, unit, linear, gathers ? linear_gathered(execution, unit, linear) : value);
    dy.own = gathers ? value : absent;
    const bool made = collect_gradient(execution, unit, linear, &dy, pending);
    if (!linear_quantizes(execution, linear))
        return dy;
    if (!made && !linear_is_fused(execution, linear, OPERAND_GRADIENT))
        LAUNCH(execution->stream, QUANTIZE, quantize, .x = dy.value, .to = dy.to,
               .sum = linear->precision->wide_weight_gemm ? absent : own_sum(execution, unit, linear),
               .accumulate = linear_accumulates(unit, linear));
    linear_measure(execution, unit, linear, OPERAND_GRADIENT, &dy);
    return dy;
}

static void multiply_transposed(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                                const struct operand *dy, struct tensor dx)
{
    if (!linear_quantizes(execution, linear)) {
        LAUNCH(execution->stream, GEMM, gemm, .a = dy->value, .b = unit_weight(execution, unit, linear->weight),
               .d = dx);
        return;
    }
    const struct quantized_operands w = linear_ready_weight(execution, unit, linear, true);
    LAUNCH(execution->stream, GEMM, gemm, .a = dy->to.row, .scale_a = operand_row_scale(&dy->to),
           .scaling_a = dy->to.rule.scaling, .b = w.column, .scale_b = operand_column_scale(&w),
           .scaling_b = w.rule.scaling, .transpose_b = true, .d = dx);
}

/* Returns whether this call computes dx. */
static bool computes_input_gradient(const struct execution *execution, const struct linear *linear)
{
    return (execution->gradients & GRADIENT_INPUT) && !linear->ends_backward;
}

static void multiply_input_gradient(const struct execution *execution, const struct unit *unit,
                                    const struct linear *linear, const struct operand *dy, struct tensor dx)
{
    if (!computes_input_gradient(execution, linear))
        return;
    multiply_transposed(execution, unit, linear, dy, dx);
    adapter_input_gradient(execution, unit, &linear->adapter, dx);
}

/* Returns whether backward must gather x again, for the gradients of the weight or of adapters. Not if recompute has
 * done so, and not for quantized GEMMs: their operands are kept or recomputed. */
static bool gathers_again(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    const bool weight = !linear_quantizes(execution, linear) && (execution->gradients & GRADIENT_WEIGHT);
    const bool adapters = linear_has_adapters(linear) && execution->trains_adapters;
    return linear_gathers(unit, linear) && (weight || adapters) &&
           !id_set_has(execution->wanted, linear->first + LINEAR_GATHERED);
}

static void gather_next(struct execution *execution, const struct unit *unit, const struct linear *linear,
                        const struct operand *x)
{
    if (!gathers_again(execution, unit, linear))
        return;
    const struct execution concurrent = execution_concurrent(execution);
    sequence_place(execution, x->own, x->value);
    execution_fork(execution);
    sequence_gather(&concurrent, x->value);
}

/* Each rank computes a term of dx. The sum over ranks overlaps with the pending weight gradient, or with the linear's
 * own if it does not postpone. */
static void backward_of_outputs(struct execution *execution, const struct unit *unit, const struct linear *linear,
                                const struct operand *x, const struct operand *dy, struct tensor dx,
                                struct linear_pending *pending)
{
    const struct execution concurrent = execution_concurrent(execution);
    const struct tensor part = partial(execution, unit, linear, dx);
    const bool sums = computes_input_gradient(execution, linear);
    struct linear_pending own = {true, *linear, *x, *dy};
    multiply_input_gradient(execution, unit, linear, dy, part);
    if (gathers_again(execution, unit, linear))
        execution_join(execution);
    if (sums) {
        execution_fork(execution);
        sequence_sum(&concurrent, unit, part, dx, linear->first + LINEAR_SCRATCH);
    }
    const bool postpones = defers(execution, unit, linear, pending);
    linear_finish(execution, unit, postpones ? pending : &own);
    if (sums)
        execution_join(execution);
    if (postpones)
        *pending = own;
}

/* Without sums over ranks and postponing, the weight gradient comes first: afterwards dx may use the memory of x. */
void linear_backward(struct execution *execution, const struct unit *unit, const struct linear *linear,
                     const struct operand *x, struct tensor dy, struct tensor dx, const struct linear_next *next,
                     struct linear_pending *pending)
{
    const struct operand ready = ready_gradient(execution, unit, linear, dy, pending);
    adapter_gradient(execution, unit, &linear->adapter, ready.value);
    if (next != NULL)
        gather_next(execution, unit, next->linear, next->x);
    if (linear_is_split(unit, linear, LINEAR_COLUMN_PARALLEL)) {
        backward_of_outputs(execution, unit, linear, x, &ready, dx, pending);
        return;
    }
    const bool postpones = defers(execution, unit, linear, pending);
    if (!postpones)
        multiply_weight_gradient(execution, unit, linear, x, &ready);
    multiply_input_gradient(execution, unit, linear, &ready, dx);
    if (postpones)
        *pending = (struct linear_pending){true, *linear, *x, ready};
}
