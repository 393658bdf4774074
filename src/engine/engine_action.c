/* Actions of a schedule: forward and backward of a micro-batch through all units. */
#include "engine/engine_private.h"

static void acquire(struct engine *e, struct unit *unit)
{
    struct unit *home = unit_lender(unit);
    if (home != NULL)
        e->store->class->acquire(e->store, home, e->execution.stream);
    e->store->class->acquire(e->store, unit, e->execution.stream);
}

static void release(struct engine *e, struct unit *unit)
{
    struct unit *home = unit_lender(unit);
    e->store->class->release(e->store, unit, e->execution.stream);
    if (home != NULL)
        e->store->class->release(e->store, home, e->execution.stream);
}

void engine_written(struct engine *e, enum store_written written)
{
    for (int c = 0; c < MODEL_CHUNKS; c++)
        if (e->written[c] < written)
            e->written[c] = written;
}

void engine_seen(struct engine *e, int chunk)
{
    const bool sharded = sharding_shards_values(&e->settings.sharding, &e->groups);
    for (int c = 0; c < MODEL_CHUNKS; c++)
        if (!sharded || c == chunk)
            e->written[c] = STORE_WRITTEN_NONE;
}

struct batch_tensors *engine_batch(struct engine *e, int chunk, int slot)
{
    return &e->batches[memory_slots_before(&e->settings.memory, chunk) + slot];
}

static void begin_action(struct engine *e, enum pass_kind pass, int chunk, int slot)
{
    struct execution *execution = &e->execution;
    execution->pass = pass;
    execution->slot = slot;
    execution->batch = engine_batch(e, chunk, slot);
    execution->attended[0] = execution->attended[1] = 0;
}

void engine_run_forward(struct engine *e, enum pass_kind pass, int chunk, int slot)
{
    struct model *model = e->model;
    const struct acquisition_order *order = &e->orders[chunk];
    const bool trains = pass == PASS_FORWARD;
    begin_action(e, pass, chunk, slot);
    launch_range(e->execution.stream, "forward");
    e->store->class->begin(e->store, order->forward, trains ? order->training : order->count, e->execution.stream,
                           e->written[chunk]);
    for (int u = model->chunks[chunk].first; u < model->chunks[chunk].end; u++) {
        if (trains && model->units[u].class->idle_forward)
            continue;
        acquire(e, &model->units[u]);
        launch_range(e->execution.stream, model->units[u].class->name);
        memory_forward_unit(&e->execution, &model->units[u]);
        launch_range_end(e->execution.stream);
        engine_keep_states(e, &model->units[u]);
        release(e, &model->units[u]);
    }
    if (!trains)
        engine_add_totals(e);
    memory_forward_end(&e->execution, chunk);
    e->store->class->end(e->store, e->execution.stream, false);
    engine_seen(e, chunk);
    launch_range_end(e->execution.stream);
}

void engine_run_backward(struct engine *e, const struct schedule_action *action)
{
    struct model *model = e->model;
    const struct acquisition_order *order = &e->orders[action->chunk];
    const struct store_class *store = e->store->class;
    const bool weights = action->gradients & GRADIENT_WEIGHT;
    const bool sums = action->last && !e->executor->tuning_pass; /* a tuning pass exchanges no gradients */
    struct unit *lent = NULL; /* already has gradients, of the unit that borrows its weights */
    begin_action(e, PASS_BACKWARD, action->chunk, action->slot);
    e->execution.gradients = action->gradients;
    launch_range(e->execution.stream, "backward");
    store->begin(e->store, order->backward, order->trained, e->execution.stream, false);
    memory_backward_begin(&e->execution, action->chunk);
    for (int u = model->chunks[action->chunk].end - 1; u >= model->chunks[action->chunk].first; u--) {
        if (model->units[u].idle_backward)
            break;
        struct unit *unit = &model->units[u], *home = unit_lender(unit);
        const bool trains = weights && !unit->frozen, trains_home = weights && home != NULL && !home->frozen;
        e->execution.wanted =
            memory_recomputed(&e->memory, unit); /* the store quantizes weights for the recompute too */
        acquire(e, unit);
        if (trains_home)
            store->gradients_open(e->store, home, e->execution.stream, action->first, action->last);
        if (trains) /* a tied embedding adds to the gradients of the head */
            store->gradients_open(e->store, unit, e->execution.stream, action->first && unit != lent, action->last);
        launch_range(e->execution.stream, unit->class->name);
        memory_backward_unit(&e->execution, unit);
        launch_range_end(e->execution.stream);
        if (trains)
            store->gradients_close(e->store, unit, e->execution.stream, sums);
        if (trains_home) /* the lender's own backward closes its gradients, unless this rank runs none */
            store->gradients_close(e->store, home, e->execution.stream, sums && !unit_is_computed(home));
        if (home != NULL)
            lent = home;
        release(e, unit);
    }
    engine_add_totals(e);
    store->end(e->store, e->execution.stream, sums && action->chunk == 0);
    launch_range_end(e->execution.stream);
}
