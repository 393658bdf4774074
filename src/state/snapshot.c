#include "state/snapshot.h"
#include "base/error.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "state/fetch.h"

#include <stdlib.h>

enum { BUFFER_BYTES = 256 << 20, ALIGNMENT = 256 };

/* A part of the snapshot. With bf16 weights and remainders, the remainders are after the bf16 weights: the device only
 * copies bytes, and snapshot_visit joins them. */
struct snapshot_part {
    struct parameter_piece piece;
    int buffer;
    int64_t offset, low_offset; /* bytes, in the buffer */
};

/* -- Places ------------------------------------------------------------------------------------------------------ */

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t bytes_of(const struct tensor *x)
{
    return tensor_present(x) ? aligned(tensor_count(x) * dtype_size(x->dtype)) : 0;
}

static int64_t part_bytes(const struct parameter_piece *piece)
{
    return bytes_of(&piece->device.value) + bytes_of(&piece->device.low);
}

static int add_bytes(void *self, const struct parameter_piece *piece)
{
    *(int64_t *)self += part_bytes(piece);
    return ERROR_NONE;
}

int64_t snapshot_bytes(struct engine *engine)
{
    int64_t bytes = 0;
    piece_visit_share_parts(engine, PIECE_KINDS, add_bytes, &bytes);
    return bytes;
}

static void open_buffer(struct snapshot *s)
{
    s->buffer_bytes = memory_grow(s->buffer_bytes, (s->buffer_count + 1) * (int64_t)sizeof *s->buffer_bytes);
    s->buffer_bytes[s->buffer_count++] = 0;
}

static int add_part(void *self, const struct parameter_piece *piece)
{
    struct snapshot *s = self;
    const int64_t bytes = part_bytes(piece);
    if (s->buffer_count == 0 || s->buffer_bytes[s->buffer_count - 1] + bytes > BUFFER_BYTES)
        open_buffer(s);
    if (s->count == s->capacity) {
        s->capacity = 2 * s->capacity + 64;
        s->parts = memory_grow(s->parts, s->capacity * (int64_t)sizeof *s->parts);
    }
    int64_t *used = &s->buffer_bytes[s->buffer_count - 1];
    s->parts[s->count++] = (struct snapshot_part){.piece = *piece,
                                                  .buffer = s->buffer_count - 1,
                                                  .offset = *used,
                                                  .low_offset = *used + bytes_of(&piece->device.value)};
    *used += bytes;
    return ERROR_NONE;
}

/* -- Memory ------------------------------------------------------------------------------------------------------ */

void snapshot_create(struct snapshot *s, struct engine *engine)
{
    *s = (struct snapshot){.engine = engine};
    piece_visit_share_parts(engine, PIECE_KINDS, add_part, s);
    s->buffers = memory_allocate(s->buffer_count * (int64_t)sizeof *s->buffers);
}

void snapshot_destroy(struct snapshot *s)
{
    for (int i = 0; i < s->grown; i++)
        s->engine->executor->class->release(s->engine->executor, s->buffers[i], MEMORY_HOST);
    memory_free(s->buffers);
    free(s->buffer_bytes);
    free(s->parts);
    *s = (struct snapshot){0};
}

bool snapshot_grow(struct snapshot *s)
{
    struct executor *executor = s->engine->executor;
    if (s->grown == s->buffer_count)
        return false;
    s->buffers[s->grown] = executor->class->allocate(executor, s->buffer_bytes[s->grown], MEMORY_HOST);
    s->grown++;
    return true;
}

/* -- Content ----------------------------------------------------------------------------------------------------- */

static void copy_out(struct stream *stream, struct tensor from, char *to)
{
    if (tensor_present(&from))
        LAUNCH(stream, COPY, copy, .from = from, .to = tensor_vector(to, from.dtype, from.cols));
}

void snapshot_take(struct snapshot *s)
{
    struct engine *e = s->engine;
    struct stream *stream = &e->streams[STREAM_OFFLOAD];
    while (snapshot_grow(s))
        ;
    event_record(&s->written, &e->streams[STREAM_COMPUTE]);
    event_wait(&s->written, stream);
    for (int64_t i = 0; i < s->count; i++) {
        const struct snapshot_part *part = &s->parts[i];
        copy_out(stream, part->piece.device.value, s->buffers[part->buffer] + part->offset);
        copy_out(stream, part->piece.device.low, s->buffers[part->buffer] + part->low_offset);
    }
    event_record(&e->copied, stream);
}

bool snapshot_taken(struct snapshot *s, bool wait)
{
    return event_passed(&s->engine->copied, s->engine->executor, wait);
}

static void join(const struct snapshot *s, const struct snapshot_part *part, float *out)
{
    const uint16_t *high = (const void *)(s->buffers[part->buffer] + part->offset);
    const int16_t *low = (const void *)(s->buffers[part->buffer] + part->low_offset);
    const bool whole = !tensor_present(&part->piece.device.low);
    for (int64_t i = 0; i < part->piece.slab.count; i++)
        out[i] = whole ? bf16_to_f32(high[i]) : f32_joined(high[i], low[i]);
}

int snapshot_visit(const struct snapshot *s, fetch_visit *visit, void *self)
{
    float *joined = memory_allocate(PIECE_BYTES);
    int code = ERROR_NONE;
    for (int64_t i = 0; i < s->count && code == ERROR_NONE; i++) {
        const struct snapshot_part *part = &s->parts[i];
        const char *content = s->buffers[part->buffer] + part->offset;
        int64_t visited = 0;
        if (part->piece.device.value.dtype == DTYPE_BF16) {
            join(s, part, joined);
            content = (const char *)joined;
        }
        code = fetch_visit_runs(&part->piece, content, &visited, visit, self);
    }
    memory_free(joined);
    return code;
}
