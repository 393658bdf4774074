/* The only class of weight store: allocation for each sharding level, and the shards. */
#include "store/store.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "store/store_private.h"

void store_point(const struct unit *unit, void *flat, enum dtype dtype, void *base[STORAGE_COUNT])
{
    char *at = flat;
    for (int s = 0; s < STORAGE_COUNT; s++) {
        base[s] = at;
        at = at != NULL ? at + unit->elements[s] * dtype_size(dtype) : NULL;
    }
}

/* -- Shards ------------------------------------------------------------------------------------------------------ */

/* Returns `count` elements of a tensor of this rank, from `first` of its shard on. */
static struct tensor part_of(const struct flat_store *own, const struct unit_state *state, const struct tensor *held,
                             int64_t first, int64_t count)
{
    if (!tensor_present(held) || count == 0)
        return tensor_vector(NULL, held->dtype, 0);
    const struct tensor shard = store_own_shard(own, state, held);
    return tensor_columns(&shard, first, count);
}

/* Returns the elements of a unit's flat buffer that have a second moment. */
static struct index_range second_moments(const struct flat_store *own, const struct unit_state *state,
                                         const struct unit *unit)
{
    const int64_t first = unit->muon ? unit->elements[STORAGE_MATRIX] : 0;
    return store_common(state, own->rank, first, own->ranks * state->shard_elements);
}

/* As part_of, of the second moments, for `count` elements from element `at` of the flat buffer on. */
static struct tensor second_moments_of(const struct flat_store *own, const struct unit_state *state,
                                       const struct unit *unit, int64_t at, int64_t count)
{
    const struct index_range common = range_common(second_moments(own, state, unit), (struct index_range){at, count});
    if (!tensor_present(&state->v) || common.count == 0)
        return tensor_vector(NULL, state->v.dtype, 0);
    return tensor_columns(&state->v, common.first - second_moments(own, state, unit).first, common.count);
}

/* Returns the intersection of this rank's shard and a storage class. */
static struct store_shard shard_of(struct weight_store *store, struct unit *unit, enum storage_class storage)
{
    const struct flat_store *own = store->self;
    const struct unit_state *h = store_state(store, unit);
    const int64_t class = storage == STORAGE_VECTOR ? unit->elements[STORAGE_MATRIX] : 0;
    const struct index_range common = store_common(h, own->rank, class, class + unit->elements[storage]);
    const int64_t first = common.first - own->rank * h->shard_elements, count = common.count;
    return (struct store_shard){
        .first = count > 0 ? common.first - class : 0,
        .owner = group_rank(own->groups->replicas),
        .owners = group_size(own->groups->replicas),
        .weight = {part_of(own, h, &h->values, first, count), part_of(own, h, &h->low, first, count)},
        .gradient = part_of(own, h, &h->gradients, first, count),
        .m = part_of(own, h, &h->m, first, count),
        .v = second_moments_of(own, h, unit, common.first, count)};
}

static int64_t flat_elements(struct weight_store *store, const struct unit *unit)
{
    const struct flat_store *own = store->self;
    return own->trains && !unit->frozen ? own->ranks * own->states[unit->index].shard_elements : 0;
}

static void gather_flat(struct weight_store *store, const struct unit *unit, struct tensor flat, struct stream *stream)
{
    const struct flat_store *own = store->self;
    const struct unit_state *state = &own->states[unit->index];
    if (own->ranks > 1)
        LAUNCH(stream, ALL_GATHER, all_gather, .group = own->groups->gather, .in = store_own_shard(own, state, &flat),
               .out = store_rows(own, state, flat.data, flat.dtype));
}

/* -- Making ------------------------------------------------------------------------------------------------------ */

static void destroy(struct weight_store *store)
{
    struct flat_store *own = store->self;
    memory_free(own->pending);
    memory_free(own->states);
    memory_free(own);
}

static const struct store_class class = {.begin = store_begin,
                                         .acquire = store_acquire,
                                         .release = store_release,
                                         .gradients_open = store_gradients_open,
                                         .gradients_close = store_gradients_close,
                                         .start_transfers = store_start_transfers,
                                         .end = store_end,
                                         .gradients_wait = store_gradients_wait,
                                         .shard = shard_of,
                                         .flat_elements = flat_elements,
                                         .gather_flat = gather_flat,
                                         .destroy = destroy};

