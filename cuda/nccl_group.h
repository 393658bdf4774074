/* Collectives on GPUs (core/group.h) by NCCL, over the ranks of a communicator. */
#ifndef CUDA_NCCL_GROUP_H
#define CUDA_NCCL_GROUP_H

#include "comm/comm.h"
#include "core/executor.h"

#include <cuda_runtime_api.h>

/* Called with a collective's name each time it is launched on a stream. */
typedef void nccl_launched(void *self, const char *name);

/* The parts of its executor that a group needs. */
struct nccl_settings {
    struct executor *executor;
    const struct cuda_target *targets; /* [STREAM_COUNT], the executor's; borrowed */
    /* If a CUDA graph is being captured, returns true, and calls launched(self, name) before each replay. Otherwise
     * returns false. */
    bool (*at_replay)(struct executor *executor, nccl_launched *launched, void *self, const char *name);
    /* Limit in seconds for a collective, from when the device reaches it, and for a call of NCCL. When it is exceeded,
     * the run ends and prints the collective's name, its sequence number and the last launches. 0: no limit. */
    double timeout;
    bool deterministic; /* the order of sums depends only on the ranks' places */
    int most_ctas;      /* limit of thread blocks per collective; 0: NCCL's default */
};

/* Makes a group. Collective over comm; every rank must have a current device of its own. The group borrows comm and the
 * executor. Failures are fatal. */
struct group *nccl_group_create(struct comm *comm, const char *name, const struct nccl_settings *settings);

/* Sets the environment variables that this NCCL version needs, without overriding the user's. Call it before the first
 * group is made. Returns whether groups on one node can copy between their own allocations without using SMs. loud:
 * logs the changes. Local. */
bool nccl_group_prepare(bool loud);

/* Returns NCCL's version in its own numbering: 22809 is 2.28.9. */
int nccl_group_version(void);

#endif
