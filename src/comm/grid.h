/* Key header: the process grid (device mesh): the axes along which ranks are numbered, and the groups of ranks that
 * communicate.
 *
 *   rank = ((stage * data_ranks + data_rank) * context + context_rank) * tensor + tensor_rank
 *
 * A pipeline stage has some of the layers; all other axes and groups lie within one stage. Context-parallel ranks have
 * the same rows, each a part of every row. Tensor-parallel ranks have the same tokens, each a part of every layer. The
 * ranks of a stage with equal tensor_rank have the same part of the model. They form the group `data` (data x context),
 * which reduces gradients; each `shard` consecutive ranks of it own the state once, one shard each. */
#ifndef COMM_GRID_H
#define COMM_GRID_H

#include "comm/comm.h"

/* Number of ranks along each axis. */
struct grid_shape {
    int tensor, context;
    int shard; /* ranks of a sharding group, which own the state of their part of the model once; 0: all of `data` */
    int kv_replicas; /* consecutive tensor ranks with the same key and value heads (kv replicas); 0 and 1: none */
    int stages;      /* pipeline stages; 0 and 1: no pipeline */
    int near;        /* consecutive ranks of a sharding group that share a node; 0 and 1: unknown */
};

struct grid {
    struct comm *world;        /* borrowed */
    struct comm *node;         /* ranks on this node */
    struct comm *model;        /* ranks that read the same rows: tensor x context ranks of this stage */
    struct comm *tensor;       /* tensor-parallel ranks: the same tokens */
    struct comm *kv_replicas;  /* ranks of `tensor` with the same key and value heads */
    struct comm *context;      /* context-parallel ranks: the same rows and the same part of the model */
    struct comm *data;         /* ranks with the same part of the model, over which gradients are reduced */
    struct comm *shard;        /* sharding group: ranks of `data` that together own the state once */
    struct comm *near;         /* ranks of `shard` on this rank's node; NULL before grid_divide */
    struct comm *far;          /* one rank of `shard` on each node, with this rank's index there; NULL as `near` is */
    struct comm *replicas;     /* ranks of `data` that own the same shard as this rank */
    struct comm *stages;       /* one rank of each pipeline stage, with this rank's data and indices */
    int data_rank, data_ranks; /* index and number of the data-parallel ranks, which have different data */
};

/* Returns why the shape does not fit `ranks` ranks, as the end of a sentence that begins with "N ranks"; NULL: it fits.
 * A static string. Local. */
const char *grid_check(const struct grid_shape *shape, int64_t ranks);

/* The sizes of a rank's groups, or the rank's indices in them. `all` is the world. */
struct grid_numbers {
    int all, model, tensor, kv_replicas, context, data, shard, near, far, replicas, stages;
};

/* grid_sizes returns the sizes of the groups, grid_place the indices of rank number `rank` in them. The shape must fit
 * the number of ranks. Local. */
struct grid_numbers grid_sizes(const struct grid_shape *shape, int ranks);
struct grid_numbers grid_place(const struct grid_shape *shape, int ranks, int rank);

/* Two ranks of a stage are of the same kind if, in each of context, shard, replicas, tensor and kv_replicas, both or
 * neither are the group's first rank. Ranks of one kind need the same memory and do the same work. */
enum { GRID_STAGES = 64 /* at most */, GRID_KINDS = 32 * GRID_STAGES };

/* Writes one rank of each kind to kinds, and returns the number of kinds. Local. */
int grid_kinds(const struct grid_shape *shape, int ranks, int kinds[GRID_KINDS]);

/* Makes all communicators but near and far. Collective over world, with the same code on all ranks. ERROR_USER: the
 * shape does not fit. grid_destroy frees them; collective. */
int grid_create(struct grid *grid, struct comm *world, const struct grid_shape *shape);
/* Makes near and far if shape->near > 1; the rest of the shape must equal that of grid_create. Collective over world.
 */
void grid_divide(struct grid *grid, const struct grid_shape *shape);
void grid_destroy(struct grid *grid);

#endif
