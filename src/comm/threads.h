/* How many CPU threads a rank should use. */
#ifndef COMM_THREADS_H
#define COMM_THREADS_H

#include "comm/comm.h"

/* Collective over the ranks of a node. The CPUs of this rank's affinity mask, divided among the ranks of the node whose
 * masks share them, or the rank's share of a container's CPU quota where that is less, at least 1. `idle` receives how
 * many CPUs no rank's mask covers though their launcher (the parent process) may use them. */
int threads_for_rank(struct comm *node, int *idle);

/* `wanted` if that is positive, else OMP_NUM_THREADS, at most DECK_MAXIMUM_THREADS; 0 when neither says. */
int threads_asked(int64_t wanted);

/* The threads to use: threads_asked's, else threads_for_rank's, with a warning of CPUs that stay idle; OpenMP takes as
 * many from then on where no number is named. Collective over the ranks of a node. */
int threads_choose(struct comm *node, int64_t wanted);

#endif
