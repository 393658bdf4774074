/* Weights. Whole weights are gathered in the action after an update, sharded weights at each acquisition. */
#include "base/error.h"
#include "store/store_private.h"

bool store_reads(struct unit *const *units, int count, int position, bool backward)
{
    const bool lends = position + 1 < count && unit_lender(units[position + 1]) == units[position];
    return lends || !backward || !units[position]->class->reads_forward_only;
}

/* Gathers a unit's shards: the rowwise quantized matrices, or all weights. */
static void gather_shard(struct flat_store *own, const struct unit_state *state, void *to)
{
    const struct tensor *shard = store_gathers_rows(own, state) ? &state->rowwise.shard : &state->values;
    LAUNCH(own->gather, ALL_GATHER, all_gather, .group = own->groups->gather, .in = *shard,
           .out = store_rows(own, state, to, shard->dtype));
}

/* Gathers the unit at position `position`. Its buffer is free when the unit three positions before is released; at the
 * beginning of an action all buffers are free. */
static void gather(struct flat_store *own, int position)
{
    const struct unit *unit = own->order[position];
    struct unit_state *state = &own->states[unit->index];
    struct gathered_values *to = &own->gathered[position % STORE_BUFFERS];
    if (store_requantizes(own, unit))
        store_make_rows(own, unit, state);
    if (state->shard_elements > 0 &&
        store_reads(own->order, own->order_count, position, own->execution->pass == PASS_BACKWARD)) {
        if (position >= STORE_BUFFERS)
            event_wait(&to->released, own->gather);
        gather_shard(own, state, to->values);
    }
    event_record(&to->ready, own->gather);
}

/* Gathers the whole weights of all units that have been written, in the order of a forward. */
static void gather_whole(struct flat_store *own)
{
    for (int u = 0; u < own->unit_count; u++) {
        struct unit_state *state = &own->states[u];
        if (state->shard_elements == 0 || !store_wrote(own, &own->units[u]))
            continue;
        LAUNCH(own->gather, ALL_GATHER, all_gather, .group = own->groups->gather,
               .in = store_own_shard(own, state, &state->values),
               .out = store_rows(own, state, state->values.data, own->compute));
        event_record(&state->gathered, own->gather);
    }
}

void store_begin(struct weight_store *store, struct unit *const *units, int count, struct stream *stream,
                 enum store_written written)
{
    struct flat_store *own = store->self;
    own->order = units;
    own->order_count = count;
    own->acquired = 0;
    own->contributed = false;
    own->written = written;
    for (int u = 0; u < own->unit_count; u++)
        own->states[u].current = false;
    for (int b = 0; b < STORE_BUFFERS; b++)
        own->contributions[b].used = false;
    if (own->ranks == 1 || count == 0 || !(own->sharded_values || written != STORE_WRITTEN_NONE))
        return;
    event_record(&own->started, stream);
    event_wait(&own->started, own->gather);
    if (own->sharded_values)
        gather(own, 0);
    else
        gather_whole(own);
}

/* Starts the gather of the next unit, and waits for the unit's own. Returns its buffer. */
static struct gathered_values *next_gathered(struct flat_store *own, const struct unit *unit, int position,
                                             struct stream *stream)
{
    struct gathered_values *from = &own->gathered[position % STORE_BUFFERS];
    if (position >= own->order_count || own->order[position] != unit)
        error_fatal("bug: unit %s is acquired out of order", unit->name);
    if (position + 1 < own->order_count)
        gather(own, position + 1);
    event_wait(&from->ready, stream);
    return from;
}

/* The lender of a tied head is acquired before it. */
static void make_current(struct flat_store *own, struct unit *unit, struct unit_state *state, struct stream *stream)
{
    if (own->ranks > 1 && state->shard_elements > 0 && store_wrote(own, unit))
        event_wait(&state->gathered, stream);
    if (state->quantized != NULL)
        unit->class->quantize_weights(own->execution, unit, true);
    state->current = true;
}

void store_acquire(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    struct flat_store *own = store->self;
    struct unit_state *state = store_state(store, unit);
    state->position = own->acquired++;
    if (!own->sharded_values) {
        store_point(unit, state->values.data, own->compute, unit->weight_base);
        unit->quantized_base = state->quantized;
        if (store_requantizes(own, unit) && !state->current)
            make_current(own, unit, state, stream);
        return;
    }
    const struct gathered_values *from = next_gathered(own, unit, state->position, stream);
    if (store_gathers_rows(own, state)) {
        unit->rowwise_base = from->values;
        unit->row_scales = state->rowwise.scales;
        unit->weight_base[STORAGE_VECTOR] = state->rowwise.vectors.data;
    } else {
        store_point(unit, from->values, own->compute, unit->weight_base);
    }
    unit->quantized_base = from->quantized;
    if (own->trains && unit->quantized_bytes > 0)
        unit->class->quantize_weights(own->execution, unit, false);
}

void store_release(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    struct flat_store *own = store->self;
    store_point(unit, NULL, own->compute, unit->weight_base);
    unit->quantized_base = unit->rowwise_base = NULL;
    if (own->sharded_values)
        event_record(&own->gathered[store_state(store, unit)->position % STORE_BUFFERS].released, stream);
}

void store_finish_weights(struct flat_store *own, struct stream *stream)
{
    for (int u = 0; u < own->unit_count && !own->sharded_values; u++) {
        struct unit *unit = &own->units[u], *lender = unit_lender(unit);
        if (own->states[u].current || own->states[u].shard_elements == 0 || !store_requantizes(own, unit))
            continue;
        if (lender != NULL)
            store_acquire(&own->store, lender, stream);
        store_acquire(&own->store, unit, stream);
        store_release(&own->store, unit, stream);
        if (lender != NULL)
            store_release(&own->store, lender, stream);
    }
}
