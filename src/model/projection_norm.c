#include "model/projection_norm.h"

static const struct tensor absent;

static int64_t all_columns(const struct unit *unit, const struct projection_norm *norm)
{
    return norm->heads * unit->settings->head_dim;
}

/* -- Tensor ranks -------------------------------------------------------------------------------------------------- */

static bool is_split(const struct unit *unit)
{
    return tensor_ranks(&unit->settings->tensor) > 1;
}

/* Returns the number of ranks with the same heads. */
static int replicas_of(const struct unit *unit, const struct projection_norm *norm)
{
    return (int)(norm->columns * tensor_ranks(&unit->settings->tensor) / all_columns(unit, norm));
}

/* Returns the first columns of tensor `id`, which may be wider than this norm's rows. */
static struct tensor rows_of(const struct execution *e, const struct unit *unit, const struct projection_norm *norm,
                             enum projection_norm_tensor id)
{
    const struct tensor all = unit_tensor(e, unit, norm->first + (int)id);
    return tensor_columns(&all, 0, all_columns(unit, norm));
}

/* Returns the place of a rank's columns in whole rows. */
static struct tensor columns_of_rank(const struct unit *unit, const struct projection_norm *norm, struct tensor rows,
                                     int rank)
{
    return tensor_columns(&rows, rank / replicas_of(unit, norm) * norm->columns, norm->columns);
}

/* Gathers the columns of all ranks, own [T, columns], to whole rows. terms: ranks with the same heads have terms of a
 * sum, else the same numbers. */
static void gather(const struct execution *e, const struct unit *unit, const struct projection_norm *norm,
                   struct tensor own, struct tensor rows, bool terms)
{
    const int ranks = e->tensor->size, replicas = replicas_of(unit, norm);
    const int64_t tokens = own.rows, count = tokens * norm->columns;
    const struct tensor tensor = unit_tensor(e, unit, norm->first + PROJECTION_GATHERED);
    const struct tensor all = tensor_matrix(tensor.data, tensor.dtype, ranks, count);
    const struct tensor place = tensor_rows(&all, e->tensor->rank, 1);
    LAUNCH(e->stream, COPY, copy, .from = own, .to = tensor_matrix(place.data, place.dtype, tokens, norm->columns));
    LAUNCH(e->stream, ALL_GATHER, all_gather, .group = e->tensor, .in = place, .out = all);
    for (int rank = 0; rank < ranks; rank++) {
        const struct tensor part = tensor_rows(&all, rank, 1);
        const struct tensor from = tensor_matrix(part.data, part.dtype, tokens, norm->columns);
        const struct tensor to = columns_of_rank(unit, norm, rows, rank);
        if (rank % replicas == 0)
            LAUNCH(e->stream, COPY, copy, .from = from, .to = to);
        else if (terms)
            LAUNCH(e->stream, ADD, add, .from = from, .to = to);
    }
}

/* -- The norm ------------------------------------------------------------------------------------------------------ */

void projection_norm_declare(struct unit *unit, const struct projection_norm *norm, const char *layer, const char *name)
{
    static const char *const names[PROJECTION_NORM_TENSORS] = {"gathered columns", "rows of all heads",
                                                               "result for all heads", "d normed, all heads"};
    const struct model_settings *s = unit->settings;
    const int64_t columns = all_columns(unit, norm), ranks = tensor_ranks(&s->tensor);
    unit_declare_weight(unit, norm->weight, 1, columns, STORAGE_VECTOR);
    parameter_share(unit_declare_parameter(unit, norm->weight, columns, unit_constant(s->norm_zero_centered ? 0 : 1),
                                           "%s.%s.weight", layer, name),
                    &s->tensor, false);
    unit_declare_tensor(unit, norm->rstd, "rstd of a projection", 1, UNIT_TOKENS, ROLE_STATISTIC);
    if (unit_family(unit)->layer_norm)
        unit_declare_tensor(unit, norm->mean, "mean of a projection", 1, UNIT_TOKENS, ROLE_STATISTIC);
    const bool declared = norm->first < unit->tensor_count && unit->tensors[norm->first].name != NULL;
    for (int t = 0; t < PROJECTION_NORM_TENSORS && ranks > 1 && !declared; t++)
        unit_declare_tensor(unit, norm->first + t, names[t], UNIT_TOKENS,
                            t == PROJECTION_GATHERED ? ranks * norm->columns : columns, ROLE_VALUE);
}

