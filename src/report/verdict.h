/* The outcome of a run, as one word and one sentence. */
#ifndef REPORT_VERDICT_H
#define REPORT_VERDICT_H

#include "report/history.h"

#include <stdbool.h>

struct run_verdict {
    const char *word; /* "finished", "running", "stopped", "diverged", "failed", "killed", "unknown" */
    char *text;       /* owned */
};

/* Returns the verdict. held: a program is running in the run's folder (checkpoint/lock.h). */
struct run_verdict verdict_of(const struct run_history *history, bool held);

#endif
