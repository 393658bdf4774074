/* Estimates how long the launches of a log take when streams overlap. */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "plan/log.h"

/* alone: seconds that a launch takes alone on its stream. delay: seconds by which a launch on another stream delays
 * STREAM_COMPUTE, because it occupies the device's SMs or memory. */
struct launch_time {
    double alone, delay;
};
typedef struct launch_time timeline_cost(const void *self, int stream, enum op op, const void *args);

/* Returns the seconds from the first launch to the end of the last on any stream. A launch starts when the previous
 * launch of its stream has ended and the records that its stream waits for are reached. */
double timeline_seconds(const struct plan_log *log, timeline_cost *cost, const void *self);

#endif
