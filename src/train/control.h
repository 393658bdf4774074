/* What asks a run to save or to stop: signals of any rank, the files `stop` and `checkpoint` in the output folder, and
 * train.walltime. */
#ifndef TRAIN_CONTROL_H
#define TRAIN_CONTROL_H

#include "comm/comm.h"

#include <stdbool.h>

struct control {
    struct comm *world; /* borrowed */
    char *stop_file, *save_file;
    bool stop_seen;              /* rank 0: the file stop is there; whoever sees it first, it stops the run */
    double deadline;             /* clock_seconds() by which the program must have ended; 0 = none */
    double slow_step;            /* longest time so far between two polls */
    double slow_save;            /* and of a checkpoint */
    double last_poll, last_look; /* clock; a look is one at the files */
};

/* Seconds of "90" (minutes), "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS", as Slurm's --time takes them; ""
 * is 0. ERROR_USER names train.walltime. */
int control_parse_walltime(const char *text, double *seconds);

/* walltime: seconds from the program's start, 0 = no limit. Local. */
void control_open(struct control *control, struct comm *world, const char *folder, double walltime);
void control_close(struct control *control);

/* What is wanted now, the same on all ranks. why: a text for the log, valid until the next call; of SAVE and STOP, STOP
 * wins. Files that asked are removed. Collective: every rank calls it at the same places, at every step. */
enum control_wish { CONTROL_NONE, CONTROL_SAVE, CONTROL_STOP };
enum control_wish control_poll(struct control *control, const char **why);

/* Is a stop wanted already? Like control_poll, but leaves all requests as they are. Collective. */
bool control_stopping(struct control *control);

/* Tells how long a checkpoint took. */
void control_saved(struct control *control, double seconds);

#endif
