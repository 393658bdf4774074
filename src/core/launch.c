#include "core/launch.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/profile.h"

enum { RECORDER_ENTRIES = 64 };

/* An entry of the flight recorder: a launch or replay. */
struct recorder_entry {
    const char *name; /* of the op or replay */
    int stream;
    bool replay;
    const char *group;  /* NULL if not a collective */
    int64_t rows, cols; /* of the first tensor */
    int slot;           /* of a replay */
};

static struct recorder_entry recorder[RECORDER_ENTRIES];
static int64_t launched;
static struct launch_timer timers[OP_COUNT];

static void check_args(enum op op, const void *args)
{
    const char *wrong = op_check(op, args);
    if (wrong != NULL)
        error_fatal("bug: launch of %s: %s", op_info(op)->name, wrong);
}

/* Checks arguments in every build: a group would misread numbers of a wrong type, and the check is cheap next to a
 * collective. */
void launch_collective(struct stream *stream, enum op op, const void *args)
{
    struct group *group = op_group(op, args);
    if (group != NULL)
        check_args(op, args);
    switch (op) {
#define X(NAME, name)                                                                                                  \
    case OP_##NAME:                                                                                                    \
        group->class->name(group, stream, args);                                                                       \
        return;
        OP_COLLECTIVE_TABLE(X)
#undef X
    default:
        error_fatal("no collective: op %d", (int)op);
    }
}

void launch(struct stream *stream, enum op op, const void *args)
{
#ifdef CISTRON_DEBUGGING_CHECKS
    check_args(op, args);
#endif
    const struct tensor *first = op_tensor(op, args, 0);
    const struct group *group = op_group(op, args);
    recorder[launched++ % RECORDER_ENTRIES] = (struct recorder_entry){.name = op_info(op)->name,
                                                                      .stream = stream->id,
                                                                      .group = group != NULL ? group->name : NULL,
                                                                      .rows = first->rows,
                                                                      .cols = first->cols};
    double start = clock_seconds();
    int64_t entry = profile_enter(stream, op, args, group);
    launch_range(stream, op_info(op)->name);
    stream->executor->class->launch(stream->executor, stream, op, args);
    launch_range_end(stream);
    profile_leave(stream, entry);
    timers[op].seconds += clock_seconds() - start;
    timers[op].calls++;
}

void launch_replay(struct stream *stream, void *recording, const char *name, int slot)
{
    recorder[launched++ % RECORDER_ENTRIES] =
        (struct recorder_entry){.name = name, .stream = stream->id, .replay = true, .slot = slot};
    stream->executor->capture->replay(stream->executor->owner, stream, recording);
}

void launch_range(struct stream *stream, const char *name)
{
    if (stream->executor->profiling != NULL)
        stream->executor->profiling->range(stream->executor->owner, name);
}

void launch_range_end(struct stream *stream)
{
    launch_range(stream, NULL);
}

void stream_synchronize(struct stream *stream)
{
    stream->executor->class->synchronize(stream->executor, stream);
}

void event_record(struct event *event, struct stream *stream)
{
    event->serial++;
    stream->executor->class->event_record(stream->executor, event, stream);
}

void event_wait(struct event *event, struct stream *stream)
{
    stream->executor->class->event_wait(stream->executor, event, stream);
}

bool event_passed(struct event *event, struct executor *executor, bool wait)
{
    if (event->serial == 0 || executor->class->event_passed == NULL)
        return true;
    return executor->class->event_passed(executor, event, wait);
}

const struct launch_timer *launch_timers(void)
{
    return timers;
}

void launch_dump(FILE *file)
{
    int64_t first = launched > RECORDER_ENTRIES ? launched - RECORDER_ENTRIES : 0;
    if (launched > 0)
        fprintf(file, "last launches of this process, oldest first:\n");
    for (int64_t i = first; i < launched; i++) {
        const struct recorder_entry *e = &recorder[i % RECORDER_ENTRIES];
        fprintf(file, "  %8lld stream %d %-18s ", (long long)i, e->stream, e->name);
        if (e->replay)
            fprintf(file, "slot %d\n", e->slot);
        else
            fprintf(file, "%lld x %lld%s%s\n", (long long)e->rows, (long long)e->cols, e->group ? " group " : "",
                    e->group ? e->group : "");
    }
}
