/* A group of collectives (core/group.h) on device memory that works through host memory: operands are copied to the
 * host, the comm runs the collective there, and results are copied back. Slow, but works on any device. Used where the
 * device's library cannot run the collective, such as NCCL when ranks share a GPU. */
#ifndef COMM_COPYING_GROUP_H
#define COMM_COPYING_GROUP_H

#include "comm/comm.h"

/* Makes the group. Sums are in rank order. A collective waits for its stream and is complete when the call returns, so
 * it is never captured. Borrows comm and executor. Collective, as is comm_group_destroy, which frees the group. */
struct group *copying_group_create(struct comm *comm, struct executor *executor, const char *name);

#endif
