/* `cistron sweep LIST`: runs every case of a list that has not been run yet, and writes what all of them took. */
#ifndef SWEEP_SWEEP_H
#define SWEEP_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

struct sweep_settings {
    const char *list;   /* sweep/list.h */
    const char *folder; /* of the cases and the results; NULL: the list's name without its ending, in this folder */
    const char
        *no_transfers;  /* bench/gpu/no_transfers.c, compiled: what transfers add to a step is measured; or NULL */
    int64_t most_ranks; /* cases of more are left for later; 0: none */
    bool retry;         /* run again what failed, or was submitted and has not ended */
    bool only_show;     /* start nothing */
};

/* A case that fails is noted, and the sweep goes on. One process, no MPI. ERROR_USER: mistakes of the list; cases of
 * another build, or of several devices, which one table does not mix. ERROR_ENVIRONMENT: files, the shell, the batch
 * system; in the end, that cases have failed. */
int sweep_run(const struct sweep_settings *settings);

#endif
