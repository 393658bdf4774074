#include "model/unit.h"
#include "base/error.h"
#include "base/memory.h"
#include "core/id_set.h"

#include <stdarg.h>
#include <stdio.h>

/* Extends an array of *count elements of `width` bytes to at least `wanted`; new elements are zero. */
static void *extended(void *array, int *count, int wanted, size_t width)
{
    if (wanted <= *count)
        return array;
    array = memory_extend(array, *count * (int64_t)width, wanted * (int64_t)width);
    *count = wanted;
    return array;
}

static struct weight *weight_at(struct unit *unit, int id)
{
    unit->weights = extended(unit->weights, &unit->weight_count, id + 1, sizeof *unit->weights);
    return &unit->weights[id];
}

void unit_declare_weight(struct unit *unit, int id, int64_t rows, int64_t cols, enum storage_class storage)
{
    struct weight *weight = weight_at(unit, id);
    weight->rows = rows;
    weight->cols = cols;
    weight->storage = storage;
    weight->offset = unit->elements[storage];
    weight->reserved = unit_aligned(rows * cols);
    weight->home = unit;
    unit->elements[storage] += weight->reserved;
}

void unit_reserve(struct unit *unit, int id, int64_t extent)
{
    struct weight *weight = &unit->weights[id];
    const int64_t reserved = unit_aligned(weight->storage == STORAGE_VECTOR ? extent : extent * weight->cols);
    CHECK_BUG(reserved >= weight->reserved && unit->elements[weight->storage] == weight->offset + weight->reserved);
    unit->elements[weight->storage] += reserved - weight->reserved;
    weight->reserved = reserved;
}

int64_t unit_elements(const struct unit *unit)
{
    int64_t all = 0;
    for (int s = 0; s < STORAGE_COUNT; s++)
        all += unit->elements[s];
    return all;
}

struct unit *unit_lender(const struct unit *unit)
{
    for (int w = 0; w < unit->weight_count; w++)
        if (unit->weights[w].home != NULL && unit->weights[w].home != unit)
            return unit->weights[w].home;
    return NULL;
}

const struct family *unit_family(const struct unit *unit)
{
    return unit->settings->family;
}

struct initial_value unit_constant(double value)
{
    return (struct initial_value){INIT_CONSTANT, value, -1};
}

struct initial_value unit_random(const struct unit *unit, double scale)
{
    return (struct initial_value){unit_family(unit)->uniform ? INIT_UNIFORM : INIT_NORMAL, scale, -1};
}

struct parameter *unit_declare_parameter(struct unit *unit, int id, int64_t extent, struct initial_value initial,
                                         const char *name, ...)
{
    const struct weight *weight = &unit->weights[id];
    int64_t above = 0; /* elements of this weight's parameters so far */
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (p->storage == weight->storage && p->offset >= weight->offset)
            above += p->part.rows * p->part.cols;
    }
    unit->parameters =
        extended(unit->parameters, &unit->parameter_count, unit->parameter_count + 1, sizeof *unit->parameters);
    struct parameter *parameter = &unit->parameters[unit->parameter_count - 1];
    va_list list;
    va_start(list, name);
    vsnprintf(parameter->name, sizeof parameter->name, name, list);
    va_end(list);
    bool vector = weight->storage == STORAGE_VECTOR;
    parameter->part = (struct rectangle){0, 0, vector ? 1 : extent, vector ? extent : weight->cols};
    parameter->height = parameter->part.rows;
    parameter_place(parameter, parameter->part.rows, parameter->part.cols, 0, 0);
    parameter->owners = 1;
    parameter->storage = weight->storage;
    parameter->offset = weight->offset + above;
    parameter->initial = initial;
    return parameter;
}

void unit_share_weight(struct unit *unit, int id, struct unit *home, int home_id)
{
    *weight_at(unit, id) = home->weights[home_id];
}

void unit_declare_tensor(struct unit *unit, int id, const char *name, int64_t rows, int64_t cols, enum tensor_role role)
{
    if (id >= ID_SET_LIMIT)
        error_fatal("bug: unit %s has a tensor of id %d, at most %d are allowed", unit->name, id, ID_SET_LIMIT - 1);
    unit->tensors = extended(unit->tensors, &unit->tensor_count, id + 1, sizeof *unit->tensors);
    unit->tensors[id] = (struct unit_tensor){name, rows, cols, role};
}

void unit_declare_quantized(struct unit *unit, int id, int64_t rows, int64_t cols, int64_t stride,
                            enum tensor_role role)
{
    enum { ALIGNMENT = 256 /* bytes */, WIDEST = 8 };
    unit->quantized = extended(unit->quantized, &unit->quantized_count, id + 1, sizeof *unit->quantized);
    unit->quantized[id] = (struct quantized_weight){rows, cols, stride, role, unit->quantized_bytes};
    int64_t width = role == ROLE_STATISTIC ? WIDEST : role == ROLE_BF16 ? 2 : 1;
    unit->quantized_bytes += (rows * stride * width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void unit_destroy(struct unit *unit)
{
    memory_free(unit->quantized);
    memory_free(unit->parameters);
    memory_free(unit->weights);
    memory_free(unit->tensors);
}

static int64_t own_tokens(const struct unit *unit, int64_t tokens)
{
    const struct tensor_parallel *tensor = &unit->settings->tensor;
    return tensor->sequence ? tokens / tensor_ranks(tensor) : tokens;
}

int64_t unit_extent(const struct unit *unit, int64_t declared, int64_t tokens)
{
    int64_t blocks = quantization_blocks(tokens);
    switch (declared) {
    case UNIT_TOKENS:
        return tokens;
    case UNIT_PADDED_TOKENS:
        return blocks * QUANTIZATION_BLOCK;
    case UNIT_TOKEN_BLOCKS:
        return blocks;
    case UNIT_ROW_TOKENS:
        return tokens * context_ranks(&unit->settings->context);
    case UNIT_ALL_TOKENS:
        return tokens * unit->settings->embedding_ranks;
    case UNIT_OWN_TOKENS:
        return own_tokens(unit, tokens);
    case UNIT_PAIRS:
        return tokens * MIN(unit->settings->experts_per_token, model_experts(unit->settings));
    default:
        return declared;
    }
}

int64_t unit_tensor_elements(const struct unit *unit, int id)
{
    const struct unit_tensor *t = &unit->tensors[id];
    return unit_extent(unit, t->rows, unit->tokens) * unit_extent(unit, t->cols, unit->tokens);
}

enum tensor_role role_of_quantized(const struct quantization *rule)
{
    enum dtype dtype = quantization_dtype(rule);
    return dtype == DTYPE_E4M3 ? ROLE_E4M3 : dtype == DTYPE_E5M2 ? ROLE_E5M2 : ROLE_BF16;
}

bool unit_accumulates(const struct unit *unit, int id)
{
    return !unit->weights[id].home->gradient_fresh;
}
