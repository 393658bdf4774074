/* The rank grid: the axes along which ranks are numbered, and the groups of ranks that work together.
 *
 *   rank = ((stage * data_ranks + data_rank) * context + context_rank) * tensor + tensor_rank
 *
 * The ranks of a stage share a part of the layers, as one stage of a pipeline. All other axes and groups are those of
 * one stage. Context ranks share rows of tokens: each has a part of every row. Tensor ranks share tokens and have a
 * part of every layer. The ranks of one tensor_rank have the same part of the model; they sum its gradients, and divide
 * its state: `shard` of them that follow one another hold it once, each a cut. */
#ifndef COMM_GRID_H
#define COMM_GRID_H

#include "comm/comm.h"

/* How many ranks there are along an axis. */
struct grid_shape {
    int tensor, context;
    int shard;  /* ranks that hold the state of their part of the model once; 0: all that have this part */
    int alike;  /* so many tensor ranks that follow one another have the same key and value heads; 0 and 1: none */
    int stages; /* of a pipeline; 0 and 1: none */
    int near;   /* ranks of a shard group that follow one another and share a node; 0 and 1: not known */
};

struct grid {
    struct comm *world;        /* borrowed */
    struct comm *node;         /* ranks on this node */
    struct comm *model;        /* that share this rank's data: its tensor and context ranks */
    struct comm *tensor;       /* that share this rank's tokens */
    struct comm *alike;        /* of these: that have the same key and value heads */
    struct comm *context;      /* that share this rank's rows and have its part of the model */
    struct comm *data;         /* that have this rank's part of the model; gradients are summed over them */
    struct comm *shard;        /* of these: that hold its state once between them */
    struct comm *near;         /* of `shard`: the ranks on this rank's node; NULL before grid_divide */
    struct comm *far;          /* of `shard`: one rank of each node, at this rank's place on it; likewise */
    struct comm *replicas;     /* of `data`: that hold the same cut as this rank */
    struct comm *stages;       /* one of each stage: those at this rank's place, with its data */
    int data_rank, data_ranks; /* this rank's number among those that have other data than it, and of how many */
};

/* Why the shape does not fit so many ranks, as the end of a sentence that begins with "N ranks"; NULL: it does. A
 * static string. */
const char *grid_check(const struct grid_shape *shape, int64_t ranks);

/* The sizes of a rank's groups, or its numbers in them; `all` are all ranks. `data` and what divides it count ranks of
 * one tensor rank. */
struct grid_numbers {
    int all, model, tensor, alike, context, data, shard, near, far, replicas, stages;
};

/* Of a shape that fits so many ranks; `rank` is one of them. */
struct grid_numbers grid_sizes(const struct grid_shape *shape, int ranks);
struct grid_numbers grid_place(const struct grid_shape *shape, int ranks, int rank);

/* Ranks of a stage are of one kind that are the first, or are not, among those that share their rows, that share the
 * state, that hold the same of it, that share their tokens, and that have the same key and value heads. */
enum { GRID_STAGES = 64 /* at most */, GRID_KINDS = 32 * GRID_STAGES };

/* One rank of each kind; how many there are. */
int grid_kinds(const struct grid_shape *shape, int ranks, int kinds[GRID_KINDS]);

/* Collective. A shape that does not fit is ERROR_USER, the same on all ranks. */
int grid_create(struct grid *grid, struct comm *world, const struct grid_shape *shape);
/* Divides the ranks of `shard` by nodes, where shape->near > 1; the shape is else that of grid_create. Collective. */
void grid_divide(struct grid *grid, const struct grid_shape *shape);
void grid_destroy(struct grid *grid);

#endif
