/* How long the launches of a log take, where streams run side by side. */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "plan/log.h"

/* Seconds that a launch takes alone on its stream. */
typedef double timeline_cost(const void *self, int stream, enum op op, const void *args);

/* Seconds from the first launch to the end of the last, on whatever stream. A launch starts when the one before it on
 * its stream has ended, and the records that its stream has waited for were reached; streams do not slow each other
 * down. */
double timeline_seconds(const struct plan_log *log, timeline_cost *cost, const void *self);

#endif
