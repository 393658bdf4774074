/* A case of a sweep as a shell script, run here or handed to a batch system. All that is known of a case is in its
 * folder, so a later call goes on where this one ends:
 *   job.sh     what runs; beside it plan.json and plan.txt (`cistron plan`, its messages), out.txt (what the training
 *              printed), run/ (its folder); free.txt and free/, likewise, of a case that sweep_job_is_freed
 *   build      of the program that it was made for
 *   submitted  what the batch system said, where it was handed to one
 *   exit       the training's exit code, when it has ended */
#ifndef SWEEP_JOB_H
#define SWEEP_JOB_H

#include "sweep/list.h"

#include <stdbool.h>

enum sweep_state { SWEEP_NEW, SWEEP_WAITING, SWEEP_RUNNING, SWEEP_ENDED };

struct sweep_place {
    const char *folder;       /* of the sweep */
    const char *program;      /* path of this program, by which cases run */
    const char *build;        /* "0.1.0 0123456789abcdef...": version, build ID (base/build.h) */
    const char *no_transfers; /* the library of bench/gpu/no_transfers.c; "": none */
};

/* Path of this program, and what builds of it are told apart by; freed with free(). */
char *sweep_program(void);
char *sweep_build(void);

/* FOLDER/CASE/NAME; freed with free(). */
char *sweep_job_path(const struct sweep_place *place, const struct sweep_case *c, const char *name);
/* The first line of such a file, NULL where there is none; freed with free(). */
char *sweep_job_line(const struct sweep_place *place, const struct sweep_case *c, const char *name);

/* Is the case trained a second time, into the folder free/, with transfers that take no time? Has it been? */
bool sweep_job_is_freed(const struct sweep_place *place, const struct sweep_case *c);
bool sweep_job_was_freed(const struct sweep_place *place, const struct sweep_case *c);

enum sweep_state sweep_job_state(const struct sweep_place *place, const struct sweep_case *c);

/* Removes what an earlier try has left, writes the script, and runs it to its end, or submits it. How the training ends
 * is no failure. ERROR_USER: the folder cannot be written. ERROR_ENVIRONMENT: no shell, a batch system that refuses; a
 * signal that ended the script, and should end the sweep. */
int sweep_job_start(const struct sweep_place *place, const struct sweep_case *c);

#endif
