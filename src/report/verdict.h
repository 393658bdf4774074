/* What has become of a run, in one word and one sentence. */
#ifndef TRAIN_VERDICT_H
#define TRAIN_VERDICT_H

#include "train/history.h"

#include <stdbool.h>

struct verdict {
    const char *word; /* "finished", "running", "stopped", "diverged", "failed", "killed", "unknown" */
    char *text;       /* owned */
};

/* held: a program is at work in the run's folder (io/lock.h). */
struct verdict verdict_of(const struct history *history, bool held);

#endif
