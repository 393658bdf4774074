/* How long the launches of a log take, where streams run side by side. */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "plan/log.h"

/* Seconds that a launch takes alone on its stream, and those for which it has the device's multiprocessors or memory to
 * itself: beside STREAM_COMPUTE it takes them from what computes. */
struct launch_time {
    double alone, taken;
};
typedef struct launch_time timeline_cost(const void *self, int stream, enum op op, const void *args);

/* Seconds from the first launch to the end of the last, on whatever stream. A launch starts when the one before it on
 * its stream has ended, and the records that its stream has waited for were reached. */
double timeline_seconds(const struct plan_log *log, timeline_cost *cost, const void *self);

#endif
