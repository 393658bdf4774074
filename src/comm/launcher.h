/* What launchers leave in the environment of the processes that they start. Local; needs no MPI. */
#ifndef COMM_LAUNCHER_H
#define COMM_LAUNCHER_H

#include <stdbool.h>

/* This process's number among those of its launcher; 0 without one. Before MPI runs, number 0 alone prints mistakes
 * that all of them find. */
int launcher_rank(void);

/* Can an MPI that is started by PMIx alone start here? Open MPI before its version 5 ends the process in a task of an
 * srun without a plugin for it, and takes thirty lines to say so. ERROR_NONE, or ERROR_USER. */
int launcher_check_start(void);

/* Keeps Open MPI before its version 5 from starting its daemon orted for a process without a launcher: the daemon can
 * outlive the process, and only MPI_Comm_spawn needs it. A setting of the user's own stands. Before MPI_Init. */
void launcher_isolate(void);

/* Did MPI connect the launcher's processes? With an mpirun of another MPI, or an srun without its plugin, each of N
 * processes is a world of its own, and all would train the same run in the same folder. Compares the world's size with
 * the launcher's. ERROR_NONE when they agree, or when the environment says nothing; else ERROR_USER.
 */
int launcher_check(int world_size);

/* Does the launcher print a message of its own when a process ends with a code other than 0? Open MPI's does. */
bool launcher_reports_codes(void);

/* The batch system's name for this job (Slurm's, PBS's, LSF's, Grid Engine's), "" without one. */
const char *launcher_job(void);

#endif
