/* Process groups for host data, and the rank grid. Two makers: one process alone (comm_self) and MPI (comm_open_mpi).
 * Only comm/mpi.c and main.c know MPI. Failures inside a collective are fatal (tier b), and so is one that takes longer
 * than the limit. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "core/launch.h"

#include <stdint.h>

struct comm {
    int rank, size;
    const struct comm_class *class;
    void *self;
};

/* What a maker of groups supplies. All are collective; bytes may be beyond 2^31. */
struct comm_class {
    void (*barrier)(struct comm *comm);
    void (*broadcast)(struct comm *comm, void *data, int64_t bytes, int root);
    /* out holds size blocks of `bytes`, in rank order, on every rank. */
    void (*all_gather)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Block r of `in` goes to rank r; block r of `out` came from rank r. */
    void (*all_to_all)(struct comm *comm, const void *in, void *out, int64_t bytes);
    /* Members with equal color form a group, ranked by their rank here. color >= 0. */
    struct comm *(*split)(struct comm *comm, int color);
    /* The members that share a node's memory. */
    struct comm *(*split_node)(struct comm *comm);
    void (*destroy)(struct comm *comm);
};

/* One process alone; needs no MPI. */
struct comm *comm_self(void);
/* All ranks of an initialised MPI (MPI_COMM_WORLD, duplicated). */
struct comm *comm_open_mpi(void);
void comm_destroy(struct comm *comm);

/* Seconds that a collective of this process may take, 0 = any, as it is until this is called. After a tenth of them,
 * and at their end, which is fatal, it is told which ranks are missing. Local; the same on all ranks. */
void comm_set_timeout(double seconds);
/* Between these two the limit is ten times that: some rank reads or writes files, for which the others wait. They may
 * be nested. Local; on all ranks. */
void comm_begin_long_work(void);
void comm_end_long_work(void);
/* The limit that now holds, for makers of groups. */
double comm_limit(void);

void comm_barrier(struct comm *comm);
void comm_broadcast(struct comm *comm, void *data, int64_t bytes, int root);
void comm_all_gather(struct comm *comm, const void *in, void *out, int64_t bytes);
void comm_all_to_all(struct comm *comm, const void *in, void *out, int64_t bytes);
struct comm *comm_split(struct comm *comm, int color);
struct comm *comm_split_node(struct comm *comm);

/* The largest value over all ranks. Collective. */
int64_t comm_max_i64(struct comm *comm, int64_t value);
int64_t comm_sum_i64(struct comm *comm, int64_t value);

/* Collective. Takes each rank's outcome (enum error_code). Every rank returns the code of the lowest rank that failed
 * and has its message recorded; ERROR_NONE when none failed. */
int comm_share(struct comm *comm, int code);
/* comm_share, and rank 0 prints the message to standard error; no message stays recorded. So each mistake is said
 * once, and all ranks take the same way out. */
int comm_agree(struct comm *comm, int code);

/* Minimum, mean and maximum of a value over all ranks. Collective. */
struct comm_spread {
    double minimum, mean, maximum;
};
struct comm_spread comm_spread(struct comm *comm, double value);

/* A group of collectives (core/group.h) over this comm, on the executor's memory. On the host's, sums are taken in rank
 * order. The group borrows the comm; free it with comm_group_destroy. Both are collective. executor NULL: the host. */
struct group *comm_group_create(struct comm *comm, struct executor *executor, const char *name);
void comm_group_destroy(struct group *group);

#endif
