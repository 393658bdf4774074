/* A communicator group as executors see it: a rank, a size and a table of collectives. comm/ implements it for one
 * process and for MPI, cuda/ for NCCL. The planning executor reads only the sizes. */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

#include "core/op.h"

struct stream;

struct group {
    const char *name; /* "data", "model", ... */
    int rank, size;
    const struct group_class *class;
    void *self;
    bool copies; /* all ranks are on one node and executor->copies is set: sums should get scratch (core/op.h) */
};

/* Each function but `release` is collective over the group and ordered on the stream. Either all ranks launch a
 * collective, or all replay it from a captured graph. Failures are fatal (error_fatal). */
struct group_class {
    const char *name;
    bool waits; /* a collective blocks until the device has finished, so it cannot be captured (core/executor.h) */
    /* One function for each collective of core/op.h: all_reduce, reduce_scatter, ... */
#define X(NAME, name) void (*name)(struct group * group, struct stream * stream, const struct name##_args *args);
    OP_COLLECTIVE_TABLE(X)
#undef X
    /* Returns zeroed memory of the group's executor. An all_gather between two tensors in this memory may be done by
     * copy engines, without SMs. allocate and release are collective, with the same sizes in the same order on all
     * ranks; call release after all uses of the memory have run. NULL: the group has no such memory. */
    void *(*allocate)(struct group *group, int64_t bytes);
    /* Allocates the device memory that collectives of any size need, so that later collectives allocate none. Optional:
     * collectives work without this call. NULL: they need no memory. Collective. */
    void (*connect)(struct group *group);
    void (*release)(struct group *group, void *memory);
    void (*destroy)(struct group *group); /* collective */
};

#endif
