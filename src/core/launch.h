/* Key header: launch() is the single entry point for device work and collectives. Argument checks, timing, profiling
 * and the flight recorder are therefore written once, for all executors. */
#ifndef CORE_LAUNCH_H
#define CORE_LAUNCH_H

#include "core/executor.h"

#include <stdio.h>

/* Launches an op on a stream. args points to the op's struct NAME_args (core/op.h), which is read before launch
 * returns. Whether the op has run when launch returns depends on the executor; streams and events order ops. A
 * collective op is collective over its group. Any failure is fatal (error_fatal). */
void launch(struct stream *stream, enum op op, const void *args);

/* Launches with named arguments: LAUNCH(stream, GEMM, gemm, .a = x, .b = w, ...). Omitted fields are zero. */
#define LAUNCH(stream, OP, name, ...) launch((stream), OP_##OP, &(struct name##_args){__VA_ARGS__})

/* For executors: runs a collective op by its group's table (core/group.h). Fatal when `op` is not a collective, or when
 * op_check finds a wrong argument. */
void launch_collective(struct stream *stream, enum op op, const void *args);

/* Replays what the stream's executor captured (`recording`, a CUDA graph). Its launches bypass launch(), so the flight
 * recorder gets one entry for all of them: `name` (such as "replay forward"; borrowed for the life of the process) and
 * the micro-batch's activation slot. */
void launch_replay(struct stream *stream, void *recording, const char *name, int slot);

/* Opens and closes a named range for profilers (NVTX). Ranges nest. */
void launch_range(struct stream *stream, const char *name);
void launch_range_end(struct stream *stream);

/* stream_synchronize blocks the host until all launches on the stream have run. event_record marks the stream's current
 * end; event_wait makes later launches on the stream wait for the event's last record, and does not block the host. */
void stream_synchronize(struct stream *stream);
void event_record(struct event *event, struct stream *stream);
void event_wait(struct event *event, struct stream *stream);
/* Returns whether the device has reached the event's last record; true if it was never recorded. With `wait`, blocks
 * until it has, and returns true. */
bool event_passed(struct event *event, struct executor *executor, bool wait);

/* Calls and host seconds of each op in this process since its start. Seconds are the op's time only where launches are
 * synchronous, as on the CPU executor. */
struct launch_timer {
    int64_t calls;
    double seconds;
};
const struct launch_timer *launch_timers(void); /* [OP_COUNT] */

/* Prints the flight recorder: the last launches and replays of this process, oldest first, one line each. */
void launch_dump(FILE *file);

#endif
