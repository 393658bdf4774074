/* An executor that runs asynchronously, as a GPU does: launches wait in a queue until somebody waits for them, and can
 * be captured and replayed. It reveals code that relies on immediate execution. On the clock of this device, which its
 * stamps read, every launch takes a second. */
#ifndef TESTS_REF_LATE_H
#define TESTS_REF_LATE_H

#include "core/launch.h"

/* Makes an executor in front of `inner`, which is borrowed and synchronous; all streams are one queue. Free with
 * class->destroy. */
struct executor *late_executor_create(struct executor *inner);

/* Returns the number of replays so far. */
int64_t late_replays(const struct executor *executor);

#endif
