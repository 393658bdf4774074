/* A communicator without other ranks: this process acts as one rank of a world of any size, and counts what the
 * collectives would cost. It answers them as if each other rank had passed what this one passes; a rule may say what
 * else arrives. Tests use it to run code at thousands of ranks, and plans to count the traffic of that code. */
#ifndef COMM_COUNTING_H
#define COMM_COUNTING_H

#include "comm/comm.h"

/* The cost of collectives, counted by the algorithms of comm/mpi.c and of MPI libraries: trees for barriers, broadcasts
 * and reductions, one message from each rank to rank 0 for gathers. */
struct comm_traffic {
    int64_t collectives;    /* calls of this rank */
    int64_t rounds;         /* messages one after another, from the first rank to the last */
    int64_t messages;       /* sent and received by this rank */
    int64_t bytes;          /* in these messages */
    int64_t world_messages; /* sent by all ranks of this rank's communicators */
    int64_t communicators;  /* made, one after another */
};

enum counting_call { COUNTING_BROADCAST, COUNTING_GATHER, COUNTING_ALL_GATHER, COUNTING_REDUCE, COUNTING_EXCHANGE };

/* Called at the end of a collective. `out` has its result, computed as if each rank had passed what this one passed;
 * the rule may change it. Broadcasts: out is [bytes], which root sends. Gathers: [size * bytes], on ranks that receive
 * them. Reductions: int64_t values, `bytes` of them. Exchanges (all_to_all): [size * bytes], if `empty` is not set. */
typedef void counting_rule(void *self, const struct comm *comm, enum counting_call call, void *out, int64_t bytes,
                           int root);

struct counting_settings {
    int rank, size;
    int node;                     /* consecutive ranks of a node */
    bool empty;                   /* buffers of all_to_all and shift cannot be accessed, and stay as they are */
    struct comm_traffic *traffic; /* borrowed; all communicators made from this one count there too */
    counting_rule *rule;          /* NULL: none */
    void *self;                   /* of the rule */
};

/* Makes the world; free it with comm_destroy. comm_split is fatal: only the other ranks know their colors. */
struct comm *comm_counting(const struct counting_settings *settings);

/* Returns what was counted since `before`. */
struct comm_traffic comm_traffic_since(const struct comm_traffic *now, const struct comm_traffic *before);

#endif
