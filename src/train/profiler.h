/* The profile of a run: which steps of which ranks are timed launch by launch. */
#ifndef TRAIN_PROFILER_H
#define TRAIN_PROFILER_H

#include "core/launch.h"
#include "monitor/meter.h"
#include "setup/setup.h"

struct profiler {
    int64_t start, stop; /* first and last step; 0 = none */
    int rank;
    bool listed;        /* it is one of profile.ranks */
    const char *folder; /* where it writes its collectives, borrowed; NULL: it does not */
    int64_t steps;      /* so far, those that are made again behind a return to a checkpoint included */
    bool on;
};

/* Ranks that are not to be profiled launch as those that are: within the profile's steps nothing is replayed on any.
 * Borrows the setup. */
void profiler_create(struct profiler *profiler, const struct setup *setup, int rank);

/* Around step number `step`, from 1. The end of the last step, or of the run's last one where that comes before, waits
 * for the device and shows what was found. */
void profiler_before(struct profiler *profiler, struct executor *executor, int64_t step);
void profiler_after(struct profiler *profiler, struct run_meter *meter, int64_t step);
/* Where the run ends after this step, for whatever reason: shows what a profile that is on has found so far. */
void profiler_end(struct profiler *profiler, struct run_meter *meter, int64_t step);

#endif
