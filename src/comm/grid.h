/* The rank grid: rank = data_rank * model_ranks + model_rank. Ranks of one model group share the same data (tensor,
 * context and pipeline parallel ranks will); ranks of one data group hold the same part of the model. */
#ifndef COMM_GRID_H
#define COMM_GRID_H

#include "comm/comm.h"

struct grid {
    struct comm *world; /* borrowed */
    struct comm *node;  /* ranks on this node */
    struct comm *model; /* ranks that share this rank's data */
    struct comm *data;  /* ranks that hold this rank's part of the model */
};

/* Collective. model_ranks must divide the world's size (error_user, the same on all ranks). */
int grid_create(struct grid *grid, struct comm *world, int model_ranks);
void grid_destroy(struct grid *grid);

#endif
