/* A group of collectives (core/group.h) on a device's memory that are done in the host's: what they read is copied
 * there, the comm does its work, and what they write is copied back. Slow, and for any device: where its own library
 * cannot do it, as NCCL where ranks share a GPU. */
#ifndef COMM_COPYING_GROUP_H
#define COMM_COPYING_GROUP_H

#include "comm/comm.h"

/* Sums are taken in rank order. A collective waits for its stream, and is done when the call returns: it is never
 * recorded. The group borrows comm and executor. Collective, as is comm_group_destroy. */
struct group *copying_group_create(struct comm *comm, struct executor *executor, const char *name);

#endif
