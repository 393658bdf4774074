/* The environment variables of MPI launchers and batch systems. All functions are local and need no MPI. */
#ifndef COMM_LAUNCHER_H
#define COMM_LAUNCHER_H

#include <stdbool.h>

/* Returns this process's number among those of its launcher; 0 without a launcher. Before MPI runs, only number 0
 * prints errors that all processes find. */
int launcher_rank(void);

/* Checks that an MPI that needs PMIx can start here. Open MPI before version 5 ends a process that srun started without
 * its PMIx plugin, after thirty lines of messages. Returns ERROR_NONE or ERROR_USER. */
int launcher_check_start(void);

/* Keeps Open MPI before version 5 from starting its daemon orted for a process without a launcher: the daemon can
 * outlive the process, and only MPI_Comm_spawn needs it. A setting of the user is kept. Call it before MPI_Init. */
void launcher_isolate(void);

/* For tests of several nodes on one: CISTRON_NODE_RANKS=N makes each N consecutive ranks a node. Returns N, and 0 if
 * the variable is not set. */
int launcher_node_ranks(void);

/* Checks that MPI connected the launcher's processes, by comparing the world's size with the launcher's. With an mpirun
 * of another MPI, or an srun without its plugin, each of N processes is a world of its own, and all would train the
 * same run in the same folder. Also checks CISTRON_NODE_RANKS. Returns ERROR_NONE if the sizes agree or the environment
 * gives no size, else ERROR_USER. */
int launcher_check(int world_size);

/* Returns whether the launcher itself reports a process that ends with a code other than 0, as Open MPI's does. */
bool launcher_reports_codes(void);

/* Returns the batch system's id of this job (Slurm, PBS, LSF, Grid Engine); "" without one. */
const char *launcher_job(void);

#endif
