/* Communicators: groups of ranks that exchange data in host memory. Two makers: comm_self (one process alone) and
 * comm_open_mpi. Only comm/mpi.c and main.c use MPI. A failure inside a collective is fatal (error_fatal), and so is a
 * collective that takes longer than the limit (comm_set_timeout). */
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

/* What a maker of communicators supplies. Every function is collective. `bytes` may exceed 2^31. */
struct comm_class {
    void (*barrier)(struct comm *comm);
    void (*broadcast)(struct comm *comm, void *data, int64_t bytes, int root);
    /* out holds size blocks of `bytes`, in rank order, on every rank. in may be this rank's block of out. */
    void (*all_gather)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Blocks of `bytes`: block r of `in` goes to rank r; block r of `out` came from rank r. */
    void (*all_to_all)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Around the ranks: `in` goes to rank + 1, `out` comes from rank - 1; the last sends to the first. */
    void (*shift)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Between ranks beside each other, the last and the first among them: data[RELAY_TO_NEXT] goes to rank + 1, which
     * has it as data[RELAY_FROM_BEFORE]; data[RELAY_TO_BEFORE] goes to rank - 1, which has it as data[RELAY_FROM_NEXT].
     * Where bytes are 0 nothing moves. What is received has arrived at the end; what is sent has been copied, and only
     * the message before on the same way need have been received. Collective over the ranks that have something for
     * each other. */
    void (*relay)(struct comm *comm, void *const data[RELAY_COUNT], const int64_t bytes[RELAY_COUNT]);
    /* Ranks with the same color form a new communicator, in the order of their ranks in comm. color >= 0. */
    struct comm *(*split)(struct comm *comm, int color);
    /* The ranks on the same node (that share its memory) form a new communicator. */
    struct comm *(*split_node)(struct comm *comm);
    /* comm_missing, which is not collective; NULL where a process is alone. */
    void (*missing)(struct comm *comm, char *text, int64_t bytes);
    void (*destroy)(struct comm *comm);
};

/* One process alone; needs no MPI. */
struct comm *comm_self(void);
/* All ranks of MPI (a duplicate of MPI_COMM_WORLD). MPI must be initialised. */
struct comm *comm_open_mpi(void);
void comm_destroy(struct comm *comm);

/* Sets the limit of every collective, in seconds; 0, the default, is no limit. A collective that takes longer than a
 * tenth of the limit prints a warning that names the missing ranks. One that exceeds the limit names them and is fatal.
 * Local, but to be called with the same value on all ranks. */
void comm_set_timeout(double seconds);
/* Between these two the limit is ten times as long: for work such as reading or writing files on one rank, while the
 * others wait. They may be nested. Local, but to be called on all ranks. */
void comm_begin_long_work(void);
void comm_end_long_work(void);
/* The current limit in seconds, 0 = none; for makers of communicators. */
double comm_limit(void);
/* Seconds that this process has been in collectives of communicators so far, waiting for other ranks or not. */
double comm_seconds(void);

/* Ranks can say for whom they wait because each answers while it waits itself. A rank's main thread calls comm_attend
 * again and again where it waits for something else, such as a device: it answers, and does what comm_missing asks for.
 * waited: seconds so far. comm_attends: is there anybody to answer? Else such a wait need not be interrupted. Local. */
bool comm_attends(void);
void comm_attend(double waited);
/* What comm_attend calls; for makers of communicators. */
void comm_on_attend(void (*attend)(double waited));
/* For threads that may not communicate (watchdogs): has the main thread find out which ranks of comm do not wait, and
 * writes them into text, as "rank 3 on HOST, ...". It takes some seconds. Local; any thread but the main one. */
void comm_missing(struct comm *comm, char *text, int64_t bytes);

void comm_barrier(struct comm *comm);
void comm_broadcast(struct comm *comm, void *data, int64_t bytes, int root);
void comm_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_shift(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_relay(struct comm *comm, void *const data[RELAY_COUNT], const int64_t bytes[RELAY_COUNT]);
struct comm *comm_split(struct comm *comm, int color);
struct comm *comm_split_node(struct comm *comm);
/* How the ranks of `world` lie on nodes; `node` is comm_split_node(world). Returns n where each node has n ranks that
 * follow one another, the world's size where there is one node, and 1 where nodes have ranks in any other way.
 * Collective over world. */
int comm_node_block(struct comm *world, struct comm *node);

/* The maximum and the sum of a value over all ranks. Collective. */
int64_t comm_max_i64(struct comm *comm, int64_t value);
int64_t comm_sum_i64(struct comm *comm, int64_t value);

/* Shares errors: `code` (enum error_code) is this rank's outcome. When any rank failed, every rank returns the code of
 * the lowest rank that failed, and records that rank's message. ERROR_NONE when none failed. Collective. */
int comm_share(struct comm *comm, int code);
/* comm_share, then rank 0 prints the message to standard error and every rank clears its record. So each error is
 * printed once, and all ranks return the same code. */
int comm_agree(struct comm *comm, int code);

/* Minimum, mean and maximum of a value over all ranks. Collective. */
struct comm_spread {
    double minimum, mean, maximum;
};
struct comm_spread comm_spread(struct comm *comm, double value);

/* Makes a group (core/group.h): collectives over the ranks of this comm, on the executor's memory, or on host memory
 * when executor is NULL. In host memory sums are in rank order. The group borrows the comm. Free it with
 * comm_group_destroy. Both are collective. */
struct group *comm_group_create(struct comm *comm, struct executor *executor, const char *name);
void comm_group_destroy(struct group *group);

#endif