static struct tensor statistic(const struct execution *e, const struct unit *unit, int id)
{
    return unit_tensor(e, unit, id);
}

/* x, y: rows of all heads. */
static void norm_rows(const struct execution *e, const struct unit *unit, const struct projection_norm *norm,
                      struct tensor x, struct tensor y)
{
    const float eps = (float)unit->settings->norm_eps;
    const bool one_plus = unit->settings->norm_zero_centered;
    const struct tensor weight = unit_weight(e, unit, norm->weight), rstd = statistic(e, unit, norm->rstd);
    if (unit_family(unit)->layer_norm)
        LAUNCH(e->stream, LAYERNORM_FORWARD, layernorm_forward, .x = x, .weight = weight, .y = y,
               .mean = statistic(e, unit, norm->mean), .rstd = rstd, .eps = eps, .one_plus = one_plus);
    else
        LAUNCH(e->stream, RMSNORM_FORWARD, rmsnorm_forward, .x = x, .weight = weight, .y = y, .rstd = rstd, .eps = eps,
               .one_plus = one_plus);
}

void projection_norm_forward(const struct execution *execution, const struct unit *unit,
                             const struct projection_norm *norm, struct tensor x, struct tensor y)
{
    if (!is_split(unit)) {
        norm_rows(execution, unit, norm, x, y);
        return;
    }
    const struct tensor rows = rows_of(execution, unit, norm, PROJECTION_ROWS);
    const struct tensor result = rows_of(execution, unit, norm, PROJECTION_RESULT);
    gather(execution, unit, norm, x, rows, false);
    norm_rows(execution, unit, norm, rows, result);
    LAUNCH(execution->stream, COPY, copy, .from = columns_of_rank(unit, norm, result, execution->tensor->rank),
           .to = y);
}

/* x, dy, dx: rows of all heads. */
static void rows_backward(const struct execution *e, const struct unit *unit, const struct projection_norm *norm,
                          struct tensor x, struct tensor dy, struct tensor dx)
{
    const bool want_input = e->gradients & GRADIENT_INPUT, want_weight = e->gradients & GRADIENT_WEIGHT;
    const bool accumulate = unit_accumulates(unit, norm->weight), one_plus = unit->settings->norm_zero_centered;
    const struct tensor weight = unit_weight(e, unit, norm->weight), rstd = statistic(e, unit, norm->rstd);
    const struct tensor dweight = want_weight ? unit_gradient(e, unit, norm->weight) : absent;
    if (unit_family(unit)->layer_norm)
        LAUNCH(e->stream, LAYERNORM_BACKWARD, layernorm_backward, .x = x, .weight = weight,
               .mean = statistic(e, unit, norm->mean), .rstd = rstd, .dy = dy, .dx = want_input ? dx : absent,
               .dweight = dweight, .accumulate = accumulate, .one_plus = one_plus);
    else
        LAUNCH(e->stream, RMSNORM_BACKWARD, rmsnorm_backward, .x = x, .weight = weight, .rstd = rstd, .dy = dy,
               .dx = want_input ? dx : absent, .dweight = dweight, .accumulate = accumulate, .one_plus = one_plus);
}

void projection_norm_backward(const struct execution *execution, const struct unit *unit,
                              const struct projection_norm *norm, struct tensor x, struct tensor dy, struct tensor dx)
{
    if (!is_split(unit)) {
        rows_backward(execution, unit, norm, x, dy, dx);
        return;
    }
    const int rank = execution->tensor->rank;
    const struct tensor rows = rows_of(execution, unit, norm, PROJECTION_ROWS);
    const struct tensor gradient = rows_of(execution, unit, norm, PROJECTION_GRADIENT);
    const struct tensor result = rows_of(execution, unit, norm, PROJECTION_RESULT);
    gather(execution, unit, norm, x, rows, false);
    gather(execution, unit, norm, dy, gradient, true);
    rows_backward(execution, unit, norm, rows, gradient, result);
    if ((execution->gradients & GRADIENT_INPUT) == 0)
        return;
    if (rank % replicas_of(unit, norm) == 0)
        LAUNCH(execution->stream, COPY, copy, .from = columns_of_rank(unit, norm, result, rank), .to = dx);
    else
        LAUNCH(execution->stream, FILL, fill, .x = dx, .value = 0);
}