static struct tensor flat_tensor(struct budget *budget, int64_t count, enum dtype dtype, enum budget_category category)
{
    return tensor_vector(budget_allocate(budget, count * dtype_size(dtype), category), dtype, count);
}

/* Returns the group that gathers weights; NULL: none does. */
static struct group *gather_group(const struct flat_store *own)
{
    return own->ranks > 1 ? own->groups->gather : NULL;
}

/* Returns whether the group sums by copies, for which it needs scratch. */
static bool sums_copies(const struct flat_store *own, const struct group *group)
{
    return own->copies && group_size(group) > 1 && group->copies;
}

/* Returns the group in whose memory whole sums over ranks are computed; NULL: none does. A sharding group that sums by
 * copies reaches its scratch alone, so the memory can be that of the replicas. */
static struct group *sum_group(const struct flat_store *own)
{
    struct group *reduce = own->groups->reduce, *replicas = own->groups->replicas;
    if (own->ranks == 1 || (sums_copies(own, reduce) && sums_copies(own, replicas)))
        return group_size(replicas) > 1 ? replicas : NULL;
    return reduce;
}

/* Returns the group in whose memory gradients are allocated; NULL: none's. */
static struct group *gradient_group(const struct flat_store *own)
{
    if (own->rounds || own->exact.gradient > 0) /* sums are rounded into the gradients */
        return NULL;
    if (own->sharded_gradients)
        return group_size(own->groups->replicas) > 1 ? own->groups->replicas : NULL;
    return sum_group(own);
}

/* The memory of units that are not created yet: one block for weights and one for gradients, since a group takes
 * milliseconds to make a block of memory, whatever its size. */
struct units_rest {
    char *values, *gradients;
};

/* Returns the next `count` numbers of the memory. */
static struct tensor next_part(char **memory, enum dtype dtype, int64_t count)
{
    const struct tensor part = tensor_vector(*memory, dtype, count);
    *memory += count * dtype_size(dtype);
    return part;
}

/* Sets what follows from the unit alone. */
static void describe_state(const struct flat_store *own, struct unit_state *state, const struct unit *unit)
{
    /* for sums by copies over replicas, each replica adds an equal part of a shard */
    const int64_t parts =
        (int64_t)own->ranks * (sums_copies(own, own->groups->replicas) ? own->groups->replicas->size : 1);
    const int64_t step = parts * UNIT_ALIGNMENT;
    if (!unit->here)
        return;
    state->shard_elements = (unit_elements(unit) + step - 1) / step * step / own->ranks;
    state->frozen = unit->frozen;
    state->complete = unit->complete_gradients;
    for (int i = 0; i < unit->parameter_count; i++)
        state->partial |= unit->parameters[i].partial;
}

static int64_t value_count(const struct flat_store *own, const struct unit_state *state)
{
    return own->sharded_values ? state->shard_elements : own->ranks * state->shard_elements;
}

/* Returns the elements of the unit's gradients before `exact` sums are rounded into them. */
static int64_t summed_count(const struct flat_store *own, const struct unit_state *state)
{
    return own->sharded_gradients ? state->shard_elements : own->ranks * state->shard_elements;
}

static int64_t gradient_count(const struct flat_store *own, const struct unit_state *state)
{
    return own->exact.gradient > 0 ? state->shard_elements : summed_count(own, state);
}

static enum dtype gradient_type(const struct flat_store *own)
{
    return own->rounds ? DTYPE_BF16 : own->statistic;
}

static char *lent_gradients(const struct store_request *r, const struct unit *unit)
{
    return r->gradients != NULL ? r->gradients[unit->index] : NULL;
}

