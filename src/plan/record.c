#include "plan/record.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

struct record_executor {
    struct executor base;
    struct executor *inner;
    struct plan_log log;
    bool enabled;
    struct stream *streams[STREAM_COUNT]; /* the last one with each id */
    /* One event per entry, used for entries that are records: the program's own events may be gone or recorded again by
     * the time of a replay. Kept between replays, since the inner executor makes their native parts only once. */
    struct event *events;
    int64_t event_count;
};

static struct record_executor *self(struct executor *executor)
{
    return (struct record_executor *)executor;
}

/* Returns whether calls are logged, and if so remembers the stream. */
static bool note(struct record_executor *record, struct stream *stream)
{
    if (record->enabled && stream->id >= 0 && stream->id < STREAM_COUNT) /* the log refuses other ids */
        record->streams[stream->id] = stream;
    return record->enabled;
}

static void record_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct record_executor *record = self(executor);
    if (note(record, stream))
        plan_log_launch(&record->log, stream, op, args);
    record->inner->class->launch(record->inner, stream, op, args);
}

static void *record_allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    struct executor *inner = self(executor)->inner;
    return inner->class->allocate(inner, bytes, kind);
}

static void record_release(struct executor *executor, void *memory, enum memory_kind kind)
{
    struct executor *inner = self(executor)->inner;
    inner->class->release(inner, memory, kind);
}

static void record_event_record(struct executor *executor, struct event *event, struct stream *stream)
{
    struct record_executor *record = self(executor);
    if (note(record, stream))
        plan_log_record(&record->log, stream, event);
    record->inner->class->event_record(record->inner, event, stream);
}

static void record_event_wait(struct executor *executor, struct event *event, struct stream *stream)
{
    struct record_executor *record = self(executor);
    if (note(record, stream))
        plan_log_wait(&record->log, stream, event);
    record->inner->class->event_wait(record->inner, event, stream);
}

static bool record_event_passed(struct executor *executor, struct event *event, bool wait)
{
    return event_passed(event, self(executor)->inner, wait);
}

static void record_synchronize(struct executor *executor, struct stream *stream)
{
    struct executor *inner = self(executor)->inner;
    inner->class->synchronize(inner, stream);
}

static int64_t record_workspace(struct executor *executor, enum op op, const void *args)
{
    struct executor *inner = self(executor)->inner;
    return inner->class->workspace(inner, op, args);
}

static void record_reserve(struct executor *executor, int stream, int64_t bytes)
{
    struct executor *inner = self(executor)->inner;
    inner->class->reserve(inner, stream, bytes);
    executor->workspace_bytes[stream] = inner->workspace_bytes[stream];
}

static void record_destroy(struct executor *executor)
{
    struct record_executor *record = self(executor);
    plan_log_clear(&record->log);
    memory_free(record->events);
    memory_free(record);
}

static const struct executor_class record_class = {
    .name = "record",
    .launch = record_launch,
    .allocate = record_allocate,
    .release = record_release,
    .event_record = record_event_record,
    .event_wait = record_event_wait,
    .event_passed = record_event_passed,
    .synchronize = record_synchronize,
    .workspace = record_workspace,
    .reserve = record_reserve,
    .destroy = record_destroy,
};

struct executor *record_executor_create(struct executor *inner)
{
    struct record_executor *record = memory_allocate(sizeof *record);
    record->base = *inner;
    record->base.class = &record_class;
    record->base.capture = NULL; /* replays of captured launches would bypass the log */
    record->inner = inner;
    record->enabled = true;
    return &record->base;
}

void record_enable(struct executor *executor, bool enabled)
{
    self(executor)->enabled = enabled;
}

const struct plan_log *record_executor_log(const struct executor *executor)
{
    return &((const struct record_executor *)executor)->log;
}

void record_clear(struct executor *executor)
{
    plan_log_clear(&self(executor)->log);
}

/* -- Replay ------------------------------------------------------------------------------------------------------ */

