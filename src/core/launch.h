/* The door: all device work and every collective goes through launch(). So argument checks, timing and the flight
 * recorder are written once, for every executor. */
#ifndef CORE_LAUNCH_H
#define CORE_LAUNCH_H

#include "core/executor.h"

#include <stdio.h>

/* Runs an op on a stream. args points to the op's struct *_args. Fatal on any failure. */
void launch(struct stream *stream, enum op op, const void *args);

/* launch with named arguments: LAUNCH(stream, GEMM, gemm, .a = x, .b = w, ...) */
#define LAUNCH(stream, OP, name, ...) launch((stream), OP_##OP, &(struct name##_args){__VA_ARGS__})

/* For executors: a collective, by its group's table. Fatal when op is none, or its arguments are wrong (op_check). */
void launch_collective(struct stream *stream, enum op op, const void *args);

/* Runs a recording of the stream's executor. Its launches do not come through here, so the flight recorder has one
 * entry for all of them: `name` ("replay forward"; a string that stays valid) and the micro-batch's slot. */
void launch_replay(struct stream *stream, void *recording, const char *name, int slot);

/* Names what is launched from here to the matching launch_range_end, for profilers (NVTX). */
void launch_range(struct stream *stream, const char *name);
void launch_range_end(struct stream *stream);

void stream_synchronize(struct stream *stream);
void event_record(struct event *event, struct stream *stream);
void event_wait(struct event *event, struct stream *stream);
/* Has the stream passed the event's last record? True where there is none. With `wait`: returns true once it has. */
bool event_passed(struct event *event, struct executor *executor, bool wait);

/* Seconds spent and calls made per op by this process, since start (meaningful where launches are synchronous). */
struct launch_timer {
    int64_t calls;
    double seconds;
};
const struct launch_timer *launch_timers(void); /* OP_COUNT of them */

/* The flight recorder: the last launches and replays of this process, oldest first, one line each. */
void launch_dump(FILE *file);

#endif
