/* Collectives of GPUs (core/group.h) by NCCL, over the ranks of a communicator. */
#ifndef CUDA_NCCL_GROUP_H
#define CUDA_NCCL_GROUP_H

#include "comm/comm.h"
#include "core/launch.h"

/* Collective over comm; every rank's current device must be its own. The group borrows comm. Failures are fatal.
 * timeout: seconds after which a collective that has not finished ends the run, with its name, sequence number and the
 * last launches; 0 waits for ever. */
struct group *nccl_group_create(struct comm *comm, struct executor *executor, const char *name, double timeout);

/* As NCCL numbers itself: 22809 is 2.28.9. */
int nccl_group_version(void);

#endif
