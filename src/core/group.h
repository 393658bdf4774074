/* A communicator group as executors see it: a rank, a size and a table of collectives. comm/ fills it for one process
 * and for MPI, cuda/ for NCCL; the planning executor looks at the sizes alone. */
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
    bool copies; /* sums take room for copies: all ranks are on one node, and the executor copies (struct executor) */
};

/* Each is collective over the group and ordered on the stream; where one rank launches it, no other replays it from a
 * recording. Failures are fatal (tier b). */
struct group_class {
    const char *name;
    bool waits; /* a collective waits for the device, so it cannot be recorded (struct executor_class, capture_begin) */
    void (*all_reduce)(struct group *group, struct stream *stream, const struct all_reduce_args *args);
    void (*reduce_scatter)(struct group *group, struct stream *stream, const struct reduce_scatter_args *args);
    void (*all_gather)(struct group *group, struct stream *stream, const struct all_gather_args *args);
    void (*broadcast)(struct group *group, struct stream *stream, const struct broadcast_args *args);
    void (*all_to_all)(struct group *group, struct stream *stream, const struct all_to_all_args *args);
    void (*shift)(struct group *group, struct stream *stream, const struct shift_args *args);
    /* Collective over the ranks beside each other that have something for each other, but a group's first relay is so
     * over all its ranks. What one way is relayed, and on one stream, waits for nothing on other ways and streams. */
    void (*relay)(struct group *group, struct stream *stream, const struct relay_args *args);
    /* Memory of the group's executor, zero, between which all_gather may move without taking multiprocessors: both its
     * tensors lie in such memory. Every rank asks for the same sizes in the same order: collective, and so is release,
     * once all that uses the memory has run. NULL: there is none, and gathers do not care. */
    void *(*allocate)(struct group *group, int64_t bytes);
    void (*release)(struct group *group, void *memory);
    void (*destroy)(struct group *group); /* collective */
};

#endif
