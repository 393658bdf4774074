#include "model/linear.h"

void linear_declare(struct unit *unit, const struct linear *linear)
{
    if (linear->precision == PRECISION_COMPUTE)
        return;
    const struct weight *w = &unit->weights[linear->weight];
    int64_t in = w->cols, out = w->rows;
    int id = linear->first;
    unit_declare_tensor(unit, id + LINEAR_INPUT_ROW, "input row copy", UNIT_TOKENS, in, ROLE_QUANTIZED);
    unit_declare_tensor(unit, id + LINEAR_INPUT_COLUMN, "input column copy", in, UNIT_TOKENS, ROLE_QUANTIZED);
    unit_declare_tensor(unit, id + LINEAR_INPUT_SCALE, "input scale", 1, 1, ROLE_STATISTIC);
    unit_declare_tensor(unit, id + LINEAR_WEIGHT_ROW, "weight row copy", out, in, ROLE_QUANTIZED);
    unit_declare_tensor(unit, id + LINEAR_WEIGHT_COLUMN, "weight column copy", in, out, ROLE_QUANTIZED);
    unit_declare_tensor(unit, id + LINEAR_WEIGHT_SCALE, "weight scale", 1, 1, ROLE_STATISTIC);
    unit_declare_tensor(unit, id + LINEAR_GRADIENT_ROW, "gradient row copy", UNIT_TOKENS, out, ROLE_QUANTIZED);
    unit_declare_tensor(unit, id + LINEAR_GRADIENT_COLUMN, "gradient column copy", out, UNIT_TOKENS, ROLE_QUANTIZED);
    unit_declare_tensor(unit, id + LINEAR_GRADIENT_SCALE, "gradient scale", 1, 1, ROLE_STATISTIC);
}

struct operand linear_operand(const struct context *context, const struct unit *unit, const struct linear *linear,
                              int id)
{
    struct operand x = {.value = unit_tensor(context, unit, id)};
    if (linear->precision == PRECISION_E4M3) {
        x.row = unit_tensor(context, unit, linear->first + LINEAR_INPUT_ROW);
        x.column = unit_tensor(context, unit, linear->first + LINEAR_INPUT_COLUMN);
        x.scale = unit_tensor(context, unit, linear->first + LINEAR_INPUT_SCALE);
    }
    return x;
}

void linear_prepare(const struct context *context, const struct linear *linear, const struct operand *x)
{
    if (linear->precision == PRECISION_E4M3)
        LAUNCH(context->stream, QUANTIZE, quantize, .x = x->value,
               .to = {.row = x->row, .column = x->column, .row_scale = x->scale, .column_scale = x->scale});
}

static const struct tensor absent;

void linear_forward(const struct context *context, const struct unit *unit, const struct linear *linear,
                    const struct operand *x, struct tensor y, struct tensor addend)
{
    struct tensor w = unit_weight(context, unit, linear->weight);
    struct tensor bias = unit_family(unit)->bias ? unit_weight(context, unit, linear->bias) : absent;
    if (linear->precision == PRECISION_COMPUTE) {
        LAUNCH(context->stream, GEMM, gemm, .a = x->value, .b = w, .transpose_b = true, .bias = bias, .c = addend,
               .d = y);
        return;
    }
    struct tensor row = unit_tensor(context, unit, linear->first + LINEAR_WEIGHT_ROW);
    struct tensor scale = unit_tensor(context, unit, linear->first + LINEAR_WEIGHT_SCALE);
    LAUNCH(context->stream, QUANTIZE, quantize, .x = w, .to = {.row = row, .row_scale = scale});
    LAUNCH(context->stream, GEMM, gemm, .a = x->row, .scale_a = x->scale, .b = row, .scale_b = scale,
           .transpose_b = true, .bias = bias, .c = addend, .d = y);
}

struct tensor linear_sum(const struct context *context, const struct unit *unit, const struct linear *linear)
{
    bool made = linear->summed && linear->precision == PRECISION_COMPUTE && context->gradients == GRADIENT_BOTH;
    return made && unit_family(unit)->bias ? unit_gradient(context, unit, linear->bias) : absent;
}

/* The weight's gradient comes first: after it dx may take x's memory. */
void linear_backward(const struct context *context, const struct unit *unit, const struct linear *linear,
                     const struct operand *x, struct tensor dy, struct tensor dx)
{
    struct tensor w = unit_weight(context, unit, linear->weight);
    struct tensor dw = unit_gradient(context, unit, linear->weight);
    struct tensor sum = linear_sum(context, unit, linear);
    bool own_sum = unit_family(unit)->bias && !tensor_present(&sum);
    struct tensor dbias = own_sum ? unit_gradient(context, unit, linear->bias) : absent;
    bool accumulate = unit_accumulates(unit, linear->weight);
    struct operand gradient = {.value = dy}, weight = {.value = w};
    if (linear->precision == PRECISION_COMPUTE) {
        if (context->gradients & GRADIENT_WEIGHT)
            LAUNCH(context->stream, GEMM, gemm, .a = dy, .transpose_a = true, .b = x->value, .d = dw, .sum_a = dbias,
                   .accumulate = accumulate);
        if (context->gradients & GRADIENT_INPUT)
            LAUNCH(context->stream, GEMM, gemm, .a = dy, .b = w, .d = dx);
        return;
    }
    gradient.row = unit_tensor(context, unit, linear->first + LINEAR_GRADIENT_ROW);
    gradient.column = unit_tensor(context, unit, linear->first + LINEAR_GRADIENT_COLUMN);
    gradient.scale = unit_tensor(context, unit, linear->first + LINEAR_GRADIENT_SCALE);
    linear_prepare(context, linear, &gradient);
    if (context->gradients & GRADIENT_WEIGHT)
        LAUNCH(context->stream, GEMM, gemm, .a = gradient.column, .scale_a = gradient.scale, .b = x->column,
               .scale_b = x->scale, .transpose_b = true, .d = dw, .sum_a = dbias, .accumulate = accumulate);
    if (context->gradients & GRADIENT_INPUT) {
        weight.column = unit_tensor(context, unit, linear->first + LINEAR_WEIGHT_COLUMN);
        weight.scale = unit_tensor(context, unit, linear->first + LINEAR_WEIGHT_SCALE);
        linear_prepare(context, linear, &weight);
        LAUNCH(context->stream, GEMM, gemm, .a = gradient.row, .scale_a = gradient.scale, .b = weight.column,
               .scale_b = weight.scale, .transpose_b = true, .d = dx);
    }
}
