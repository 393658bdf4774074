#include "plan/race.h"
#include "base/memory.h"
#include "plan/order.h"

#include <stdlib.h>

/* An access to a tensor by a launch. */
struct touch {
    struct plan_region region;
    int64_t entry;
    int field;
    int stream;
    int64_t island;   /* regions of different islands do not overlap */
    int64_t previous; /* the previous touch of the same island and stream; -1 = none */
};

struct touches {
    struct touch *all;
    int64_t count, islands;
};

static int by_address(const void *left, const void *right)
{
    const struct touch *a = *(const struct touch *const *)left, *b = *(const struct touch *const *)right;
    return a->region.base < b->region.base ? -1 : a->region.base > b->region.base;
}

/* Numbers the islands, the connected components of all accessed bytes. Launches on different buffers are thus never
 * compared, without any knowledge of buffers. */
static void find_islands(struct touches *touches)
{
    struct touch **sorted = memory_allocate(touches->count * (int64_t)sizeof *sorted);
    for (int64_t i = 0; i < touches->count; i++)
        sorted[i] = &touches->all[i];
    if (touches->count > 0)
        qsort(sorted, (size_t)touches->count, sizeof *sorted, by_address);
    uintptr_t end = 0;
    for (int64_t i = 0; i < touches->count; i++) {
        if (sorted[i]->region.base >= end)
            touches->islands++;
        sorted[i]->island = touches->islands - 1;
        if (plan_region_end(&sorted[i]->region) > end)
            end = plan_region_end(&sorted[i]->region);
    }
    memory_free(sorted);
}

static struct touches collect(const struct plan_log *log)
{
    int64_t capacity = 0;
    for (struct plan_touch at = {.log = log}; plan_touch_next(&at);)
        capacity++;
    struct touches touches = {.all = memory_allocate(capacity * (int64_t)sizeof *touches.all)};
    for (struct plan_touch at = {.log = log}; plan_touch_next(&at);)
        touches.all[touches.count++] = (struct touch){
            .region = at.region, .entry = at.entry, .field = at.field, .stream = log->entries[at.entry].stream};
    find_islands(&touches);
    return touches;
}

struct race_verdict {
    const struct plan_log *log;
    struct launch_race *out;
    int64_t max, found;
};

static void report(struct race_verdict *verdict, const struct touch *a, const struct touch *b)
{
    enum op first = verdict->log->entries[a->entry].op, second = verdict->log->entries[b->entry].op;
    if (verdict->found < verdict->max)
        verdict->out[verdict->found] = (struct launch_race){
            {a->entry, first, a->stream, op_info(first)->fields[a->field].name, a->region.access},
            {b->entry, second, b->stream, op_info(second)->fields[b->field].name, b->region.access},
        };
    verdict->found++;
}

/* Compares a touch with the touches of another stream, from the latest back to the first that is ordered before it.
 * Entries decrease along the list, so all further ones are ordered too. */
static void compare(struct race_verdict *verdict, const struct touch *all, int64_t latest, const struct touch *b,
                    int64_t known)
{
    for (int64_t i = latest; i >= 0 && all[i].entry > known; i = all[i].previous) {
        const struct touch *a = &all[i];
        if (((a->region.access | b->region.access) & OP_WRITE) && plan_region_overlap(&a->region, &b->region))
            report(verdict, a, b);
    }
}

int64_t race_check(const struct plan_log *log, int64_t without, struct launch_race *out, int max)
{
    struct touches touches = collect(log);
    /* latest[island * STREAM_COUNT + stream]: head of a list, latest touch first */
    int64_t *latest = memory_allocate(touches.islands * STREAM_COUNT * (int64_t)sizeof *latest);
    for (int64_t i = 0; i < touches.islands * STREAM_COUNT; i++)
        latest[i] = -1;
    struct launch_order order;
    order_create(&order, log, without);
    struct race_verdict verdict = {log, out, max, 0};
    for (int64_t next = 0; next < touches.count; next++) {
        struct touch *b = &touches.all[next];
        int64_t *heads = &latest[b->island * STREAM_COUNT];
        for (int t = 0; t < STREAM_COUNT; t++)
            if (t != b->stream)
                compare(&verdict, touches.all, heads[t], b, order.before[b->entry].known[t]);
        b->previous = heads[b->stream];
        heads[b->stream] = next;
    }
    order_destroy(&order);
    memory_free(latest);
    memory_free(touches.all);
    return verdict.found;
}

static const char *access_name(int access)
{
    return access == OP_READ ? "reads" : access == OP_WRITE ? "writes" : "updates";
}

char *race_describe(const struct launch_race *race)
{
    return memory_format("launch %lld (%s on stream %d) %s %s while launch %lld (%s on stream %d) %s %s: no event "
                         "orders them",
                         (long long)race->first.entry, op_info(race->first.op)->name, race->first.stream,
                         access_name(race->first.access), race->first.field, (long long)race->second.entry,
                         op_info(race->second.op)->name, race->second.stream, access_name(race->second.access),
                         race->second.field);
}