static struct units_rest allocate_units(const struct flat_store *own, const struct store_request *r)
{
    int64_t values = 0, gradients = 0;
    for (int u = 0; u < own->unit_count; u++) {
        const struct unit_state *state = &own->states[u];
        values += value_count(own, state);
        if (r->trains && !state->frozen && lent_gradients(r, &own->units[u]) == NULL)
            gradients += gradient_count(own, state);
    }
    values *= dtype_size(r->compute);
    gradients *= dtype_size(gradient_type(own));
    return (struct units_rest){
        .values = budget_allocate_gathered(r->budget, values, BUDGET_WEIGHTS, gather_group(own)),
        .gradients = budget_allocate_gathered(r->budget, gradients, BUDGET_GRADIENTS, gradient_group(own))};
}

/* Allocates gradients and moments of a unit that is trained. */
static void create_training_state(const struct flat_store *own, struct unit_state *state, const struct unit *unit,
                                  const struct store_request *r, struct units_rest *rest)
{
    const int64_t shard = state->shard_elements, gradients = gradient_count(own, state);
    const enum dtype moment = own->no_masters ? DTYPE_BF16 : r->statistic;
    char *lent = lent_gradients(r, unit);
    state->lent = lent != NULL;
    CHECK_BUG(lent == NULL || gradients == unit_elements(unit));
    state->gradients = next_part(lent != NULL ? &lent : &rest->gradients, gradient_type(own), gradients);
    if (own->exact.gradient > 0)
        state->sums = flat_tensor(r->budget, summed_count(own, state), DTYPE_F64, BUDGET_GRADIENTS);
    if (unit->rounds_gradients && unit->elements[STORAGE_VECTOR] > 0)
        state->vectors = flat_tensor(r->budget, unit->elements[STORAGE_VECTOR], r->statistic, BUDGET_GRADIENTS);
    state->m = flat_tensor(r->budget, shard, moment, BUDGET_OPTIMIZER);
    state->v = flat_tensor(r->budget, second_moments(own, state, unit).count, moment, BUDGET_OPTIMIZER);
}

static void create_state(struct flat_store *own, struct unit_state *state, const struct unit *unit,
                         const struct store_request *r, struct units_rest *rest)
{
    if (state->shard_elements == 0)
        return;
    state->values = next_part(&rest->values, r->compute, value_count(own, state));
    if (!r->trains)
        return;
    if (r->compute != r->statistic && !own->no_masters && !state->frozen)
        state->low = flat_tensor(r->budget, state->shard_elements, DTYPE_I16, BUDGET_WEIGHTS);
    if (!own->sharded_values) {
        state->quantized = budget_allocate(r->budget, unit->quantized_bytes, BUDGET_WEIGHTS);
        own->store.quantized += unit->quantized_bytes;
    }
    own->store.quantized += store_create_rows(own, unit, state, r->budget);
    if (!state->frozen)
        create_training_state(own, state, unit, r, rest);
}

/* Maximum needs of the units that use one buffer. */
struct most {
    int64_t values, gradients; /* elements of the whole unit */
    int64_t quantized;         /* bytes */
};

static struct most most_of(const struct flat_store *own, const struct store_request *r, bool backward, int buffer)
{
    struct most most = {0};
    for (int c = 0; c < r->model->chunk_count; c++) {
        struct unit *const *units = backward ? r->orders[c].backward : r->orders[c].forward;
        const int count = backward ? r->orders[c].trained : r->orders[c].count;
        for (int position = buffer; position < count; position += STORE_BUFFERS) {
            const struct unit *unit = units[position];
            const int64_t all = own->ranks * own->states[unit->index].shard_elements;
            const int64_t contributed = unit->frozen || store_rounds(own, unit, true) ? 0 : all;
            if (store_reads(units, count, position, backward))
                most.values = MAX(all, most.values);
            most.gradients = MAX(contributed, most.gradients);
            most.quantized = MAX(unit->quantized_bytes, most.quantized);
        }
    }
    return most;
}

static void create_buffers(struct flat_store *own, int buffer, const struct store_request *r)
{
    const struct most forward = most_of(own, r, false, buffer);
    const struct most backward = r->trains ? most_of(own, r, true, buffer) : (struct most){0};
    const int64_t values = MAX(forward.values, backward.values);
    const int64_t quantized = MAX(forward.quantized, backward.quantized);
    if (own->sharded_values) {
        own->gathered[buffer].values =
            budget_allocate_gathered(r->budget, values * dtype_size(r->compute), BUDGET_EXCHANGE, gather_group(own));
        own->gathered[buffer].quantized = budget_allocate(r->budget, r->trains ? quantized : 0, BUDGET_EXCHANGE);
    }
    if (own->contributes)
        own->contributions[buffer].values = budget_allocate_gathered(
            r->budget, backward.gradients * dtype_size(r->statistic), BUDGET_EXCHANGE, sum_group(own));
}

