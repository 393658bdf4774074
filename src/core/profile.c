#include "core/profile.h"
#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>

struct profile_entry {
    int row, stream;
    enum op op;
    const struct group *group; /* NULL if not a collective */
    int64_t step, bytes;       /* bytes: of the result */
    double start, end;         /* host clock */
};

static struct {
    struct executor *executor; /* NULL: no profile */
    struct executor *last;     /* the executor of the last profile */
    int64_t step;
    bool follows;
    struct profile_entry *entries;
    int64_t count, capacity;
    struct profile_row *rows;
    int row_count, row_capacity;
} profile;

void profile_start(struct executor *executor)
{
    profile.count = profile.row_count = 0;
    profile.executor = profile.last = executor;
    if (executor->profiling != NULL)
        executor->profiling->watch(executor->owner, true);
}

void profile_step(int64_t step)
{
    profile.step = step;
}

void profile_follow(bool on)
{
    profile.follows = on;
}

bool profile_running(void)
{
    return profile.executor != NULL || profile.follows;
}

static int row_of(const struct profile_row *wanted)
{
    for (int i = 0; i < profile.row_count; i++) {
        const struct profile_row *row = &profile.rows[i];
        if (row->op == wanted->op && row->rows == wanted->rows && row->cols == wanted->cols &&
            row->flops == wanted->flops && row->bytes == wanted->bytes)
            return i;
    }
    if (profile.row_count == profile.row_capacity) {
        profile.row_capacity = profile.row_capacity ? 2 * profile.row_capacity : 64;
        profile.rows = memory_grow(profile.rows, (int64_t)sizeof *profile.rows * profile.row_capacity);
    }
    profile.rows[profile.row_count] = *wanted;
    return profile.row_count++;
}

/* Returns the largest tensor that the op writes; its first tensor if there is none. */
static const struct tensor *result_of(enum op op, const void *args)
{
    const struct tensor *result = NULL;
    for (int i = 0; i < op_info(op)->field_count; i++) {
        const struct tensor *t = op_tensor(op, args, i);
        if (tensor_present(t) && (op_field_access(op, args, i) & OP_WRITE) &&
            (result == NULL || tensor_count(t) > tensor_count(result)))
            result = t;
    }
    return result != NULL ? result : op_tensor(op, args, 0);
}

int64_t profile_enter(struct stream *stream, enum op op, const void *args, const struct group *group)
{
    if (profile.executor != stream->executor)
        return -1;
    if (profile.count == profile.capacity) {
        profile.capacity = profile.capacity ? 2 * profile.capacity : 4096;
        profile.entries = memory_grow(profile.entries, (int64_t)sizeof *profile.entries * profile.capacity);
    }
    const struct tensor *result = result_of(op, args);
    const struct profile_row row = {
        .op = op, .rows = result->rows, .cols = result->cols, .flops = op_flops(op, args), .bytes = op_bytes(op, args)};
    int64_t entry = profile.count++;
    profile.entries[entry] = (struct profile_entry){.row = row_of(&row),
                                                    .op = op,
                                                    .stream = stream->id,
                                                    .group = group,
                                                    .step = profile.step,
                                                    .bytes = tensor_count(result) * dtype_size(result->dtype),
                                                    .start = clock_seconds()};
    if (stream->executor->profiling != NULL)
        stream->executor->profiling->stamp(stream->executor->owner, stream, STAMP_PROFILE + 2 * entry);
    return entry;
}

void profile_leave(struct stream *stream, int64_t entry)
{
    if (entry < 0)
        return;
    profile.entries[entry].end = clock_seconds();
    if (stream->executor->profiling != NULL)
        stream->executor->profiling->stamp(stream->executor->owner, stream, STAMP_PROFILE + 2 * entry + 1);
}

/* Returns the seconds from the start of launch `from` to the start, or `end`, of launch `to`. */
static double seconds_to(int64_t from, int64_t to, bool end)
{
    const struct profile_entry *entry = &profile.entries[to];
    if (profile.last->profiling == NULL)
        return (end ? entry->end : entry->start) - profile.entries[from].start;
    return profile.last->profiling->stamp_seconds(profile.last->owner, STAMP_PROFILE + 2 * from,
                                                  STAMP_PROFILE + 2 * to + end);
}

struct profile_collective *profile_collectives(int64_t *count)
{
    struct profile_collective *found = memory_grow(NULL, (profile.count + 1) * (int64_t)sizeof *found);
    int64_t first = 0; /* first launch of the step */
    *count = 0;
    for (int64_t i = 0; i < profile.count; i++) {
        const struct profile_entry *entry = &profile.entries[i];
        if (entry->step != profile.entries[first].step)
            first = i;
        if (entry->group == NULL || entry->group->size == 1)
            continue;
        struct profile_collective one = {.step = entry->step,
                                         .group = entry->group,
                                         .op = entry->op,
                                         .stream = entry->stream,
                                         .bytes = entry->bytes,
                                         .start = seconds_to(first, i, false),
                                         .end = seconds_to(first, i, true)};
        for (int64_t k = *count - 1; k >= 0 && one.number == 0; k--)
            if (found[k].group == one.group)
                one.number = found[k].number + 1;
        found[(*count)++] = one;
    }
    return found;
}

static int by_time(const void *a, const void *b)
{
    double one = ((const struct profile_row *)a)->seconds, other = ((const struct profile_row *)b)->seconds;
    return (one < other) - (one > other);
}

const struct profile_row *profile_stop(int *count)
{
    struct executor *executor = profile.executor;
    for (int s = 0; s < STREAM_COUNT; s++)
        executor->class->synchronize(executor, &(struct stream){executor, s, NULL});
    for (int64_t i = 0; i < profile.count; i++) {
        const struct profile_entry *entry = &profile.entries[i];
        struct profile_row *row = &profile.rows[entry->row];
        row->calls++;
        row->seconds += seconds_to(i, i, true);
    }
    if (executor->profiling != NULL)
        executor->profiling->watch(executor->owner, false);
    profile.executor = NULL;
    if (profile.row_count > 0)
        qsort(profile.rows, (size_t)profile.row_count, sizeof *profile.rows, by_time);
    *count = profile.row_count;
    return profile.rows;
}
