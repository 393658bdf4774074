/* The profiler of a run: decides in which steps and on which ranks each launch is timed. */
#ifndef TRAIN_PROFILER_H
#define TRAIN_PROFILER_H

#include "core/launch.h"
#include "monitor/meter.h"
#include "setup/setup.h"

struct profiler {
    int64_t start, stop; /* first and last profiled step; 0 = none */
    int rank;
    bool listed;        /* this rank is one of profile.ranks */
    const char *folder; /* where this rank writes its collectives, borrowed; NULL: nowhere */
    int64_t steps;      /* profiled so far, including steps that are repeated after a rewind */
    bool on;
};

/* Sets up the profiler of rank number `rank`; borrows the setup. Ranks that are not profiled launch in the same way as
 * the profiled ones: within the profiled steps no rank replays graphs. */
void profiler_create(struct profiler *profiler, const struct setup *setup, int rank);

/* Called before and after the launch of step number `step`, from 1. After the last profiled step, profiler_after waits
 * for the device and writes the profile. */
void profiler_before(struct profiler *profiler, struct executor *executor, int64_t step);
void profiler_after(struct profiler *profiler, struct run_meter *meter, int64_t step);
/* Called if the run ends after this step: writes a profile that is in progress. */
void profiler_end(struct profiler *profiler, struct run_meter *meter, int64_t step);

#endif