static void issue(struct record_executor *record, int64_t index, int64_t without)
{
    const struct plan_entry *entry = &record->log.entries[index];
    struct executor *inner = record->inner;
    struct stream *stream = record->streams[entry->stream];
    if (entry->kind == PLAN_LAUNCH) {
        inner->class->launch(inner, stream, entry->op, plan_log_args(&record->log, entry));
    } else if (entry->kind == PLAN_RECORD) {
        record->events[index].serial++;
        inner->class->event_record(inner, &record->events[index], stream);
    } else if (entry->record >= 0 && index != without) {
        inner->class->event_wait(inner, &record->events[entry->record], stream);
    }
}

/* The entries of a stream, in order. */
struct queue {
    int64_t *entries; /* [count], the first `next` of them issued */
    int64_t count, next;
};

/* Returns whether an entry at the head of its queue may be issued: a wait needs its record to be issued. */
static bool ready(const struct plan_log *log, int64_t index, int64_t without, const bool *issued)
{
    const struct plan_entry *entry = &log->entries[index];
    return entry->kind != PLAN_WAIT || entry->record < 0 || index == without || issued[entry->record];
}

/* Chooses one of the streams that may continue, with probability in proportion to pace; draw is uniform in [0, 1).
 * There always is one: of the remaining entries, the first of the log waits for none of the others. */
static int choose(const double *pace, const bool *may, double draw)
{
    double total = 0;
    for (int s = 0; s < STREAM_COUNT; s++)
        total += may[s] ? pace[s] : 0;
    int chosen = -1;
    draw *= total;
    for (int s = 0; s < STREAM_COUNT && (chosen < 0 || draw >= 0); s++) {
        if (may[s]) {
            chosen = s;
            draw -= pace[s];
        }
    }
    return chosen;
}

static void replay_random(struct record_executor *record, uint64_t seed, int64_t without)
{
    const struct plan_log *log = &record->log;
    struct random_key key = {seed, RANDOM_TEST, random_hash_name("record_replay")};
    uint64_t drawn = 0;
    struct queue queues[STREAM_COUNT] = {{0}};
    double pace[STREAM_COUNT];
    for (int s = 0; s < STREAM_COUNT; s++) {
        queues[s].entries = memory_allocate(log->count * (int64_t)sizeof *queues[s].entries);
        /* uneven speeds let a stream run as far ahead as events allow, which equal speeds would hardly ever do */
        double uniform = random_uniform(&key, drawn++);
        pace[s] = uniform * uniform * uniform + 1e-6;
    }
    for (int64_t i = 0; i < log->count; i++) {
        struct queue *queue = &queues[log->entries[i].stream];
        queue->entries[queue->count++] = i;
    }
    bool *issued = memory_allocate(log->count * (int64_t)sizeof *issued);
    for (int64_t done = 0; done < log->count; done++) {
        bool may[STREAM_COUNT];
        for (int s = 0; s < STREAM_COUNT; s++)
            may[s] = queues[s].next < queues[s].count && ready(log, queues[s].entries[queues[s].next], without, issued);
        struct queue *queue = &queues[choose(pace, may, random_uniform(&key, drawn++))];
        int64_t index = queue->entries[queue->next++];
        issue(record, index, without);
        issued[index] = true;
    }
    memory_free(issued);
    for (int s = 0; s < STREAM_COUNT; s++)
        memory_free(queues[s].entries);
}

void record_replay(struct executor *executor, enum record_order order, uint64_t seed, int64_t without)
{
    struct record_executor *record = self(executor);
    if (record->event_count < record->log.count) {
        memory_free(record->events);
        record->event_count = record->log.count;
        record->events = memory_allocate(record->event_count * (int64_t)sizeof *record->events);
    }
    if (order == RECORD_RANDOM) {
        replay_random(record, seed, without);
        return;
    }
    for (int64_t i = 0; i < record->log.count; i++)
        issue(record, i, without);
}
