#include "plan/lifetime.h"
#include "base/memory.h"
#include "base/range.h"
#include "plan/order.h"

#include <stdlib.h>
#include <string.h>

/* -- Lifetimes --------------------------------------------------------------------------------------------------- */

static int by_base(const void *left, const void *right)
{
    const struct lifetime *a = *(const struct lifetime *const *)left, *b = *(const struct lifetime *const *)right;
    return (uintptr_t)a->base < (uintptr_t)b->base ? -1 : (uintptr_t)a->base > (uintptr_t)b->base;
}

/* A log, its order, and the compute stream's launches. */
struct timescale {
    const struct plan_log *log;
    struct launch_order order;
    int64_t *launches; /* entries of the compute stream's launches, in order, [launch_count] */
    int64_t launch_count;
};

static struct timescale timescale_create(const struct plan_log *log)
{
    struct timescale t = {.log = log, .launches = memory_allocate((log->count + 1) * (int64_t)sizeof *t.launches)};
    order_create(&t.order, log, -1);
    for (int64_t i = 0; i < log->count; i++)
        if (log->entries[i].kind == PLAN_LAUNCH && log->entries[i].stream == STREAM_COMPUTE)
            t.launches[t.launch_count++] = i;
    return t;
}

static void timescale_destroy(struct timescale *t)
{
    order_destroy(&t->order);
    memory_free(t->launches);
}

/* Returns the first launch of the compute stream that is ordered after an entry of another stream; log->count: only the
 * log's end is; -1: nothing is. */
static int64_t launch_after(const struct timescale *t, int64_t entry)
{
    const int stream = t->log->entries[entry].stream;
    int64_t low = 0, high = t->launch_count; /* binary search: known grows from launch to launch */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (t->order.before[t->launches[middle]].known[stream] >= entry)
            high = middle;
        else
            low = middle + 1;
    }
    if (low < t->launch_count)
        return t->launches[low];
    return t->order.end.known[stream] >= entry ? t->log->count : -1;
}

/* Extends a lifetime by an access. Launches of the compute stream are even moments; other streams use the odd ones. */
static void extend(const struct timescale *t, struct lifetime *buffer, int64_t entry)
{
    int64_t from = 2 * entry, until = 2 * entry;
    if (t->log->entries[entry].stream != STREAM_COMPUTE) {
        const int64_t before = t->order.before[entry].known[STREAM_COMPUTE], after = launch_after(t, entry);
        buffer->pinned |= before == ORDER_NONE || after < 0;
        from = before == ORDER_NONE ? -1 : 2 * before + 1;
        until = 2 * (after < 0 ? t->log->count : after) - 1;
    }
    buffer->from = buffer->first < 0 || from < buffer->from ? from : buffer->from;
    buffer->until = buffer->first < 0 || until > buffer->until ? until : buffer->until;
    buffer->first = buffer->first < 0 ? entry : buffer->first;
    buffer->last = entry;
}

/* Extends the lifetimes of all buffers that a region of an entry overlaps. `sorted` is in order of address. */
static void note_region(const struct timescale *t, struct lifetime *const *sorted, int64_t count,
                        const struct plan_region *region, int64_t entry)
{
    int64_t low = 0, high = count; /* the first buffer that ends after the region's first byte */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if ((uintptr_t)sorted[middle]->base + (uintptr_t)sorted[middle]->bytes > region->base)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < count && (uintptr_t)sorted[low]->base < plan_region_end(region); low++) {
        struct plan_region window = plan_region_bytes(sorted[low]->base, sorted[low]->bytes);
        if (plan_region_overlap(region, &window))
            extend(t, sorted[low], entry);
    }
}

static void find_lifetimes(const struct plan_log *log, struct lifetime *buffers, int64_t count)
{
    struct lifetime **sorted = memory_allocate(count * (int64_t)sizeof *sorted);
    struct timescale t = timescale_create(log);
    for (int64_t i = 0; i < count; i++) {
        buffers[i].first = buffers[i].last = -1;
        buffers[i].from = buffers[i].until = 0;
        buffers[i].pinned = false;
        buffers[i].offset = 0;
        sorted[i] = &buffers[i];
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_base);
    struct plan_touch touch = {.log = log};
    while (plan_touch_next(&touch))
        note_region(&t, sorted, count, &touch.region, touch.entry);
    timescale_destroy(&t);
    memory_free(sorted);
}

/* -- Placement --------------------------------------------------------------------------------------------------- */

static int64_t rounded(const struct lifetime *buffer)
{
    return (buffer->bytes + LIFETIME_ALIGNMENT - 1) / LIFETIME_ALIGNMENT * LIFETIME_ALIGNMENT;
}

