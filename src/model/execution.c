#include "model/execution.h"

bool context_wants(struct context *context, int id)
{
    if (context->enter_section != NULL)
        context->enter_section(context, id);
    return !context->recompute || id_set_has(context->wanted, id);
}

void context_shares(const struct context *context)
{
    if (context->shares != NULL)
        context->shares(context);
}

void context_fork(struct context *context)
{
    event_record(&context->forked, context->stream);
    event_wait(&context->forked, context->transfers);
}

void context_join(struct context *context)
{
    event_record(&context->joined, context->transfers);
    event_wait(&context->joined, context->stream);
}

struct context context_beside(const struct context *context)
{
    struct context beside = *context;
    beside.stream = context->transfers;
    return beside;
}

enum dtype context_dtype(const struct context *context, enum tensor_role role)
{
    switch (role) {
    case ROLE_VALUE:
        return context->compute;
    case ROLE_STATISTIC:
        return context->statistic;
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

struct tensor unit_tensor(const struct context *context, const struct unit *unit, int id)
{
    const struct unit_tensor *t = &unit->tensors[id];
    int64_t tokens = context->batch->tokens.cols;
    return tensor_matrix(context->address(context, unit, id), context_dtype(context, t->role),
                         unit_extent(unit, t->rows, tokens), unit_extent(unit, t->cols, tokens));
}

int64_t context_own_tokens(const struct context *context, const struct unit *unit)
{
    return unit_extent(unit, UNIT_OWN_TOKENS, context->batch->tokens.cols);
}

static struct tensor weight_view(const struct weight *weight, void *base, enum dtype dtype)
{
    return tensor_matrix((char *)base + weight->offset * dtype_size(dtype), dtype, weight->rows, weight->cols);
}

struct tensor unit_weight(const struct context *context, const struct unit *unit, int id)
{
    const struct weight *weight = &unit->weights[id];
    return weight_view(weight, weight->home->weight_base[weight->storage], context->compute);
}

struct tensor unit_copy(const struct context *context, const struct unit *unit, int id)
{
    const struct weight_copy *copy = &unit->copies[id];
    return (struct tensor){unit->copy_base + copy->offset, context_dtype(context, copy->role), copy->rows, copy->cols,
                           copy->stride};
}

struct tensor unit_row_copy(const struct unit *unit, int id)
{
    const struct weight *weight = &unit->weights[id];
    return weight_view(weight, unit->row_base, quantization_dtype(&weight->copied->rules[OPERAND_WEIGHT]));
}

struct tensor unit_gradient(const struct context *context, const struct unit *unit, int id)
{
    const struct weight *weight = &unit->weights[id];
    return weight_view(weight, weight->home->gradient_base[weight->storage],
                       unit_gradient_dtype(weight->home, weight->storage, context->statistic));
}

struct tensor unit_sum_input_gradient(struct context *context, const struct unit *unit)
{
    if (unit->tensors[UNIT_INPUT_GRADIENT_SUM].name != NULL && context->gradients == GRADIENT_BOTH)
        context->input_gradient_sum = unit_tensor(context, unit, UNIT_INPUT_GRADIENT_SUM);
    return context->input_gradient_sum;
}
