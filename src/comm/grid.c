#include "comm/grid.h"
#include "base/error.h"

int grid_create(struct grid *grid, struct comm *world, int model_ranks)
{
    if (model_ranks < 1 || world->size % model_ranks != 0)
        return error_user("%d ranks do not divide into groups of %d", world->size, model_ranks);
    grid->world = world;
    grid->node = comm_split_node(world);
    grid->model = comm_split(world, world->rank / model_ranks);
    grid->data = comm_split(world, world->rank % model_ranks);
    return ERROR_NONE;
}

void grid_destroy(struct grid *grid)
{
    comm_destroy(grid->node);
    comm_destroy(grid->model);
    comm_destroy(grid->data);
}