static int by_size(const void *left, const void *right)
{
    const struct lifetime *a = *(const struct lifetime *const *)left, *b = *(const struct lifetime *const *)right;
    if (rounded(a) != rounded(b))
        return rounded(a) > rounded(b) ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int64_t lower_bound(const struct plan_log *log, struct lifetime *const *used, int64_t count)
{
    const int64_t moments = 2 * log->count + 1; /* moments begin at -1 */
    int64_t *change = memory_allocate((moments + 1) * (int64_t)sizeof *change);
    for (int64_t i = 0; i < count; i++) {
        change[used[i]->from + 1] += rounded(used[i]);
        change[used[i]->until + 2] -= rounded(used[i]);
    }
    int64_t alive = 0, most = 0;
    for (int64_t i = 0; i <= moments; i++) {
        alive += change[i];
        most = MAX(alive, most);
    }
    memory_free(change);
    return most;
}

/* All used buffers, ordered by their first moment, as an implicit search tree: the root is the middle one, and so on in
 * both halves. It finds the buffers that live at the same time as another one without looking at all buffers. */
struct timeline {
    struct lifetime **sorted;
    int64_t *last; /* for each node: the largest `until` of its subtree */
    int64_t count;
    struct lifetime **found; /* [count] */
    int64_t found_count;
};

static int by_first(const void *left, const void *right)
{
    const struct lifetime *a = *(const struct lifetime *const *)left, *b = *(const struct lifetime *const *)right;
    return a->from != b->from ? (a->from < b->from ? -1 : 1) : (a > b) - (a < b);
}

static int by_offset(const void *left, const void *right)
{
    const struct lifetime *a = *(const struct lifetime *const *)left, *b = *(const struct lifetime *const *)right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int64_t fill_last(struct timeline *t, int64_t low, int64_t high)
{
    if (low == high)
        return -2; /* earlier than all moments */
    const int64_t middle = (low + high) / 2, left = fill_last(t, low, middle), right = fill_last(t, middle + 1, high);
    int64_t last = t->sorted[middle]->until;
    last = MAX(left, last);
    return t->last[middle] = MAX(right, last);
}

static struct timeline timeline_create(struct lifetime *const *buffers, int64_t count)
{
    const int64_t bytes = count * (int64_t)sizeof *buffers;
    struct timeline t = {.sorted = memory_allocate(bytes),
                         .last = memory_allocate(count * (int64_t)sizeof *t.last),
                         .count = count,
                         .found = memory_allocate(bytes)};
    if (count > 0) {
        memcpy(t.sorted, buffers, (size_t)bytes);
        qsort(t.sorted, (size_t)count, sizeof *t.sorted, by_first);
    }
    fill_last(&t, 0, count);
    return t;
}

static void timeline_destroy(struct timeline *t)
{
    memory_free(t->sorted);
    memory_free(t->last);
    memory_free(t->found);
}

/* Adds to `found` the placed buffers of sorted[low] .. sorted[high - 1] whose lifetimes overlap that of `buffer`. */
static void find_neighbours(struct timeline *t, int64_t low, int64_t high, const struct lifetime *buffer)
{
    const int64_t middle = (low + high) / 2;
    if (low == high || t->last[middle] < buffer->from)
        return;
    struct lifetime *own = t->sorted[middle];
    find_neighbours(t, low, middle, buffer);
    if (own->from > buffer->until)
        return;
    if (own->offset >= 0 && own->until >= buffer->from)
        t->found[t->found_count++] = own;
    find_neighbours(t, middle + 1, high, buffer);
}

/* Returns the lowest offset at which the buffer fits among the placed ones. */
static int64_t first_fit(struct timeline *t, const struct lifetime *buffer)
{
    int64_t offset = 0;
    t->found_count = 0;
    find_neighbours(t, 0, t->count, buffer);
    qsort(t->found, (size_t)t->found_count, sizeof *t->found, by_offset);
    for (int64_t i = 0; i < t->found_count && t->found[i]->offset - offset < rounded(buffer); i++) {
        int64_t end = t->found[i]->offset + rounded(t->found[i]);
        offset = MAX(end, offset);
    }
    return offset;
}

struct lifetime_arena lifetime_plan(const struct plan_log *log, struct lifetime *buffers, int64_t count)
{
    struct lifetime_arena arena = {0};
    if (count == 0)
        return arena;
    find_lifetimes(log, buffers, count);
    struct lifetime **order = memory_allocate(count * (int64_t)sizeof *order);
    int64_t used = 0;
    for (int64_t i = 0; i < count; i++)
        if (buffers[i].first >= 0) {
            buffers[i].offset = -1; /* not placed yet */
            order[used++] = &buffers[i];
            arena.pinned += buffers[i].pinned;
        }
    arena.lower_bound = lower_bound(log, order, used);
    struct timeline t = timeline_create(order, used);
    /* largest first: small buffers fill the gaps between large ones */
    qsort(order, (size_t)used, sizeof *order, by_size);
    for (int64_t i = 0; i < used; i++) {
        struct lifetime *buffer = order[i];
        buffer->offset = first_fit(&t, buffer);
        if (buffer->offset + rounded(buffer) > arena.bytes)
            arena.bytes = buffer->offset + rounded(buffer);
    }
    timeline_destroy(&t);
    memory_free(order);
    return arena;
}
