#include "engine/offload.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdlib.h>

/* -- Memory ------------------------------------------------------------------------------------------------------ */

static struct offload_buffer *buffer_of(struct offload *o, int turn)
{
    return &o->buffers[turn % OFFLOAD_BUFFERS];
}

char *offload_buffer(const struct offload *o, int turn)
{
    return o->buffers[turn % OFFLOAD_BUFFERS].device;
}

int offload_add(struct offload *o, int64_t bytes)
{
    struct offload_buffer *buffer = buffer_of(o, o->count);
    o->turns = memory_grow(o->turns, (int64_t)sizeof *o->turns * (o->count + 1));
    o->turns[o->count] = (struct offload_turn){bytes, o->slot_bytes};
    o->slot_bytes += bytes;
    buffer->bytes = MAX(bytes, buffer->bytes);
    return o->count++;
}

void offload_allocate(struct offload *o, int slots, struct budget *budget)
{
    o->stream = (struct stream){budget->executor, STREAM_OFFLOAD, NULL};
    o->host = budget_allocate(budget, o->slot_bytes * slots, BUDGET_HOST);
}

void offload_allocate_buffers(struct offload_buffer buffers[OFFLOAD_BUFFERS], struct budget *budget)
{
    for (int b = 0; b < OFFLOAD_BUFFERS; b++)
        buffers[b].device = budget_allocate(budget, buffers[b].bytes, BUDGET_ACTIVATIONS);
}

void offload_destroy(struct offload *o)
{
    free(o->turns);
}

/* -- Copies ------------------------------------------------------------------------------------------------------ */

static struct tensor words(char *at, int64_t bytes)
{
    return tensor_vector(at, DTYPE_I32, bytes / dtype_size(DTYPE_I32));
}

/* Starts a copy from or to the turn's buffer, when units have finished with it. */
static void move(struct offload *o, int turn, int slot, bool to_host)
{
    const struct offload_turn *t = &o->turns[turn];
    struct offload_buffer *buffer = buffer_of(o, turn);
    struct tensor device = words(buffer->device, t->bytes);
    struct tensor host = words(o->host + slot * o->slot_bytes + t->offset, t->bytes);
    LAUNCH(&o->stream, COPY, copy, .from = to_host ? device : host, .to = to_host ? host : device);
    event_record(&buffer->moved, &o->stream);
}

void offload_await_buffer(struct offload *o, int turn, struct stream *stream)
{
    if (turn >= OFFLOAD_BUFFERS)
        event_wait(&buffer_of(o, turn)->moved, stream);
}

void offload_send(struct offload *o, int turn, int slot, struct stream *stream)
{
    struct offload_buffer *buffer = buffer_of(o, turn);
    event_record(&buffer->used, stream);
    event_wait(&buffer->used, &o->stream);
    move(o, turn, slot, true);
}

void offload_await_sent(struct offload *o, struct stream *stream)
{
    event_wait(&buffer_of(o, o->count - 1)->moved, stream);
}

void offload_fetch_last(struct offload *o, int slot, struct stream *stream)
{
    event_record(&o->begun, stream);
    event_wait(&o->begun, &o->stream);
    for (int turn = o->count - 1; turn >= 0 && turn >= o->count - OFFLOAD_BUFFERS; turn--)
        move(o, turn, slot, false);
}

void offload_await_fetched(struct offload *o, int turn, struct stream *stream)
{
    event_wait(&buffer_of(o, turn)->moved, stream);
}

void offload_fetch_next(struct offload *o, int turn, int slot, struct stream *stream)
{
    struct offload_buffer *buffer = buffer_of(o, turn);
    if (turn < OFFLOAD_BUFFERS)
        return;
    event_record(&buffer->used, stream);
    event_wait(&buffer->used, &o->stream);
    move(o, turn - OFFLOAD_BUFFERS, slot, false);
}
