/* An executor that does what it is told later, as a GPU does: launches wait in a queue until somebody waits for them,
 * and can be recorded and replayed. What relies on being done at once shows on it. By the clock of this device, which
 * its stamps read, every launch takes a second. */
#ifndef TESTS_REF_LATE_H
#define TESTS_REF_LATE_H

#include "core/launch.h"

/* In front of `inner`, borrowed and synchronous; all streams are one queue. Free with class->destroy. */
struct executor *late_executor_create(struct executor *inner);

/* Recordings replayed so far. */
int64_t late_replays(const struct executor *executor);

#endif
