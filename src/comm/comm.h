/* Key header: a communicator is a group of ranks that exchange data in host memory. comm_self makes one for a single
 * process, comm_open_mpi one for all ranks of MPI; only comm/mpi.c and main.c use MPI. A failure inside a collective is
 * fatal (error_fatal), and so is a collective that takes longer than the limit (comm_set_timeout). */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "core/launch.h"
#include "core/op.h"

#include <stdint.h>

struct comm {
    int rank, size;
    const struct comm_class *class;
    void *self;
};

/* Sums wrap around, as unsigned numbers do. */
enum comm_reduction { COMM_MINIMUM, COMM_MAXIMUM, COMM_SUM };

/* The functions that implement a communicator. All but `missing` are collective. `bytes` may exceed 2^31. */
struct comm_class {
    void (*barrier)(struct comm *comm);
    void (*broadcast)(struct comm *comm, void *data, int64_t bytes, int root);
    /* out: [size * bytes], the blocks of all ranks in rank order. in may be this rank's block of out. */
    void (*all_gather)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* As all_gather, to rank 0 alone; `out` is unused on other ranks. */
    void (*gather)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Replaces each of `count` values by the reduction over ranks. */
    void (*reduce)(struct comm *comm, int64_t *values, int64_t count, enum comm_reduction reduction);
    /* in, out: [size * bytes]. Block r of `in` is sent to rank r; block r of `out` comes from rank r. */
    void (*all_to_all)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Ring: `in` is sent to rank + 1, `out` comes from rank - 1; the last rank sends to the first. */
    void (*shift)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Pipeline send and receive between neighbouring ranks, on a ring: data[SEND_TO_NEXT] is sent to rank + 1, which
     * receives it as data[RECEIVE_FROM_PREVIOUS]; data[SEND_TO_PREVIOUS] is sent to rank - 1, which receives it as
     * data[RECEIVE_FROM_NEXT]. An entry with 0 bytes is not sent. On return received messages have arrived, and sent
     * ones have been copied; a send waits only for the previous message of its direction to be received. Collective
     * over neighbouring ranks with messages for each other. */
    void (*send_receive)(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                         const int64_t bytes[TRANSFER_DIRECTIONS]);
    /* Returns a new communicator of the ranks with the same color, in the order of their ranks in comm. color >= 0. */
    struct comm *(*split)(struct comm *comm, int color);
    /* As split, for the groups of comm_part, of which each rank knows the members: nothing is gathered. */
    struct comm *(*divide)(struct comm *comm, int stride, int count);
    /* Returns a new communicator of the ranks on the same node (those that share its memory). */
    struct comm *(*split_node)(struct comm *comm);
    /* As comm_missing; not collective. NULL for a single process. */
    void (*missing)(struct comm *comm, char *text, int64_t bytes);
    void (*destroy)(struct comm *comm);
};

/* Regular groups: each `count` ranks of a communicator that are `stride` apart, in order; the last groups are smaller
 * if stride * count does not divide the number of ranks. */
struct comm_part {
    int first; /* the group's first rank; the others are first + stride, ... */
    int size, rank;
};
/* Returns the group of a rank. Local. */
struct comm_part comm_part(int rank, int size, int stride, int count);

/* Returns whether an all_gather of these blocks is a gather to rank 0 and a broadcast. MPI libraries send each block
 * from each rank to each other (Open MPI 4.1), which among thousands of ranks is more than a network bears. Local. */
bool comm_gathers_first(int size, int64_t bytes);

/* Makes a communicator of this process alone; needs no MPI. */
struct comm *comm_self(void);
/* Makes a communicator of all ranks of MPI (a duplicate of MPI_COMM_WORLD). MPI must be initialised. Collective. */
struct comm *comm_open_mpi(void);
/* Frees a communicator of either kind. Collective. */
void comm_destroy(struct comm *comm);

/* Sets the time limit of each collective, in seconds; 0, the default: no limit. A collective that takes longer than
 * a tenth of the limit warns and names the missing ranks; one that exceeds the limit names them and is fatal. Local;
 * all ranks must call it with the same value. */
void comm_set_timeout(double seconds);
/* Between begin and end the limit is ten times as long, for work of one rank (such as file I/O) while the others wait.
 * May be nested. Local; all ranks must call both. */
void comm_begin_long_work(void);
void comm_end_long_work(void);
/* Returns the current limit in seconds, 0 = none; for implementations of communicators. */
double comm_limit(void);
/* Returns the seconds that this process has spent in collectives of communicators so far. */
double comm_seconds(void);

/* Roll calls: a rank that waits in a collective answers the roll calls of other ranks, and ranks that do not answer are
 * reported as missing. A main thread that waits for anything else, such as a device, calls comm_attend repeatedly: it
 * answers roll calls, and serves comm_missing. waited: seconds that the wait has taken so far. comm_attends returns
 * whether comm_attend is needed at all. Local. */
bool comm_attends(void);
void comm_attend(double waited);
/* Registers the function that comm_attend calls; for implementations of communicators. */
void comm_on_attend(void (*attend)(double waited));
/* For threads that must not communicate (watchdogs): asks the main thread which ranks of comm are not waiting, and
 * writes them to text[bytes] as "rank 3 on HOST, ...". Takes some seconds. Local; not for the main thread. */
void comm_missing(struct comm *comm, char *text, int64_t bytes);

/* The collectives of struct comm_class, with its arguments. */
void comm_barrier(struct comm *comm);
void comm_broadcast(struct comm *comm, void *data, int64_t bytes, int root);
void comm_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_gather(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_reduce(struct comm *comm, int64_t *values, int64_t count, enum comm_reduction reduction);
void comm_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_shift(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_send_receive(struct comm *comm, void *const data[TRANSFER_DIRECTIONS],
                       const int64_t bytes[TRANSFER_DIRECTIONS]);
struct comm *comm_split(struct comm *comm, int color);
struct comm *comm_divide(struct comm *comm, int stride, int count);
/* Returns a communicator of this rank's node, or of its block of ranks with CISTRON_NODE_RANKS (comm/launcher.h).
 * Collective. */
struct comm *comm_split_node(struct comm *comm);
/* Returns how many consecutive ranks of `world` each node has: the world's size on one node, and 1 if the ranks are not
 * distributed in equal consecutive blocks. `node` is comm_split_node(world). Collective over world. */
int comm_node_block(struct comm *world, struct comm *node);

/* Return the maximum and the sum of a value over all ranks, on all ranks. Collective. */
int64_t comm_max_i64(struct comm *comm, int64_t value);
int64_t comm_sum_i64(struct comm *comm, int64_t value);

/* Shares errors. `code` (enum error_code) is this rank's result. If any rank failed, all ranks return the code of the
 * lowest failed rank and record its message; otherwise ERROR_NONE. Collective. */
int comm_share(struct comm *comm, int code);
/* comm_share; then rank 0 prints the message on standard error, and all ranks clear their records. Each error is thus
 * printed once, and all ranks return the same code. Collective. */
int comm_agree(struct comm *comm, int code);

/* Minimum, mean and maximum of a value over all ranks. */
struct comm_spread {
    double minimum, mean, maximum;
};
/* Returns the spread of a value on all ranks. Collective. */
struct comm_spread comm_spread(struct comm *comm, double value);

/* Makes a group (core/group.h) of the ranks of comm: collectives on the executor's memory, or on host memory if
 * executor is NULL. Sums in host memory are in rank order. The group borrows comm; comm_group_destroy frees the group.
 * Both are collective. */
struct group *comm_group_create(struct comm *comm, struct executor *executor, const char *name);
void comm_group_destroy(struct group *group);

#endif
