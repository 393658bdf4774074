#include "model/norm.h"

#include <stdio.h>

static const struct tensor absent;

static bool has_bias(const struct unit *unit, const struct norm *norm)
{
    const struct family *family = unit_family(unit);
    return family->layer_norm && !(norm->place == NORM_FINAL && family->final_norm_unbiased);
}

static float epsilon(const struct unit *unit, const struct norm *norm)
{
    const double factor = norm->place == NORM_TRANSFORM ? 1 : model_stream_factor(unit->settings);
    return (float)(unit->settings->norm_eps * factor * factor);
}

static void declare_vector(struct unit *unit, const struct norm *norm, int id, double value, const char *name,
                           const char *what)
{
    const struct tensor_parallel *tensor = &unit->settings->tensor;
    unit_declare_weight(unit, id, 1, unit->settings->hidden, STORAGE_VECTOR);
    parameter_share(unit_declare_parameter(unit, id, unit->settings->hidden, unit_constant(value), "%s.%s", name, what),
                    tensor, norm->own && tensor->sequence);
}

void norm_declare(struct unit *unit, const struct norm *norm, const char *name)
{
    const int tokens = norm->own ? UNIT_OWN_TOKENS : UNIT_TOKENS;
    declare_vector(unit, norm, norm->weight, unit->settings->norm_zero_centered ? 0 : 1, name, "weight");
    unit_declare_tensor(unit, norm->rstd, "rstd", 1, tokens, ROLE_STATISTIC);
    if (has_bias(unit, norm))
        declare_vector(unit, norm, norm->bias, 0, name, "bias");
    if (unit_family(unit)->layer_norm)
        unit_declare_tensor(unit, norm->mean, "mean", 1, tokens, ROLE_STATISTIC);
}

static struct tensor statistic(const struct execution *execution, const struct unit *unit, int id, int64_t tokens)
{
    struct tensor all = unit_tensor(execution, unit, id);
    return tensor_columns(&all, 0, tokens);
}

void norm_forward(const struct execution *execution, const struct unit *unit, const struct norm *norm, struct tensor x,
                  struct tensor y)
{
    const float eps = epsilon(unit, norm);
    const bool one_plus = unit->settings->norm_zero_centered;
    struct tensor weight = unit_weight(execution, unit, norm->weight);
    struct tensor rstd = statistic(execution, unit, norm->rstd, x.rows);
    if (unit_family(unit)->layer_norm)
        LAUNCH(execution->stream, LAYERNORM_FORWARD, layernorm_forward, .x = x, .weight = weight,
               .bias = has_bias(unit, norm) ? unit_weight(execution, unit, norm->bias) : absent, .y = y,
               .mean = statistic(execution, unit, norm->mean, x.rows), .rstd = rstd, .eps = eps, .one_plus = one_plus);
    else
        LAUNCH(execution->stream, RMSNORM_FORWARD, rmsnorm_forward, .x = x, .weight = weight, .y = y, .rstd = rstd,
               .eps = eps, .one_plus = one_plus);
}

void norm_backward(const struct execution *execution, const struct unit *unit, const struct norm *norm,
                   const struct norm_gradients *of)
{
    const bool want_input = execution->gradients & GRADIENT_INPUT, want_weight = execution->gradients & GRADIENT_WEIGHT;
    const struct tensor weight = unit_weight(execution, unit, norm->weight);
    const struct tensor rstd = statistic(execution, unit, norm->rstd, of->x.rows);
    const struct tensor dweight = want_weight ? unit_gradient(execution, unit, norm->weight) : absent;
    const struct tensor residual = want_input ? of->residual : absent, dx = want_input ? of->dx : absent;
    const bool accumulate = unit_accumulates(unit, norm->weight), one_plus = unit->settings->norm_zero_centered;
    if (unit_family(unit)->layer_norm)
        LAUNCH(execution->stream, LAYERNORM_BACKWARD, layernorm_backward, .x = of->x, .weight = weight,
               .mean = statistic(execution, unit, norm->mean, of->x.rows), .rstd = rstd, .dy = of->dy,
               .residual = residual, .dx = dx, .dweight = dweight,
               .dbias = want_weight && has_bias(unit, norm) ? unit_gradient(execution, unit, norm->bias) : absent,
               .sum = of->sum, .accumulate = accumulate, .accumulate_sum = of->accumulate_sum, .one_plus = one_plus);
    else
        LAUNCH(execution->stream, RMSNORM_BACKWARD, rmsnorm_backward, .x = of->x, .weight = weight, .rstd = rstd,
               .dy = of->dy, .residual = residual, .dx = dx, .dweight = dweight, .accumulate = accumulate,
               .one_plus = one_plus);
}
