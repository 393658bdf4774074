/* A case of a sweep as a shell script, which runs here or is submitted to a batch system. The state of a case is only
 * in its folder, so a later call continues where an earlier one ended:
 *
 *   job.sh     the script; it writes plan.json and plan.txt (`cistron plan` and its messages), out.txt (output of the
 *              training) and run/ (its run folder); with sweep_job_is_freed also free.txt and free/
 *   build      the build of the program for which the case was made
 *   submitted  what the batch system printed at the submission
 *   exit       the training's exit code, once it has ended */
#ifndef SWEEP_JOB_H
#define SWEEP_JOB_H

#include "sweep/list.h"

#include <stdbool.h>

enum sweep_state { SWEEP_NEW, SWEEP_WAITING, SWEEP_RUNNING, SWEEP_ENDED };

struct sweep_place {
    const char *folder;       /* folder of the sweep */
    const char *program;      /* path of this program, which the cases run */
    const char *build;        /* "0.1.0 0123456789abcdef...": version and build ID (base/build.h) */
    const char *no_transfers; /* path of the library of bench/gpu/no_transfers.c; "": none */
};

/* Return the path of this program, and the text that identifies its build; freed with free(). */
char *sweep_program(void);
char *sweep_build(void);

/* Returns FOLDER/CASE/NAME; freed with free(). */
char *sweep_job_path(const struct sweep_place *place, const struct sweep_case *c, const char *name);
/* Returns the first line of file NAME of a case, NULL if there is none; freed with free(). */
char *sweep_job_line(const struct sweep_place *place, const struct sweep_case *c, const char *name);

/* Return whether the case is to be trained a second time, into the folder free/, with transfers that take no time, and
 * whether that was done. */
bool sweep_job_is_freed(const struct sweep_place *place, const struct sweep_case *c);
bool sweep_job_was_freed(const struct sweep_place *place, const struct sweep_case *c);

enum sweep_state sweep_job_state(const struct sweep_place *place, const struct sweep_case *c);

/* Removes the files of earlier attempts, writes the script, and runs it to its end or submits it. A failed training is
 * not an error. ERROR_USER: the folder is not writable. ERROR_ENVIRONMENT: there is no shell, the batch system refuses,
 * or a signal has ended the script and should end the sweep. */
int sweep_job_start(const struct sweep_place *place, const struct sweep_case *c);

#endif
