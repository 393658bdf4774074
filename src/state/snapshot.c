#include "state/snapshot.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "base/range.h"
#include "state/exchange.h"
#include "state/fetch.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_BYTES = 256 << 20,
    ALIGNMENT = 256,
    EXCHANGE_BYTES = 1 << 30 /* of all tensor ranks, 128 MiB of each of eight */
};

/* A part of the snapshot. With bf16 weights and remainders, the remainders are after the bf16 weights: the device only
 * copies bytes, and snapshot_visit joins them. */
struct snapshot_part {
    struct parameter_piece piece;
    int buffer;
    int64_t offset, low_offset; /* bytes, in the buffer */
    int64_t share;              /* index of its share, if columns of that are exchanged; else -1 */
};

struct snapshot_share {
    struct parameter_piece piece;
    int64_t first_part, part_count;
    struct parameter_slab exchanged; /* written as whole rows, by the rank that has received them */
};

struct snapshot_rows {
    struct fetched_elements elements;
    int64_t bytes;
    char *content; /* [bytes] */
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
    const struct rectangle *part = &piece->parameter->part;
    *(int64_t *)self += part_bytes(piece);
    if (part->cols < piece->parameter->cols) /* received rows are as much as sent columns, up to one row in turns */
        *(int64_t *)self += piece->slab.count * dtype_size(master_dtype(&piece->device));
    return ERROR_NONE;
}

int64_t snapshot_bytes(struct engine *engine)
{
    int64_t bytes = 0;
    piece_visit_share_parts(engine, PIECE_KINDS, add_bytes, &bytes);
    return bytes;
}

/* Appends an element of `size` bytes to an array that grows. */
static void *append(void **array, int64_t *count, int64_t *capacity, int64_t size)
{
    if (*count == *capacity) {
        *capacity = 2 * *capacity + 64;
        *array = memory_grow(*array, *capacity * size);
    }
    return (char *)*array + size * (*count)++;
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
    int64_t *used = &s->buffer_bytes[s->buffer_count - 1];
    struct snapshot_part *part = append((void **)&s->parts, &s->count, &s->capacity, sizeof *part);
    *part = (struct snapshot_part){.piece = *piece,
                                   .buffer = s->buffer_count - 1,
                                   .offset = *used,
                                   .low_offset = *used + bytes_of(&piece->device.value),
                                   .share = -1};
    *used += bytes;
    return ERROR_NONE;
}

/* Adds a share, which may be empty: other ranks' shares of the parameter are exchanged all the same. */
static int add_share(void *self, const struct parameter_piece *piece)
{
    struct snapshot *s = self;
    const int64_t first = s->count;
    piece_split(piece, add_part, s);
    if (!exchange_needed(s->comm, piece->parameter))
        return ERROR_NONE;
    for (int64_t i = first; i < s->count; i++)
        s->parts[i].share = s->share_count;
    struct snapshot_share *share = append((void **)&s->shares, &s->share_count, &s->share_capacity, sizeof *share);
    *share = (struct snapshot_share){*piece, first, s->count - first, {piece->slab.first, 0}};
    return ERROR_NONE;
}

/* -- Memory ------------------------------------------------------------------------------------------------------ */

void snapshot_create(struct snapshot *s, struct engine *engine)
{
    *s = (struct snapshot){.engine = engine, .comm = engine->settings.tensor, .exchange_bytes = EXCHANGE_BYTES};
    piece_visit_shares(engine, PIECE_KINDS, add_share, s);
    s->buffers = memory_allocate(s->buffer_count * (int64_t)sizeof *s->buffers);
}

void snapshot_destroy(struct snapshot *s)
{
    for (int i = 0; i < s->grown; i++)
        s->engine->executor->class->release(s->engine->executor, s->buffers[i], MEMORY_HOST);
    for (int64_t i = 0; i < s->rows_allocated; i++)
        memory_free(s->rows[i].content);
    memory_free(s->buffers);
    free(s->rows);
    free(s->shares);
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
    for (int64_t i = 0; i < s->share_count; i++)
        s->shares[i].exchanged = (struct parameter_slab){s->shares[i].piece.slab.first, 0};
    s->shares_exchanged = s->rows_count = 0;
}

bool snapshot_taken(struct snapshot *s, bool wait)
{
    return event_passed(&s->engine->copied, s->engine->executor, wait);
}

static bool is_joined(const struct snapshot_part *part)
{
    return part->piece.device.value.dtype != DTYPE_BF16;
}

/* Writes `count` elements of a part, from element `first` of the part on, as numbers of master_dtype. */
static void read_part(const struct snapshot *s, const struct snapshot_part *part, int64_t first, int64_t count,
                      char *out)
{
    const char *value = s->buffers[part->buffer] + part->offset, *rest = s->buffers[part->buffer] + part->low_offset;
    if (is_joined(part)) {
        const int64_t width = dtype_size(part->piece.device.value.dtype);
        memcpy(out, value + first * width, (size_t)(count * width));
        return;
    }
    const uint16_t *high = (const uint16_t *)value + first;
    const int16_t *low = (const int16_t *)rest + first;
    const bool whole = !tensor_present(&part->piece.device.low);
    for (int64_t i = 0; i < count; i++)
        ((float *)out)[i] = whole ? bf16_to_f32(high[i]) : f32_joined(high[i], low[i]);
}

