/* Transfers between neighbouring stages of a pipeline. */
#include "architecture/stages.h"
#include "base/range.h"
#include "engine/engine_private.h"

/* Returns whether the chunk sends or receives in this direction. A gradient is received if the chunk or one before it
 * trains units, which are none but the last ones. */
static bool passes(const struct engine *e, int chunk, enum transfer_direction direction)
{
    const struct pipeline_parallel *pipeline = &e->model->settings.pipeline;
    const struct model_chunk *units = &e->model->chunks[chunk];
    const bool trains = e->settings.memory.use == MEMORY_TRAIN;
    switch (direction) {
    case SEND_TO_NEXT:
        return stage_has_next(pipeline, chunk);
    case RECEIVE_FROM_PREVIOUS:
        return stage_has_before(pipeline, chunk);
    case SEND_TO_PREVIOUS:
        return trains && stage_has_before(pipeline, chunk) && !e->model->units[units->first].idle_backward;
    case RECEIVE_FROM_NEXT:
        return trains && stage_has_next(pipeline, chunk) && !e->model->units[units->end - 1].idle_backward;
    case TRANSFER_DIRECTIONS:
        break;
    }
    return false;
}

void engine_create_stage_buffers(struct engine *e)
{
    const enum dtype dtype = e->settings.memory.compute;
    const int64_t tokens = execution_own_tokens(&e->execution, &e->model->units[0]); /* tokens of a whole micro-batch */
    const int64_t hidden = e->model->settings.hidden, bytes = tokens * hidden * dtype_size(dtype);
    for (int r = 0; r < TRANSFER_DIRECTIONS; r++) {
        bool any = false;
        for (int c = 0; c < e->model->chunk_count; c++)
            any |= passes(e, c, (enum transfer_direction)r);
        if (!any)
            continue;
        e->execution.stage_buffers[r] =
            tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_EXCHANGE), dtype, tokens, hidden);
        if (r == SEND_TO_NEXT || r == SEND_TO_PREVIOUS)
            e->sending[r].data =
                tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_EXCHANGE), dtype, tokens, hidden);
    }
}

static struct tensor only(struct tensor tensor, enum transfer_direction direction, enum transfer_direction wanted)
{
    return direction == wanted ? tensor : (struct tensor){0};
}

static void launch_send_receive(struct engine *e, int stream, enum transfer_direction direction, struct tensor x)
{
    LAUNCH(&e->streams[stream], SEND_RECEIVE, send_receive, .group = e->groups.stages,
           .to_next = only(x, direction, SEND_TO_NEXT), .from_previous = only(x, direction, RECEIVE_FROM_PREVIOUS),
           .to_previous = only(x, direction, SEND_TO_PREVIOUS), .from_next = only(x, direction, RECEIVE_FROM_NEXT));
}

void engine_receive(struct engine *e, int chunk, bool backward)
{
    const enum transfer_direction direction = backward ? RECEIVE_FROM_NEXT : RECEIVE_FROM_PREVIOUS;
    if (passes(e, chunk, direction))
        launch_send_receive(e, STREAM_COMPUTE, direction, e->execution.stage_buffers[direction]);
}

void engine_send(struct engine *e, int chunk, bool backward)
{
    const enum transfer_direction direction = backward ? SEND_TO_PREVIOUS : SEND_TO_NEXT;
    struct stage_transfer *sending = &e->sending[direction];
    struct stream *compute = &e->streams[STREAM_COMPUTE], *stream = &e->streams[STREAM_SEND];
    if (!passes(e, chunk, direction))
        return;
    if (sending->received.serial > 0) /* a message was sent before */
        event_wait(&sending->received, compute);
    LAUNCH(compute, COPY, copy, .from = e->execution.stage_buffers[direction], .to = sending->data);
    event_record(&sending->ready, compute);
    event_wait(&sending->ready, stream);
    launch_send_receive(e, STREAM_SEND, direction, sending->data);
    event_record(&sending->received, stream);
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

/* The other stage's gradients are received piece by piece into a receive buffer, whose content is no longer needed.
 * The first and the last stage are neighbours in the group of stages. */
void engine_sum_two_stages(struct engine *e, struct unit *unit, struct stream *stream)
{
    const bool first = unit_is_computed(unit);
    const struct tensor *stage_buffers = e->execution.stage_buffers;
    const struct tensor *buffer =
        &stage_buffers[tensor_present(&stage_buffers[RECEIVE_FROM_NEXT]) ? RECEIVE_FROM_NEXT : RECEIVE_FROM_PREVIOUS];
    for (int s = 0; s < STORAGE_COUNT; s++) {
        const struct tensor own = e->store->class->shard(e->store, unit, (enum storage_class)s).gradient;
        const int64_t count = tensor_present(&own) ? own.cols : 0, most = tensor_extent(buffer) / dtype_size(own.dtype);
        for (int64_t done = 0; done < count; done += most) {
            const struct tensor part = tensor_columns(&own, done, MIN(count - done, most));
            const struct tensor other = tensor_vector(buffer->data, own.dtype, part.cols), absent = {0};
            LAUNCH(stream, SEND_RECEIVE, send_receive, .group = e->groups.stages, .to_next = first ? absent : part,
                   .from_previous = first ? other : absent, .to_previous = first ? part : absent,
                   .from_next = first ? absent : other);
            LAUNCH(stream, ADD, add, .from = other, .to = part);
        }
    }
}
