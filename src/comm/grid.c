#include "comm/grid.h"
#include "base/error.h"
#include "base/range.h"

static int stages_of(const struct grid_shape *shape)
{
    return MAX(shape->stages, 1);
}

const char *grid_check(const struct grid_shape *shape, int64_t ranks)
{
    const int64_t stage_ranks = ranks / stages_of(shape);
    if (stages_of(shape) > GRID_STAGES || ranks % stages_of(shape) != 0)
        return "cannot be divided into the stages of a pipeline";
    const int64_t model = (int64_t)shape->tensor * shape->context;
    if (shape->tensor < 1 || shape->context < 1 || stage_ranks % model != 0)
        return "cannot be divided into groups that share data";
    if (shape->kv_replicas > 1 && shape->tensor % shape->kv_replicas != 0)
        return "cannot be divided into groups that have the same key and value heads";
    if (shape->shard < 0 || (shape->shard > 0 && stage_ranks / shape->tensor % shape->shard != 0))
        return "cannot be divided into groups that share the model's state";
    if (shape->near > 1 && (shape->shard > 0 ? shape->shard : stage_ranks / shape->tensor) % shape->near != 0)
        return "cannot be divided into groups on nodes";
    return NULL;
}

struct grid_numbers grid_sizes(const struct grid_shape *shape, int ranks)
{
    const int data = ranks / stages_of(shape) / shape->tensor, shard = shape->shard > 0 ? shape->shard : data;
    const int near = MAX(shape->near, 1);
    return (struct grid_numbers){.all = ranks,
                                 .model = shape->tensor * shape->context,
                                 .tensor = shape->tensor,
                                 .kv_replicas = MAX(shape->kv_replicas, 1),
                                 .context = shape->context,
                                 .data = data,
                                 .shard = shard,
                                 .near = near,
                                 .far = shard / near,
                                 .replicas = data / shard,
                                 .stages = stages_of(shape)};
}

struct grid_numbers grid_place(const struct grid_shape *shape, int ranks, int rank)
{
    const struct grid_numbers sizes = grid_sizes(shape, ranks);
    const int stage_ranks = ranks / sizes.stages, data = rank % stage_ranks / sizes.tensor;
    return (struct grid_numbers){.all = rank,
                                 .model = rank % sizes.model,
                                 .tensor = rank % sizes.tensor,
                                 .kv_replicas = rank % sizes.tensor % sizes.kv_replicas,
                                 .context = data % sizes.context,
                                 .data = data,
                                 .shard = data % sizes.shard,
                                 .near = data % sizes.shard % sizes.near,
                                 .far = data % sizes.shard / sizes.near,
                                 .replicas = data / sizes.shard,
                                 .stages = rank / stage_ranks};
}

/* Returns the kind of a rank within its stage: one bit for each of five groups, whether the rank is not the group's
 * first. */
static int kind_of(const struct grid_numbers *place)
{
    return (place->context > 0) | (place->shard > 0) << 1 | (place->replicas > 0) << 2 | (place->tensor > 0) << 3 |
           (place->kv_replicas > 0) << 4;
}

int grid_kinds(const struct grid_shape *shape, int ranks, int kinds[GRID_KINDS])
{
    const struct grid_numbers sizes = grid_sizes(shape, ranks);
    int64_t both = sizes.shard; /* the first data index > 0 at which a group of both begins */
    while (both % sizes.context != 0)
        both += sizes.shard;
    const int64_t begins[] = {0, sizes.shard, both};
    const int tensors[] = {0, 1, sizes.kv_replicas}, stage_ranks = ranks / sizes.stages;
    bool known[GRID_KINDS / GRID_STAGES] = {false};
    int first = 0, count = 0;   /* first: kinds of the first stage */
    for (int b = 0; b < 3; b++) /* each kind occurs shortly after a begin */
        for (int64_t data = begins[b]; data <= begins[b] + 2 * sizes.context && data < sizes.data; data++)
            for (int t = 0; t < 3; t++) {
                const int rank = (int)data * sizes.tensor + tensors[t];
                const struct grid_numbers place = grid_place(shape, ranks, rank);
                if (tensors[t] >= sizes.tensor || known[kind_of(&place)])
                    continue;
                kinds[first++] = rank;
                known[kind_of(&place)] = true;
            }
    for (int stage = 0; stage < sizes.stages; stage++)
        for (int i = 0; i < first; i++)
            kinds[count++] = stage * stage_ranks + kinds[i];
    return count;
}

int grid_create(struct grid *grid, struct comm *world, const struct grid_shape *shape)
{
    const char *wrong = grid_check(shape, world->size);
    if (wrong != NULL)
        return error_user("%d ranks %s", world->size, wrong);
    const struct grid_numbers sizes = grid_sizes(shape, world->size);
    const struct grid_numbers place = grid_place(shape, world->size, world->rank);
    *grid = (struct grid){.world = world};
    grid->node = comm_split_node(world);
    grid->data_rank = place.data / sizes.context;
    grid->data_ranks = sizes.data / sizes.context;
    grid->stages = comm_divide(world, world->size / sizes.stages, sizes.stages);
    grid->model = comm_divide(world, 1, sizes.model);
    grid->tensor = comm_divide(world, 1, sizes.tensor);
    grid->kv_replicas = comm_divide(grid->tensor, 1, sizes.kv_replicas);
    grid->context = comm_divide(grid->model, sizes.tensor, sizes.context);
    grid->data = comm_divide(world, sizes.tensor, sizes.data);
    grid->shard = comm_divide(grid->data, 1, sizes.shard);
    grid->replicas = comm_divide(grid->data, sizes.shard, sizes.replicas);
    return ERROR_NONE;
}

void grid_divide(struct grid *grid, const struct grid_shape *shape)
{
    if (shape->near <= 1)
        return;
    grid->near = comm_divide(grid->shard, 1, shape->near);
    grid->far = comm_divide(grid->shard, shape->near, grid->shard->size / shape->near);
}

void grid_destroy(struct grid *grid)
{
    comm_destroy(grid->node);
    comm_destroy(grid->model);
    comm_destroy(grid->tensor);
    comm_destroy(grid->kv_replicas);
    comm_destroy(grid->context);
    comm_destroy(grid->data);
    comm_destroy(grid->shard);
    if (grid->near != NULL) {
        comm_destroy(grid->near);
        comm_destroy(grid->far);
    }
    comm_destroy(grid->replicas);
    comm_destroy(grid->stages);
}
