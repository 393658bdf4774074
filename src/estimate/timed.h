/* Times repeated launches, for measurements of a machine. */
#ifndef ESTIMATE_TIMED_H
#define ESTIMATE_TIMED_H

#include "core/launch.h"

/* Launches an op `times` times on a stream that is idle before, and returns the seconds that all of them took, by the
 * device's clock if the executor has one (executor_profiling). A collective is collective over its group. */
double timed_launches(struct stream *stream, enum op op, const void *args, int64_t times);

#endif
