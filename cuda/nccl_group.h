/* Collectives of GPUs (core/group.h) by NCCL, over the ranks of a communicator. */
#ifndef CUDA_NCCL_GROUP_H
#define CUDA_NCCL_GROUP_H

#include "comm/comm.h"
#include "core/launch.h"

/* Collective over comm; every rank's current device must be its own. The group borrows comm. Failures are fatal.
 * timeout: seconds after which a collective that the device has come to and that has not finished ends the run, with
 * its name, sequence number and the last launches, as does a call of NCCL that does not return; 0 waits for ever.
 * deterministic: sums are taken in an order that the ranks' places alone give. */
struct group *nccl_group_create(struct comm *comm, struct executor *executor, const char *name, double timeout,
                                bool deterministic);

/* As NCCL numbers itself: 22809 is 2.28.9. */
int nccl_group_version(void);

#endif