/* Allocates the buffers of reductions, for the largest unit that is reduced: one reduction ends before the next begins.
 */
static void create_sums(struct flat_store *own, const struct store_request *r)
{
    struct group *reduce = own->groups->reduce, *replicas = own->groups->replicas;
    int64_t shard = 0;
    for (int u = 0; u < own->unit_count; u++)
        if (!own->states[u].complete && !own->states[u].frozen && own->states[u].shard_elements > shard)
            shard = own->states[u].shard_elements;
    const bool rounds = own->ranks > 1 && r->sharding.bf16_sums;
    const struct group *summed =
        own->rounds ? sum_group(own) : gradient_group(own); /* the group whose memory replicas sum */
    const int64_t rounded = own->ranks * shard * dtype_size(DTYPE_BF16),
                  all = own->ranks * shard * dtype_size(DTYPE_F32);
    if (rounds) {
        own->sent = budget_allocate_gathered(r->budget, rounded, BUDGET_EXCHANGE, reduce);
        own->received = budget_allocate_gathered(r->budget, rounded, BUDGET_EXCHANGE, reduce);
    }
    if (own->exact.gradient > 0 && own->sharded_gradients)
        own->received = budget_allocate_gathered(r->budget, all, BUDGET_EXCHANGE, reduce);
    if (own->ranks > 1 && sums_copies(own, reduce) && !rounds)
        own->scratch = budget_allocate_gathered(r->budget, all, BUDGET_EXCHANGE, reduce);
    if (sums_copies(own, replicas) && summed == replicas)
        own->replicas_scratch =
            budget_allocate_gathered(r->budget, shard * dtype_size(DTYPE_F32), BUDGET_EXCHANGE, replicas);
}

struct weight_store *store_create(const struct store_request *r)
{
    struct flat_store *own = memory_allocate(sizeof *own);
    own->store = (struct weight_store){.class = &class, .self = own};
    own->gather = &r->streams[STREAM_GATHER];
    own->reduce = &r->streams[STREAM_REDUCE];
    own->groups = r->groups;
    own->execution = r->execution;
    own->compute = r->compute;
    own->statistic = r->statistic;
    own->trains = r->trains;
    own->ranks = r->sharding.level == SHARD_NONE ? 1 : group_size(r->groups->gather);
    own->rank = own->ranks > 1 ? group_rank(r->groups->gather) : 0;
    own->sharded_values = sharding_shards_values(&r->sharding, r->groups);
    own->sharded_gradients = own->ranks > 1 && r->trains && sharding_shards_gradients(&r->sharding);
    own->no_masters = r->trains && r->sharding.no_masters;
    own->rounds = r->trains && sharding_rounds(&r->sharding);
    if (r->trains)
        own->exact = r->sharding.exact;
    own->contributes = own->sharded_gradients || own->rounds || own->exact.gradient > 0;
    own->copies = r->trains && r->statistic == DTYPE_F32 && own->exact.gradient <= 0;
    own->unit_count = r->model->unit_count;
    own->units = r->model->units;
    own->states = memory_allocate((int64_t)sizeof *own->states * own->unit_count);
    own->pending = memory_allocate((int64_t)sizeof *own->pending * (own->unit_count + STORE_BUFFERS));
    for (int u = 0; u < own->unit_count; u++)
        describe_state(own, &own->states[u], &own->units[u]);
    struct units_rest rest = allocate_units(own, r);
    for (int u = 0; u < own->unit_count; u++)
        create_state(own, &own->states[u], &own->units[u], r, &rest);
    for (int buffer = 0; buffer < STORE_BUFFERS; buffer++)
        create_buffers(own, buffer, r);
    if (r->trains)
        create_sums(own, r);
    return &own->store;
}
