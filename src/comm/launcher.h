/* Ranks that a launcher started and MPI did not bring together: with an mpirun of another MPI, or an srun without its
 * plugin, each of N processes believes that it is alone, and all would train the same run into the same folder. */
#ifndef COMM_LAUNCHER_H
#define COMM_LAUNCHER_H

/* Compares the world's size with what launchers leave in the environment. ERROR_NONE when they agree, or when the
 * environment says nothing. Else ERROR_USER; the message is recorded by the process that its launcher calls rank 0
 * alone, since the processes cannot agree on one. Local; needs no MPI. */
int launcher_check(int world_size);

#endif
