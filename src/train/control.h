/* What asks a run to save or to stop: signals of any rank, the files `stop` and `checkpoint` in the output folder,
 * checkpoint.every_minutes, train.walltime, and a standard output that nobody reads any more. */
#ifndef TRAIN_CONTROL_H
#define TRAIN_CONTROL_H

#include "comm/comm.h"

#include <stdbool.h>

struct run_control {
    struct comm *world; /* borrowed */
    char *stop_file, *save_file;
    bool stop_seen, save_seen;   /* rank 0: the file was there and is removed, the request stands */
    double deadline;             /* clock_seconds() by which the program must have ended; 0 = none */
    double every;                /* seconds between checkpoints; 0 = none by time */
    double next_save;            /* clock_seconds() of the next by time */
    double slow_step;            /* longest time so far between two polls */
    double slow_save;            /* and of a checkpoint */
    double last_poll, last_look; /* clock; a look is one at the files */
};

/* walltime: seconds from the program's start, 0 = no limit; every: seconds between checkpoints, 0 = none by time.
 * Local. */
void control_open(struct run_control *control, struct comm *world, const char *folder, double walltime, double every);
void control_close(struct run_control *control);

/* What is wanted now, the same on all ranks. why: a text for the log, valid until the next call; the later in the list
 * wins. ABANDON is a STOP that nobody asked for: standard output is a pipe without a reader. A file is a request, and
 * is removed when it is seen; one that cannot be removed, such as a folder, is ignored with a warning. Checkpoints by
 * time are control->every seconds apart, or 20 times what the slowest checkpoint took, if that is more. Collective:
 * every rank calls it at the same places, at every step. */
enum control_wish { CONTROL_NONE, CONTROL_SAVE, CONTROL_STOP, CONTROL_ABANDON };
enum control_wish control_poll(struct run_control *control, const char **why);

/* Is a stop wanted already? Like control_poll, but leaves all requests as they are. Collective. */
bool control_stopping(struct run_control *control);

/* The state is saved, or copied to be saved beside the steps, which took so many seconds. This also satisfies requests
 * to save that came meanwhile. */
void control_saved(struct run_control *control, double seconds);
/* Its file is whole, and older ones are removed: from the beginning of the save to here so many seconds went by. */
void control_written(struct run_control *control, double seconds);

#endif
