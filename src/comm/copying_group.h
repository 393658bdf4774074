/* A group of collectives (core/group.h) on device memory, by way of host memory: operands are copied to the host, the
 * comm runs the collective, and results are copied back. Slow, but for any device; used where the device's library
 * fails, as NCCL does if ranks share a GPU. */
#ifndef COMM_COPYING_GROUP_H
#define COMM_COPYING_GROUP_H

#include "comm/comm.h"

/* Makes the group. Sums are in rank order. A collective is complete when the call returns, so it is never captured.
 * Borrows comm and executor. Collective, as is comm_group_destroy. */
struct group *copying_group_create(struct comm *comm, struct executor *executor, const char *name);

#endif
