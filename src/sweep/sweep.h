/* `cistron sweep LIST`: runs each case of a list that has not been run yet, and writes a table of all results. */
#ifndef SWEEP_SWEEP_H
#define SWEEP_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

struct sweep_settings {
    const char *list;   /* sweep/list.h */
    const char *folder; /* for cases and results; NULL: in this folder, the list's name without its ending */
    const char
        *no_transfers;  /* bench/gpu/no_transfers.c, compiled: exposed communication is measured; NULL: it is not */
    int64_t most_ranks; /* cases with more ranks are not run in this call; 0: no limit */
    bool retry;         /* run cases again that have failed, or were submitted and have not ended */
    bool only_show;     /* do not start cases */
};

/* Runs the sweep. A failed case is noted, and the sweep continues. One process, no MPI. ERROR_USER: mistakes in the
 * list, cases of another build, or cases of several devices, which a table does not mix. ERROR_ENVIRONMENT: files, the
 * shell or the batch system failed; or, after all cases have run, that some have failed. */
int sweep_run(const struct sweep_settings *settings);

#endif
