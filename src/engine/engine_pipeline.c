/* Transfers between neighbouring stages of a pipeline. */
#include "architecture/stages.h"
#include "base/range.h"
#include "engine/engine_private.h"

/* Returns whether the chunk sends or receives in this direction. */
static bool passes(const struct engine *e, int chunk, enum relay_direction relay)
{
    const struct pipeline_parallel *pipeline = &e->model->settings.pipeline;
    const bool trains = e->settings.memory.use == MEMORY_TRAIN;
    switch (relay) {
    case RELAY_TO_NEXT:
        return stage_has_next(pipeline, chunk);
    case RELAY_FROM_BEFORE:
        return stage_has_before(pipeline, chunk);
    case RELAY_TO_BEFORE:
        return trains && stage_has_before(pipeline, chunk);
    case RELAY_FROM_NEXT:
        return trains && stage_has_next(pipeline, chunk);
    case RELAY_COUNT:
        break;
    }
    return false;
}

void engine_create_relays(struct engine *e)
{
    const enum dtype dtype = e->settings.memory.compute;
    const int64_t tokens = execution_own_tokens(&e->execution, &e->model->units[0]); /* tokens of a whole micro-batch */
    const int64_t hidden = e->model->settings.hidden, bytes = tokens * hidden * dtype_size(dtype);
    for (int r = 0; r < RELAY_COUNT; r++) {
        bool any = false;
        for (int c = 0; c < e->model->chunk_count; c++)
            any |= passes(e, c, (enum relay_direction)r);
        if (!any)
            continue;
        e->execution.relays[r] =
            tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_EXCHANGE), dtype, tokens, hidden);
        if (r == RELAY_TO_NEXT || r == RELAY_TO_BEFORE)
            e->leaving[r].data =
                tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_EXCHANGE), dtype, tokens, hidden);
    }
}

static struct tensor only(struct tensor tensor, enum relay_direction relay, enum relay_direction wanted)
{
    return relay == wanted ? tensor : (struct tensor){0};
}

static void launch_relay(struct engine *e, int stream, enum relay_direction relay, struct tensor x)
{
    LAUNCH(&e->streams[stream], RELAY, relay, .group = e->groups.stages, .to_next = only(x, relay, RELAY_TO_NEXT),
           .from_before = only(x, relay, RELAY_FROM_BEFORE), .to_before = only(x, relay, RELAY_TO_BEFORE),
           .from_next = only(x, relay, RELAY_FROM_NEXT));
}

void engine_receive(struct engine *e, int chunk, bool backward)
{
    const enum relay_direction relay = backward ? RELAY_FROM_NEXT : RELAY_FROM_BEFORE;
    if (passes(e, chunk, relay))
        launch_relay(e, STREAM_COMPUTE, relay, e->execution.relays[relay]);
}

void engine_send(struct engine *e, int chunk, bool backward)
{
    const enum relay_direction relay = backward ? RELAY_TO_BEFORE : RELAY_TO_NEXT;
    struct stage_transfer *leaving = &e->leaving[relay];
    struct stream *compute = &e->streams[STREAM_COMPUTE], *stream = &e->streams[STREAM_RELAY];
    if (!passes(e, chunk, relay))
        return;
    if (leaving->taken.serial > 0) /* a message was sent before */
        event_wait(&leaving->taken, compute);
    LAUNCH(compute, COPY, copy, .from = e->execution.relays[relay], .to = leaving->data);
    event_record(&leaving->ready, compute);
    event_wait(&leaving->ready, stream);
    launch_relay(e, STREAM_RELAY, relay, leaving->data);
    event_record(&leaving->taken, stream);
}

void engine_forward_stages(struct engine *e, enum pass_kind pass, const struct batch *batch)
{
    for (int c = 0; c < e->model->chunk_count; c++) {
        engine_load_batch(e, batch, engine_batch(e, c, 0));
        engine_receive(e, c, false);
        engine_run_forward(e, pass, c, 0);
        engine_send(e, c, false);
    }
}

/* The other stage's gradients are received piece by piece into a relay buffer, whose content is no longer needed. The
 * first and the last stage are neighbours in the group of stages. */
void engine_sum_twice_held(struct engine *e, struct unit *unit, struct stream *stream)
{
    const bool first = unit_is_computed(unit);
    const struct tensor *relays = e->execution.relays;
    const struct tensor *room = &relays[tensor_present(&relays[RELAY_FROM_NEXT]) ? RELAY_FROM_NEXT : RELAY_FROM_BEFORE];
    for (int s = 0; s < STORAGE_COUNT; s++) {
        const struct tensor own = e->store->class->shard(e->store, unit, (enum storage_class)s).gradient;
        const int64_t count = tensor_present(&own) ? own.cols : 0, most = tensor_extent(room) / dtype_size(own.dtype);
        for (int64_t done = 0; done < count; done += most) {
            const struct tensor part = tensor_columns(&own, done, MIN(count - done, most));
            const struct tensor other = tensor_vector(room->data, own.dtype, part.cols), absent = {0};
            LAUNCH(stream, RELAY, relay, .group = e->groups.stages, .to_next = first ? absent : part,
                   .from_before = first ? other : absent, .to_before = first ? part : absent,
                   .from_next = first ? absent : other);
            LAUNCH(stream, ADD, add, .from = other, .to = part);
        }
    }
}
