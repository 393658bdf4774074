#include "ref/late.h"
#include "ref/capture.h"
#include "ref/wrapper.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* A launch, or a position that an event or a stamp marks. */
struct entry {
    enum op op;
    int stream;
    void *args;          /* owned by the entry's list; NULL: a mark */
    struct event *event; /* for a mark */
    uint64_t serial;
    int stamp; /* number of the stamp + 1; 0: none */
};

struct list {
    struct entry *entries;
    int64_t count, capacity;
};

struct late {
    struct wrapper wrapper; /* first, so that a pointer to it is a pointer to this */
    struct executor_class class;
    struct list queue;
    struct list *recording; /* the capture in progress; NULL: launches go to the queue */
    struct capture capture; /* rules of the capture in progress */
    int64_t replays;
    int64_t launched; /* number of launches that have run: this device's clock */
    int64_t stamps[STAMP_PROFILE];
};

static void append(struct list *list, struct entry entry)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->entries = memory_grow(list->entries, (int64_t)sizeof *list->entries * list->capacity);
    }
    list->entries[list->count++] = entry;
}

static void *copy_of(enum op op, const void *args)
{
    size_t bytes = op_info(op)->args_bytes;
    return memcpy(memory_allocate((int64_t)bytes), args, bytes);
}

static void enqueue(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct late *late = (struct late *)wrapper;
    capture_launches(&late->capture, stream->id);
    append(late->recording != NULL ? late->recording : &late->queue,
           (struct entry){op, stream->id, copy_of(op, args), NULL, 0, 0});
}

static void run(struct late *late, int64_t count)
{
    struct list *queue = &late->queue;
    for (int64_t i = 0; i < count; i++) {
        struct entry *e = &queue->entries[i];
        if (e->args != NULL)
            wrapper_pass(&late->wrapper, &(struct stream){NULL, e->stream, NULL}, e->op, e->args);
        late->launched += e->args != NULL;
        if (e->stamp > 0)
            late->stamps[e->stamp - 1] = late->launched;
        memory_free(e->args);
    }
    queue->count -= count;
    memmove(queue->entries, queue->entries + count, sizeof *queue->entries * (size_t)queue->count);
}

static void event_is_recorded(struct executor *executor, struct event *event, struct stream *stream)
{
    struct late *late = (struct late *)executor;
    capture_records(&late->capture, event, stream->id);
    append(late->recording != NULL ? late->recording : &late->queue,
           (struct entry){OP_COUNT, stream->id, NULL, event, event->serial, 0});
}

/* Appends a stamp; captures must not contain stamps. */
static void stamp(struct executor *executor, struct stream *stream, int64_t number)
{
    struct late *late = (struct late *)executor;
    CHECK_BUG(late->recording == NULL && number < STAMP_PROFILE);
    append(&late->queue, (struct entry){OP_COUNT, stream->id, NULL, NULL, 0, (int)number + 1});
}

static double stamp_seconds(struct executor *executor, int64_t from, int64_t to)
{
    const struct late *late = (const struct late *)executor;
    for (int64_t i = 0; i < late->queue.count; i++)
        CHECK_BUG(late->queue.entries[i].stamp != from + 1 && late->queue.entries[i].stamp != to + 1);
    return (double)(late->stamps[to] - late->stamps[from]);
}

static void no_watch(struct executor *executor, bool begin)
{
    (void)executor, (void)begin;
}

static void no_range(struct executor *executor, const char *name)
{
    (void)executor, (void)name;
}

/* Checks the rules of capture. The queue is in order, so there is nothing to wait for. */
static void event_is_waited_for(struct executor *executor, struct event *event, struct stream *stream)
{
    capture_waits(&((struct late *)executor)->capture, event, stream->id);
}

static bool event_is_past(struct executor *executor, struct event *event, bool wait)
{
    struct late *late = (struct late *)executor;
    for (int64_t i = 0; i < late->queue.count; i++) {
        const struct entry *e = &late->queue.entries[i];
        if (e->event == event && e->serial == event->serial) {
            if (wait)
                run(late, i + 1);
            return wait;
        }
    }
    return true;
}

static void synchronize(struct executor *executor, struct stream *stream)
{
    (void)stream;
    run((struct late *)executor, ((struct late *)executor)->queue.count);
}

static void capture_begin(struct executor *executor, struct stream *stream)
{
    struct late *late = (struct late *)executor;
    late->recording = memory_allocate(sizeof(struct list));
    capture_opens(&late->capture, stream->id);
}

static void *capture_end(struct executor *executor, struct stream *stream)
{
    (void)stream;
    struct late *late = (struct late *)executor;
    struct list *recording = late->recording;
    capture_closes(&late->capture);
    late->recording = NULL;
    return recording;
}

static void replay(struct executor *executor, struct stream *stream, void *recording)
{
    (void)stream;
    struct late *late = (struct late *)executor;
    const struct list *list = recording;
    for (int64_t i = 0; i < list->count; i++) {
        struct entry entry = list->entries[i];
        if (entry.args != NULL)
            entry.args = copy_of(entry.op, entry.args);
        append(&late->queue, entry);
    }
    late->replays++;
}

static void discard(struct executor *executor, void *recording)
{
    (void)executor;
    struct list *list = recording;
    for (int64_t i = 0; i < list->count; i++)
        memory_free(list->entries[i].args);
    free(list->entries);
    memory_free(list);
}

static void destroy(struct executor *executor)
{
    struct late *late = (struct late *)executor;
    run(late, late->queue.count);
    free(late->queue.entries);
    capture_destroy(&late->capture);
    memory_free(late);
}

struct executor *late_executor_create(struct executor *inner)
{
    static const struct executor_capture capture = {
        .begin = capture_begin, .end = capture_end, .replay = replay, .discard = discard};
    static const struct executor_profiling profiling = {
        .stamp = stamp, .stamp_seconds = stamp_seconds, .watch = no_watch, .range = no_range};
    struct late *late = memory_allocate(sizeof *late);
    wrapper_create(&late->wrapper, inner, enqueue, NULL);
    late->class = *late->wrapper.executor.class;
    late->class.name = "late";
    late->class.event_record = event_is_recorded;
    late->class.event_wait = event_is_waited_for;
    late->class.event_passed = event_is_past;
    late->class.synchronize = synchronize;
    late->class.destroy = destroy;
    struct executor *executor = &late->wrapper.executor;
    executor->class = &late->class;
    executor->owner = executor;
    executor->capture = &capture;
    executor->profiling = &profiling;
    return executor;
}

int64_t late_replays(const struct executor *executor)
{
    return ((const struct late *)executor)->replays;
}
