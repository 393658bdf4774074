/* The number of CPU threads of a rank. */
#ifndef COMM_THREADS_H
#define COMM_THREADS_H

#include "comm/comm.h"

/* Returns the number of CPUs of this rank: those of its affinity mask, where a CPU in n masks counts 1 / n, or the
 * rank's share of a container's CPU quota if that is less; at least 1. *idle receives the number of CPUs that the
 * launcher (the parent process) may use and no rank's mask covers. Collective over the ranks of a node. */
int threads_for_rank(struct comm *node, int *idle);

/* Returns `wanted` if that is positive, else OMP_NUM_THREADS, at most DECK_MAXIMUM_THREADS; 0 if neither is set. */
int threads_asked(int64_t wanted);

/* Returns the number of threads to use: threads_asked's, or else threads_for_rank's, with a warning about idle CPUs.
 * Makes it the default of OpenMP. Collective over the ranks of a node. */
int threads_choose(struct comm *node, int64_t wanted);

#endif
