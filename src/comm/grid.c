#include "comm/grid.h"
#include "base/error.h"

const char *grid_check(const struct grid_shape *shape, int64_t ranks)
{
    const int64_t model = (int64_t)shape->tensor * shape->context;
    if (shape->tensor < 1 || shape->context < 1 || ranks % model != 0)
        return "do not divide into groups that share data";
    if (shape->shard < 0 || (shape->shard > 0 && ranks / shape->tensor % shape->shard != 0))
        return "do not divide into groups that hold the model's state";
    return NULL;
}

int grid_create(struct grid *grid, struct comm *world, const struct grid_shape *shape)
{
    const char *wrong = grid_check(shape, world->size);
    if (wrong != NULL)
        return error_user("%d ranks %s", world->size, wrong);
    const int model = shape->tensor * shape->context;
    grid->world = world;
    grid->node = comm_split_node(world);
    grid->model = comm_split(world, world->rank / model);
    grid->tensor = comm_split(world, world->rank / shape->tensor);
    grid->context = comm_split(grid->model, world->rank % shape->tensor);
    grid->data = comm_split(world, world->rank % shape->tensor);
    const int cuts = shape->shard > 0 ? shape->shard : grid->data->size;
    grid->shard = comm_split(grid->data, grid->data->rank / cuts);
    grid->replicas = comm_split(grid->data, grid->data->rank % cuts);
    grid->data_rank = world->rank / model;
    grid->data_ranks = world->size / model;
    return ERROR_NONE;
}

void grid_destroy(struct grid *grid)
{
    comm_destroy(grid->node);
    comm_destroy(grid->model);
    comm_destroy(grid->tensor);
    comm_destroy(grid->context);
    comm_destroy(grid->data);
    comm_destroy(grid->shard);
    comm_destroy(grid->replicas);
}
