/* A group of collectives (core/group.h) on device memory by way of the host: operands are copied to host memory, the
 * comm does the collective there, and results are copied back. Slow, but for any device; used where the device's
 * library cannot do it, as NCCL where ranks share a GPU. */
#ifndef COMM_COPYING_GROUP_H
#define COMM_COPYING_GROUP_H

#include "comm/comm.h"

/* Sums are taken in rank order. A collective waits for its stream, and is done when the call returns: it is never
 * recorded. The group borrows comm and executor. Collective, as is comm_group_destroy. */
struct group *copying_group_create(struct comm *comm, struct executor *executor, const char *name);

#endif
