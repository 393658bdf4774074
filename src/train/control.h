/* Requests to save or to stop a run. They come from signals to any rank, the files `stop` and `checkpoint` in the
 * output folder, checkpoint.every_minutes, train.walltime, and a standard output whose reader has ended. */
#ifndef TRAIN_CONTROL_H
#define TRAIN_CONTROL_H

#include "comm/comm.h"

#include <stdbool.h>

struct run_control {
    struct comm *world; /* borrowed */
    char *stop_file, *save_file;
    bool stop_seen, save_seen;   /* rank 0: the file was found and removed; the request is pending */
    double deadline;             /* clock_seconds() by which the program must have ended; 0 = none */
    double every;                /* seconds between timed checkpoints; 0 = none */
    double next_save;            /* clock_seconds() of the next timed checkpoint */
    double slow_step;            /* longest time between two polls so far */
    double slow_save;            /* longest duration of a checkpoint so far */
    double last_poll, last_look; /* clock of the last poll, and of the last look at the files */
};

/* walltime: seconds from the program's start, 0 = no limit; every: seconds between timed checkpoints, 0 = none.
 * Local. */
void control_open(struct run_control *control, struct comm *world, const char *folder, double walltime, double every);
void control_close(struct run_control *control);

/* Returns the current request, the same on all ranks. why: its reason as text for the log, valid until the next call.
 * If there are several requests, the later one of the enum wins. CONTROL_ABANDON is a stop that nobody requested:
 * standard output is a pipe without a reader. A request file is removed when it is seen; one that cannot be removed,
 * such as a folder, is ignored with a warning. Timed checkpoints are control->every seconds apart, or 20 times the
 * duration of the slowest checkpoint if that is longer. Collective: every rank calls it at the same places, once per
 * step. */
enum control_request { CONTROL_NONE, CONTROL_SAVE, CONTROL_STOP, CONTROL_ABANDON };
enum control_request control_poll(struct run_control *control, const char **why);

/* Returns whether a stop is requested. As control_poll, but all requests stay pending. Collective. */
bool control_stopping(struct run_control *control);

/* Notes that the state has been saved, or copied to be saved in the background, and that this blocked the steps for
 * `seconds`. It also satisfies requests to save that arrived meanwhile. */
void control_saved(struct run_control *control, double seconds);
/* Notes that the checkpoint's file is complete and older ones are removed, `seconds` after the beginning of the
 * save. */
void control_written(struct run_control *control, double seconds);

#endif
