#include "comm/grid.h"
#include "base/error.h"

const char *grid_check(const struct grid_shape *shape, int64_t ranks)
{
    const int64_t model = (int64_t)shape->tensor * shape->context;
    if (shape->tensor < 1 || shape->context < 1 || ranks % model != 0)
        return "do not divide into groups that share data";
    if (shape->alike > 1 && shape->tensor % shape->alike != 0)
        return "do not divide into groups that have the same key and value heads";
    if (shape->shard < 0 || (shape->shard > 0 && ranks / shape->tensor % shape->shard != 0))
        return "do not divide into groups that hold the model's state";
    return NULL;
}

struct grid_numbers grid_sizes(const struct grid_shape *shape, int ranks)
{
    const int data = ranks / shape->tensor, shard = shape->shard > 0 ? shape->shard : data;
    return (struct grid_numbers){.all = ranks,
                                 .model = shape->tensor * shape->context,
                                 .tensor = shape->tensor,
                                 .alike = shape->alike > 1 ? shape->alike : 1,
                                 .context = shape->context,
                                 .data = data,
                                 .shard = shard,
                                 .replicas = data / shard};
}

struct grid_numbers grid_place(const struct grid_shape *shape, int ranks, int rank)
{
    const struct grid_numbers sizes = grid_sizes(shape, ranks);
    const int data = rank / sizes.tensor;
    return (struct grid_numbers){.all = rank,
                                 .model = rank % sizes.model,
                                 .tensor = rank % sizes.tensor,
                                 .alike = rank % sizes.tensor % sizes.alike,
                                 .context = data % sizes.context,
                                 .data = data,
                                 .shard = data % sizes.shard,
                                 .replicas = data / sizes.shard};
}

static int kind_of(const struct grid_numbers *place)
{
    return (place->context > 0) | (place->shard > 0) << 1 | (place->replicas > 0) << 2;
}

int grid_kinds(const struct grid_shape *shape, int ranks, int kinds[GRID_KINDS])
{
    const struct grid_numbers sizes = grid_sizes(shape, ranks);
    int64_t both = sizes.shard; /* where groups of either begin again */
    while (both % sizes.context != 0)
        both += sizes.shard;
    const int64_t begins[] = {0, sizes.shard, both};
    bool known[GRID_KINDS] = {false};
    int count = 0;
    for (int b = 0; b < 3; b++) /* each kind has a rank soon behind a begin */
        for (int64_t data = begins[b]; data <= begins[b] + 2 * sizes.context && data < sizes.data; data++) {
            const int rank = (int)data * sizes.tensor;
            const struct grid_numbers place = grid_place(shape, ranks, rank);
            if (!known[kind_of(&place)])
                kinds[count++] = rank;
            known[kind_of(&place)] = true;
        }
    return count;
}

int grid_create(struct grid *grid, struct comm *world, const struct grid_shape *shape)
{
    const char *wrong = grid_check(shape, world->size);
    if (wrong != NULL)
        return error_user("%d ranks %s", world->size, wrong);
    const struct grid_numbers sizes = grid_sizes(shape, world->size);
    const struct grid_numbers place = grid_place(shape, world->size, world->rank);
    grid->world = world;
    grid->node = comm_split_node(world);
    grid->data_rank = world->rank / sizes.model;
    grid->data_ranks = world->size / sizes.model;
    grid->model = comm_split(world, grid->data_rank);
    grid->tensor = comm_split(world, place.data);
    grid->alike = comm_split(grid->tensor, place.tensor / sizes.alike);
    grid->context = comm_split(grid->model, place.tensor);
    grid->data = comm_split(world, place.tensor);
    grid->shard = comm_split(grid->data, place.replicas);
    grid->replicas = comm_split(grid->data, place.shard);
    return ERROR_NONE;
}

void grid_destroy(struct grid *grid)
{
    comm_destroy(grid->node);
    comm_destroy(grid->model);
    comm_destroy(grid->tensor);
    comm_destroy(grid->alike);
    comm_destroy(grid->context);
    comm_destroy(grid->data);
    comm_destroy(grid->shard);
    comm_destroy(grid->replicas);
}
