#include "model/execution.h"

bool execution_wants(const struct execution *execution, int id)
{
    if (execution->services->enter_section != NULL)
        execution->services->enter_section(execution, id);
    return !execution->recompute || id_set_has(execution->wanted, id);
}

void execution_start_transfers(const struct execution *execution)
{
    if (execution->services->start_transfers != NULL)
        execution->services->start_transfers(execution);
}

void execution_fork(struct execution *execution)
{
    event_record(&execution->forked, execution->stream);
    event_wait(&execution->forked, execution->transfers);
}

void execution_join(struct execution *execution)
{
    event_record(&execution->joined, execution->transfers);
    event_wait(&execution->joined, execution->stream);
}

struct execution execution_concurrent(const struct execution *execution)
{
    struct execution concurrent = *execution;
    concurrent.stream = execution->transfers;
    return concurrent;
}

enum dtype execution_dtype(const struct execution *execution, enum tensor_role role)
{
    switch (role) {
    case ROLE_VALUE:
        return execution->compute;
    case ROLE_STATISTIC:
        return execution->statistic;
    case ROLE_E4M3:
        return DTYPE_E4M3;
    case ROLE_E5M2:
        return DTYPE_E5M2;
    case ROLE_BF16:
        return DTYPE_BF16;
    case ROLE_I32:
        return DTYPE_I32;
    case ROLE_F32:
        break;
    }
    return DTYPE_F32;
}

struct tensor unit_tensor(const struct execution *execution, const struct unit *unit, int id)
{
    const struct unit_tensor *t = &unit->tensors[id];
    int64_t tokens = execution->batch->tokens.cols;
    return tensor_matrix(execution->services->address(execution, unit, id), execution_dtype(execution, t->role),
                         unit_extent(unit, t->rows, tokens), unit_extent(unit, t->cols, tokens));
}

struct tensor unit_first_rows(const struct execution *execution, const struct unit *unit, int id, int64_t rows)
{
    const struct tensor all = unit_tensor(execution, unit, id);
    return tensor_rows(&all, 0, rows);
}

int64_t execution_own_tokens(const struct execution *execution, const struct unit *unit)
{
    return unit_extent(unit, UNIT_OWN_TOKENS, execution->batch->tokens.cols);
}

static struct tensor weight_view(const struct weight *weight, void *base, enum dtype dtype)
{
    return tensor_matrix((char *)base + weight->offset * dtype_size(dtype), dtype, weight->rows, weight->cols);
}

struct tensor unit_weight(const struct execution *execution, const struct unit *unit, int id)
{
    const struct weight *weight = &unit->weights[id];
    return weight_view(weight, weight->home->weight_base[weight->storage], execution->compute);
}

struct tensor unit_quantized(const struct execution *execution, const struct unit *unit, int id)
{
    const struct quantized_weight *copy = &unit->quantized[id];
    return (struct tensor){unit->quantized_base + copy->offset, execution_dtype(execution, copy->role), copy->rows,
                           copy->cols, copy->stride};
}

struct tensor unit_row_copy(const struct unit *unit, int id)
{
    const struct weight *weight = &unit->weights[id];
    return weight_view(weight, unit->rowwise_base, quantization_dtype(&weight->quantized->rules[OPERAND_WEIGHT]));
}

struct tensor unit_gradient(const struct execution *execution, const struct unit *unit, int id)
{
    const struct weight *weight = &unit->weights[id];
    return weight_view(weight, weight->home->gradient_base[weight->storage],
                       unit_gradient_dtype(weight->home, weight->storage, execution->statistic));
}

struct tensor unit_sum_input_gradient(struct execution *execution, const struct unit *unit)
{
    if (unit->tensors[UNIT_INPUT_GRADIENT_SUM].name != NULL && execution->gradients == GRADIENT_BOTH)
        execution->input_gradient_sum = unit_tensor(execution, unit, UNIT_INPUT_GRADIENT_SUM);
    return execution->input_gradient_sum;
}
