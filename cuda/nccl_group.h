/* Collectives of GPUs (core/group.h) by NCCL, over the ranks of a communicator. */
#ifndef CUDA_NCCL_GROUP_H
#define CUDA_NCCL_GROUP_H

#include "comm/comm.h"
#include "core/executor.h"

#include <cuda_runtime_api.h>

/* Called with a collective's name whenever it is launched on a stream. */
typedef void nccl_launched(void *self, const char *name);

/* What a group needs of the executor that makes it. */
struct nccl_settings {
    struct executor *executor;
    const struct cuda_target *targets; /* [STREAM_COUNT], the executor's; borrowed */
    /* While a recording is made: true, and launched(self, name) is called before each of its replays. Else false. */
    bool (*at_replay)(struct executor *executor, nccl_launched *launched, void *self, const char *name);
    /* Seconds that a collective may take from when the device reaches it, and a call of NCCL until it returns. After
     * that the run ends and prints the collective's name, its sequence number and the last launches. 0: no limit. */
    double timeout;
    bool deterministic; /* the order of sums depends on the ranks' places alone */
    int most_ctas;      /* thread blocks of a collective at most; 0: NCCL's own choice */
};

/* Collective over comm; every rank's current device must be its own. The group borrows comm and the executor. Failures
 * are fatal. */
struct group *nccl_group_create(struct comm *comm, const char *name, const struct nccl_settings *settings);

/* Sets the variables of NCCL that this version needs; those of the user stay. Before the first group is made. Local.
 * Returns whether groups on one node copy between memory that they allocated without taking SMs. loud: logs what it
 * changed. */
bool nccl_group_prepare(bool loud);

/* As NCCL numbers itself: 22809 is 2.28.9. */
int nccl_group_version(void);

#endif
