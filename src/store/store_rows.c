/* Gathers of 8-bit rowwise quantized weights: half the bytes, and quantized once per update by their owner instead of
 * at each acquisition. For sharded weights, and units all of whose matrices are quantized with one scale each, kept by
 * the store. The bits equal those of quantizing gathered weights. */
#include "model/linear.h"
#include "store/store_private.h"

/* Returns the recipe, or NULL if the unit does not gather rowwise quantized weights. The action after an update
 * acquires all units but those with an idle forward. */
static const struct linear_precision *precision_of_rows(const struct flat_store *own, const struct unit *unit)
{
    const struct linear_precision *precision = NULL;
    if (!own->sharded_values || unit->class->idle_forward)
        return NULL;
    for (int w = 0; w < unit->weight_count; w++) {
        if (unit->weights[w].storage != STORAGE_MATRIX || unit->weights[w].home != unit)
            continue;
        precision = unit->weights[w].quantized;
        if (precision == NULL)
            return NULL;
    }
    return precision;
}

/* Allocates stat [weights, 1]; absent for 0 bytes. */
static struct tensor numbers(const struct flat_store *own, const struct unit *unit, struct budget *budget,
                             int64_t bytes)
{
    void *data = budget_allocate(budget, bytes, BUDGET_WEIGHTS);
    return (struct tensor){data, own->statistic, unit->weight_count, 1, SCALE_STRIDE};
}

int64_t store_create_rows(const struct flat_store *own, const struct unit *unit, struct unit_state *state,
                          struct budget *budget)
{
    struct rowwise_weights *rowwise = &state->rowwise;
    const struct linear_precision *precision = precision_of_rows(own, unit);
    if (precision == NULL)
        return 0;
    rowwise->shard =
        tensor_vector(budget_allocate_gathered(budget, state->shard_elements, BUDGET_WEIGHTS, own->groups->gather),
                      quantization_dtype(&precision->rules[OPERAND_WEIGHT]), state->shard_elements);
    rowwise->vectors = tensor_vector(
        budget_allocate(budget, unit->elements[STORAGE_VECTOR] * dtype_size(own->compute), BUDGET_WEIGHTS),
        own->compute, unit->elements[STORAGE_VECTOR]);
    const int64_t scales = precision->delayed ? 0 : unit->weight_count * SCALE_STRIDE * dtype_size(own->statistic);
    rowwise->amaxes = numbers(own, unit, budget, scales);
    rowwise->scales = numbers(own, unit, budget, scales);
    return state->shard_elements + 2 * scales;
}

bool store_gathers_rows(const struct flat_store *own, const struct unit_state *state)
{
    const struct execution *execution = own->execution;
    const bool trains = execution->pass == PASS_FORWARD || execution->pass == PASS_BACKWARD;
    return trains && tensor_present(&state->rowwise.shard) && !tensor_present(&execution->quantization_errors);
}

/* Returns this rank's shard of a matrix and the padding after it; may be empty. */
static struct tensor part_of(const struct flat_store *own, const struct unit_state *state, const struct weight *weight,
                             const struct tensor *shard)
{
    const struct index_range common = store_common(state, own->rank, weight->offset, weight->offset + weight->reserved);
    const int64_t first = common.count > 0 ? common.first - own->rank * state->shard_elements : 0;
    return tensor_matrix(tensor_at(shard, 0, first), shard->dtype, common.count / UNIT_ALIGNMENT, UNIT_ALIGNMENT);
}

/* Computes the amaxes of the weights over all ranks, for scales that come from them. */
static void find_amaxes(struct flat_store *own, const struct unit *unit, const struct unit_state *state)
{
    const struct tensor *amaxes = &state->rowwise.amaxes;
    const struct tensor all = tensor_vector(amaxes->data, amaxes->dtype, amaxes->rows * amaxes->stride);
    LAUNCH(own->gather, FILL, fill, .x = all, .value = 0);
    for (int w = 0; w < unit->weight_count; w++) {
        const struct weight *weight = &unit->weights[w];
        if (weight->quantized == NULL)
            continue;
        struct quantized_operands to = linear_quantized(own->execution, weight->quantized, weight->operand);
        to.amax = tensor_rows(amaxes, w, 1);
        LAUNCH(own->gather, QUANTIZE, quantize, .x = part_of(own, state, weight, &state->values), .to = to);
    }
    LAUNCH(own->gather, ALL_REDUCE, all_reduce, .group = own->groups->gather, .x = all, .maximum = true);
}

static void quantize_shard(struct flat_store *own, const struct unit *unit, const struct unit_state *state)
{
    const struct rowwise_weights *rowwise = &state->rowwise;
    for (int w = 0; w < unit->weight_count; w++) {
        const struct weight *weight = &unit->weights[w];
        if (weight->quantized == NULL)
            continue;
        struct quantized_operands to = linear_quantized(own->execution, weight->quantized, weight->operand);
        to.row = part_of(own, state, weight, &rowwise->shard);
        if (tensor_present(&rowwise->scales)) {
            to.row_scale = tensor_rows(&rowwise->scales, w, 1);
            to.whole_amax = tensor_rows(&rowwise->amaxes, w, 1);
        }
        LAUNCH(own->gather, QUANTIZE, quantize, .x = part_of(own, state, weight, &state->values), .to = to);
    }
}

/* Vectors usually have one owner. */
static void collect_vectors(struct flat_store *own, const struct unit *unit, const struct unit_state *state)
{
    const int64_t begin = unit->elements[STORAGE_MATRIX], end = begin + unit->elements[STORAGE_VECTOR];
    for (int64_t r = begin / state->shard_elements; r * state->shard_elements < end; r++) {
        const struct index_range common = store_common(state, (int)r, begin, end);
        const struct tensor to = tensor_columns(&state->rowwise.vectors, common.first - begin, common.count);
        if (r == own->rank)
            LAUNCH(own->gather, COPY, copy,
                   .from = tensor_columns(&state->values, common.first - r * state->shard_elements, common.count),
                   .to = to);
        LAUNCH(own->gather, BROADCAST, broadcast, .group = own->groups->gather, .x = to, .root = (int)r);
    }
}

void store_make_rows(struct flat_store *own, const struct unit *unit, struct unit_state *state)
{
    if (!tensor_present(&state->rowwise.shard))
        return;
    if (tensor_present(&state->rowwise.amaxes))
        find_amaxes(own, unit, state);
    quantize_shard(own, unit, state);
    collect_vectors(own, unit, state);
}
