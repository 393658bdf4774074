/* Collectives of GPUs (core/group.h) by NCCL, over the ranks of a communicator. */
#ifndef CUDA_NCCL_GROUP_H
#define CUDA_NCCL_GROUP_H

#include "comm/comm.h"
#include "core/executor.h"

#include <cuda_runtime_api.h>

/* Told of a collective, by its name, whenever a stream is given it. */
typedef void nccl_launched(void *self, const char *name);

/* What a group needs of the executor that makes it. */
struct nccl_settings {
    struct executor *executor;
    cudaStream_t streams[STREAM_COUNT]; /* the executor's */
    /* While a recording is made: true, and launched(self, name) is called before each of its replays. Else false. */
    bool (*at_replay)(struct executor *executor, nccl_launched *launched, void *self, const char *name);
    /* Seconds after which a collective that the device has come to and that has not finished ends the run, with its
     * name, sequence number and the last launches, as does a call of NCCL that does not return; 0 waits for ever. */
    double timeout;
    bool deterministic; /* sums are taken in an order that the ranks' places alone give */
};

/* Collective over comm; every rank's current device must be its own. The group borrows comm and the executor. Failures
 * are fatal. */
struct group *nccl_group_create(struct comm *comm, const char *name, const struct nccl_settings *settings);

/* As NCCL numbers itself: 22809 is 2.28.9. */
int nccl_group_version(void);

#endif