/* -- Exchange of columns ------------------------------------------------------------------------------------------ */

/* As exchange_source.read, from the parts of the share whose turn it is. */
static void read_share(void *self, const struct parameter_piece *piece, char *to)
{
    const struct snapshot *s = self;
    const struct snapshot_share *share = &s->shares[s->shares_exchanged];
    const int64_t width = dtype_size(piece_dtype(s->engine));
    for (int64_t i = share->first_part; i < share->first_part + share->part_count; i++) {
        const struct snapshot_part *part = &s->parts[i];
        const struct parameter_slab common = slab_common(part->piece.slab, piece->slab);
        if (common.count > 0)
            read_part(s, part, common.first - part->piece.slab.first, common.count,
                      to + (common.first - piece->slab.first) * width);
    }
}

static void nothing(void *self)
{
    (void)self;
}

/* Keeps received rows. A snapshot that was taken before has their memory, since the rows are the same each time. */
static int keep_rows(void *self, const struct fetched_elements *fetched, const void *content)
{
    struct snapshot *s = self;
    const int64_t bytes = fetched->run.count * dtype_size(fetched->dtype);
    if (s->rows_count == s->rows_allocated) {
        struct snapshot_rows *added = append((void **)&s->rows, &s->rows_allocated, &s->rows_capacity, sizeof *added);
        *added = (struct snapshot_rows){.bytes = bytes, .content = memory_allocate(bytes)};
    }
    struct snapshot_rows *rows = &s->rows[s->rows_count++];
    CHECK_BUG(rows->bytes == bytes);
    rows->elements = *fetched;
    memcpy(rows->content, content, (size_t)bytes);
    return ERROR_NONE;
}

static void exchange_shares(struct snapshot *s, int64_t most)
{
    const struct exchange_source source = {s, read_share, nothing};
    const double start = clock_seconds();
    char *sent = memory_allocate(PIECE_BYTES);
    struct state_exchange exchange;
    exchange_create(&exchange, &source, sent, piece_dtype(s->engine), s->comm);
    for (int64_t done = 0; s->shares_exchanged < s->share_count && done < most; s->shares_exchanged++) {
        struct snapshot_share *share = &s->shares[s->shares_exchanged];
        const struct parameter *p = share->piece.parameter;
        int code = ERROR_NONE;
        share->exchanged = exchange_rows(&exchange, &share->piece, keep_rows, s, &code);
        done += share->exchanged.count / p->part.cols * p->cols * dtype_size(piece_dtype(s->engine));
    }
    exchange_destroy(&exchange);
    memory_free(sent);
    s->exchange_seconds += clock_seconds() - start;
}

bool snapshot_complete(struct snapshot *s, bool wait)
{
    const bool taken = snapshot_taken(s, wait);
    if (s->share_count == 0)
        return taken;
    if (comm_max_i64(s->comm, !taken) > 0)
        return false;
    exchange_shares(s, wait ? INT64_MAX : s->exchange_bytes);
    return s->shares_exchanged == s->share_count;
}

/* -- Visit -------------------------------------------------------------------------------------------------------- */

/* Visits elements first .. end - 1 of the part's slab. */
static int visit_elements(const struct snapshot_part *part, const char *content, int64_t first, int64_t end,
                          fetch_visit *visit, void *self)
{
    const int64_t skipped = (first - part->piece.slab.first) * dtype_size(master_dtype(&part->piece.device));
    int64_t visited = 0;
    if (first >= end)
        return ERROR_NONE;
    const struct parameter_piece piece = piece_part(&part->piece, (struct parameter_slab){first, end - first});
    return fetch_visit_runs(&piece, content + skipped, &visited, visit, self);
}

/* Visits a part, without the elements that are exchanged for whole rows. */
static int visit_part(const struct snapshot *s, const struct snapshot_part *part, char *joined, fetch_visit *visit,
                      void *self)
{
    const struct parameter_slab slab = part->piece.slab;
    const struct parameter_slab exchanged =
        part->share < 0 ? (struct parameter_slab){slab.first, 0} : s->shares[part->share].exchanged;
    const int64_t end = slab.first + slab.count, exchanged_end = exchanged.first + exchanged.count;
    const char *content = s->buffers[part->buffer] + part->offset;
    if (exchanged.first <= slab.first && exchanged_end >= end)
        return ERROR_NONE;
    if (!is_joined(part)) {
        read_part(s, part, 0, slab.count, joined);
        content = joined;
    }
    int code = visit_elements(part, content, slab.first, MIN(end, exchanged.first), visit, self);
    if (code == ERROR_NONE)
        code = visit_elements(part, content, MAX(slab.first, exchanged_end), end, visit, self);
    return code;
}

int snapshot_visit(const struct snapshot *s, fetch_visit *visit, void *self)
{
    char *joined = memory_allocate(PIECE_BYTES);
    int code = ERROR_NONE;
    for (int64_t i = 0; i < s->count && code == ERROR_NONE; i++)
        code = visit_part(s, &s->parts[i], joined, visit, self);
    for (int64_t i = 0; i < s->rows_count && code == ERROR_NONE; i++)
        code = visit(self, &s->rows[i].elements, s->rows[i].content);
    memory_free(joined);
    return code;
}
