#include "ref/poison.h"
#include "store/store_private.h"

#include <math.h>

static void spoil(struct stream *stream, void *at, enum dtype dtype, int64_t count)
{
    if (at != NULL && count > 0)
        LAUNCH(stream, FILL, fill, .x = tensor_vector(at, dtype, count), .value = NAN);
}

/* Spoils, after an update, the gathered rows of the old weights, and whole weights that other ranks have updated. all:
 * also those of frozen weights. */
static void spoil_others(const struct poison *p, struct stream *stream, bool all)
{
    const struct flat_store *own = p->inner->self;
    for (int u = 0; u < own->unit_count; u++) {
        if (own->units[u].frozen && !all)
            continue;
        const struct rowwise_weights *rowwise = &own->states[u].rowwise;
        spoil(stream, rowwise->shard.data, DTYPE_BF16, rowwise->shard.cols / dtype_size(DTYPE_BF16));
        spoil(stream, rowwise->vectors.data, own->compute, rowwise->vectors.cols);
    }
    for (int u = 0; u < own->unit_count && !own->sharded_values; u++) {
        const struct unit_state *state = &own->states[u];
        if (own->units[u].frozen && !all)
            continue;
        for (int r = 0; r < own->ranks; r++)
            if (r != own->rank)
                spoil(stream, tensor_at(&state->values, 0, r * state->shard_elements), own->compute,
                      state->shard_elements);
    }
}

static void begin(struct weight_store *store, struct unit *const *units, int count, struct stream *stream,
                  enum store_written written)
{
    const struct poison *p = (const struct poison *)store;
    const struct engine_memory *memory = &p->engine->memory;
    spoil(stream, memory->transient_base, DTYPE_BF16, memory->transient_bytes / dtype_size(DTYPE_BF16));
    if (written != STORE_WRITTEN_NONE)
        spoil_others(p, stream, written == STORE_WRITTEN_ALL);
    p->inner->class->begin(p->inner, units, count, stream, written);
}

static void release(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    const struct poison *p = (const struct poison *)store;
    const struct engine_settings *settings = &p->engine->settings;
    const bool gathered = p->engine->execution.pass != PASS_BACKWARD || !unit->class->reads_forward_only;
    if (settings->sharding.level == SHARD_FULL && group_size(p->engine->groups.gather) > 1 && gathered) {
        spoil(stream, unit->rowwise_base, DTYPE_BF16, unit->elements[STORAGE_MATRIX] / dtype_size(DTYPE_BF16));
        for (int s = 0; s < STORAGE_COUNT && unit->rowwise_base == NULL; s++)
            spoil(stream, unit->weight_base[s], settings->memory.compute, unit->elements[s]);
        spoil(stream, unit->quantized_base, DTYPE_BF16, unit->quantized_bytes / dtype_size(DTYPE_BF16));
    }
    p->inner->class->release(p->inner, unit, stream);
}

static void gradients_open(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh, bool last)
{
    const struct poison *p = (const struct poison *)store;
    const struct engine_settings *settings = &p->engine->settings;
    const enum dtype statistic = settings->memory.statistic;
    p->inner->class->gradients_open(p->inner, unit, stream, fresh, last);
    const struct sharding *sharding = &settings->sharding;
    const bool cut = group_size(p->engine->groups.gather) > 1 && sharding->level >= SHARD_GRADIENTS;
    if (!unit->gradient_fresh || (!sharding_rounds(sharding) && (!cut || sharding->whole_gradients)))
        return;
    for (int w = 0; w < unit->weight_count; w++) {
        const struct weight *weight = &unit->weights[w];
        const enum dtype dtype = unit_gradient_dtype(unit, weight->storage, statistic);
        if (weight->home == unit)
            spoil(stream, (char *)unit->gradient_base[weight->storage] + weight->offset * dtype_size(dtype), dtype,
                  weight->rows * weight->cols);
    }
}

void poison_store(struct poison *p, struct engine *engine)
{
    *p = (struct poison){.class = *engine->store->class, .inner = engine->store, .engine = engine};
    p->class.begin = begin;
    p->class.release = release;
    p->class.gradients_open = gradients_open;
    p->store = (struct weight_store){.class = &p->class, .self = p->inner->self};
    engine->store = &p->store;
}
