/* A communicator group as executors see it: a rank, a size and a table of collectives. comm/ implements it for one
 * process and for MPI, cuda/ for NCCL. The planning executor reads only the sizes. */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

struct stream;
struct all_reduce_args; /* core/op.h */
struct reduce_scatter_args;
struct all_gather_args;
struct broadcast_args;
struct all_to_all_args;
struct shift_args;
struct relay_args;

struct group {
    const char *name; /* "data", "model", ... */
    int rank, size;
    const struct group_class *class;
    void *self;
    bool copies; /* sums use scratch for copies: all ranks are on one node, and the executor copies (struct executor) */
};

/* Each function but release is collective over the group and ordered on the stream. All ranks launch a collective, or
 * all replay it from a recording. Failures are fatal (error_fatal). */
struct group_class {
    const char *name;
    bool waits; /* a collective blocks until the device has finished, so it cannot be captured (core/executor.h) */
    void (*all_reduce)(struct group *group, struct stream *stream, const struct all_reduce_args *args);
    void (*reduce_scatter)(struct group *group, struct stream *stream, const struct reduce_scatter_args *args);
    void (*all_gather)(struct group *group, struct stream *stream, const struct all_gather_args *args);
    void (*broadcast)(struct group *group, struct stream *stream, const struct broadcast_args *args);
    void (*all_to_all)(struct group *group, struct stream *stream, const struct all_to_all_args *args);
    void (*shift)(struct group *group, struct stream *stream, const struct shift_args *args);
    /* Pipeline send and receive. Collective over neighbouring ranks with data for each other; a group's first relay is
     * collective over all its ranks. Transfers of one direction on one stream do not wait for other directions or
     * streams. */
    void (*relay)(struct group *group, struct stream *stream, const struct relay_args *args);
    /* Returns zeroed memory of the group's executor. An all_gather whose two tensors lie in such memory may be done by
     * copy engines, without SMs. allocate and release are collective, with the same sizes in the same order on all
     * ranks; release comes after everything that uses the memory has run. NULL: the group has no such memory. */
    void *(*allocate)(struct group *group, int64_t bytes);
    void (*release)(struct group *group, void *memory);
    void (*destroy)(struct group *group); /* collective */
};

#endif
