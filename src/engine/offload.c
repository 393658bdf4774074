#include "engine/offload.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdlib.h>

/* -- Memory ------------------------------------------------------------------------------------------------------ */

static struct offload_buffer *buffer_of(struct offload *o, int number)
{
    return &o->buffers[number % OFFLOAD_BUFFERS];
}

char *offload_buffer(const struct offload *o, int number)
{
    return o->buffers[number % OFFLOAD_BUFFERS].device;
}

int offload_add(struct offload *o, int64_t bytes)
{
    struct offload_buffer *buffer = buffer_of(o, o->count);
    o->units = memory_grow(o->units, (int64_t)sizeof *o->units * (o->count + 1));
    o->units[o->count] = (struct offload_unit){bytes, o->slot_bytes};
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
    free(o->units);
}

/* -- Copies ------------------------------------------------------------------------------------------------------ */

static struct tensor words(char *at, int64_t bytes)
{
    return tensor_vector(at, DTYPE_I32, bytes / dtype_size(DTYPE_I32));
}

/* Starts a copy from or to the unit's buffer, when units have finished with it. */
static void move(struct offload *o, int number, int slot, bool to_host)
{
    const struct offload_unit *t = &o->units[number];
    struct offload_buffer *buffer = buffer_of(o, number);
    struct tensor device = words(buffer->device, t->bytes);
    struct tensor host = words(o->host + slot * o->slot_bytes + t->offset, t->bytes);
    LAUNCH(&o->stream, COPY, copy, .from = to_host ? device : host, .to = to_host ? host : device);
    event_record(&buffer->moved, &o->stream);
}

void offload_await_buffer(struct offload *o, int number, struct stream *stream)
{
    if (number >= OFFLOAD_BUFFERS)
        event_wait(&buffer_of(o, number)->moved, stream);
}

void offload_send(struct offload *o, int number, int slot, struct stream *stream)
{
    struct offload_buffer *buffer = buffer_of(o, number);
    event_record(&buffer->used, stream);
    event_wait(&buffer->used, &o->stream);
    move(o, number, slot, true);
}

void offload_await_sent(struct offload *o, struct stream *stream)
{
    event_wait(&buffer_of(o, o->count - 1)->moved, stream);
}

void offload_fetch_last(struct offload *o, int slot, struct stream *stream)
{
    event_record(&o->started, stream);
    event_wait(&o->started, &o->stream);
    for (int number = o->count - 1; number >= 0 && number >= o->count - OFFLOAD_BUFFERS; number--)
        move(o, number, slot, false);
}

void offload_await_fetched(struct offload *o, int number, struct stream *stream)
{
    event_wait(&buffer_of(o, number)->moved, stream);
}

void offload_fetch_next(struct offload *o, int number, int slot, struct stream *stream)
{
    struct offload_buffer *buffer = buffer_of(o, number);
    if (number < OFFLOAD_BUFFERS)
        return;
    event_record(&buffer->used, stream);
    event_wait(&buffer->used, &o->stream);
    move(o, number - OFFLOAD_BUFFERS, slot, false);
}
