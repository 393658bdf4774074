#include "setup/layout.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/memory.h"
#include "setup/model.h"

#include <stdio.h>
#include <stdlib.h>

static bool shards(const struct deck *deck)
{
    return deck->parallel.shard != DECK_SHARD_NONE;
}

struct grid_shape layout_shape(const struct deck *deck)
{
    const int64_t tensor = deck->parallel.tensor, kv_heads = model_kv_heads_from_deck(deck);
    return (struct grid_shape){.tensor = (int)tensor,
                               .context = (int)deck->parallel.context,
                               .shard = shards(deck) ? (int)deck->parallel.shard_size : 1,
                               .kv_replicas = kv_heads > 0 && kv_heads < tensor ? (int)(tensor / kv_heads) : 1,
                               .stages = (int)deck->parallel.pipeline};
}

/* A tied embedding gets two contributions from each micro-batch on each of the context ranks that share its rows. */
static struct exact_quanta exact_quanta(const struct deck *deck)
{
    const int64_t batch = deck->train.global_batch, rows = deck->train.micro_batch;
    const int64_t micro_batches = (batch + rows - 1) / rows;
    if (!deck->train.reproducible)
        return (struct exact_quanta){0};
    return exact_quanta_of((double)(batch * deck->data.row_tokens),
                           2.0 * (double)(micro_batches * deck->parallel.context));
}

_Static_assert((int)DECK_SHARD_NONE == (int)SHARD_NONE && (int)DECK_SHARD_OPTIMIZER == (int)SHARD_OPTIMIZER &&
                   (int)DECK_SHARD_GRADIENTS == (int)SHARD_GRADIENTS && (int)DECK_SHARD_FULL == (int)SHARD_FULL,
               "decks name the levels of sharding in their order");

struct sharding layout_sharding(const struct deck *deck)
{
    const enum shard_level level = (enum shard_level)deck->parallel.shard;
    return (struct sharding){
        .level = level,
        .whole_gradients = level >= SHARD_GRADIENTS && deck->parallel.reduce == DECK_REDUCE_STEP,
        .bf16_sums = deck->parallel.reduce_as == DECK_COMPUTE_BF16,
        .bf16_gradients = deck->precision.gradients == DECK_COMPUTE_BF16,
        .no_masters = !deck->precision.masters,
        .exact = exact_quanta(deck),
    };
}

struct grid_shape layout_shape_on(const struct deck *deck, int64_t ranks, int64_t block)
{
    struct grid_shape shape = layout_shape(deck);
    const struct sharding sharding = layout_sharding(deck);
    const struct grid_numbers sizes = grid_sizes(&shape, (int)ranks);
    const int64_t near = block > 0 ? layout_neighbours(&sizes, LAYOUT_SHARD, block) : sizes.shard;
    if (sharding_exchanges(&sharding) && near > 1 && near < sizes.shard)
        shape.near = (int)near;
    return shape;
}

struct context_parallel layout_context_parallel(const struct deck *deck, int64_t kv_heads)
{
    struct context_parallel context = {.ranks = (int)deck->parallel.context,
                                       .method = (enum deck_context)deck->parallel.context_method};
    if (context.method == DECK_CONTEXT_AUTO)
        context.method = kv_heads % context.ranks == 0 ? DECK_CONTEXT_HEADS : DECK_CONTEXT_GATHER;
    return context;
}

struct tensor_parallel layout_tensor_parallel(const struct deck *deck, int rank)
{
    const int ranks = (int)deck->parallel.tensor;
    return (struct tensor_parallel){
        .ranks = ranks, .rank = rank % ranks, .sequence = ranks > 1 && deck->parallel.sequence};
}

struct pipeline_parallel layout_pipeline_parallel(const struct deck *deck, int64_t ranks, int rank)
{
    const int stages = (int)deck->parallel.pipeline;
    return (struct pipeline_parallel){.stages = stages,
                                      .stage = (int)(rank / (ranks / stages)),
                                      .chunks = (int)deck->parallel.virtual_stages,
                                      .balance = deck->parallel.pipeline_balance};
}

/* -- Checks ------------------------------------------------------------------------------------------------------- */

/* Checks that the key's number of ranks divides the ranks of one stage and one tensor rank. */
static int check_divides(const char *key, int64_t value, const struct deck *deck, int64_t ranks)
{
    const int64_t others = deck->parallel.tensor * deck->parallel.pipeline, left = ranks / others;
    if (left % value == 0)
        return ERROR_NONE;
    if (others == 1)
        return error_user("key %s = %lld: must divide the number of ranks, %lld", key, (long long)value,
                          (long long)ranks);
    return error_user("key %s = %lld: must divide %lld, which is the number of ranks, %lld, over parallel.%s = %lld",
                      key, (long long)value, (long long)left, (long long)ranks,
                      deck->parallel.pipeline == 1 ? "tensor"
                      : deck->parallel.tensor == 1 ? "pipeline"
                                                   : "tensor x parallel.pipeline",
                      (long long)others);
}

static int check_tensor(const struct deck *deck, int64_t ranks)
{
    const int64_t tensor = deck->parallel.tensor;
    if (ranks % tensor != 0)
        return error_user("key parallel.tensor = %lld: must divide the number of ranks, %lld", (long long)tensor,
                          (long long)ranks);
    const int64_t context = deck->parallel.context > 1 ? deck->parallel.context : 1;
    const int64_t tokens = deck->train.micro_batch * deck->data.row_tokens / context;
    if (deck->parallel.sequence && tokens % tensor != 0)
        return error_user("key parallel.tensor = %lld: must divide the %lld tokens of a micro-batch (train.micro_batch "
                          "x data.row_tokens / parallel.context); parallel.sequence = false accepts any",
                          (long long)tensor, (long long)tokens);
    return ERROR_NONE;
}

static int check_context(const struct deck *deck, int64_t ranks)
{
    enum { SLICE_MULTIPLE = 16 /* the tokens of a row, and of a slice of it, are a multiple of this */ };
    const int64_t context = deck->parallel.context, multiple = 2 * context * SLICE_MULTIPLE;
    if (context <= 1) /* 0: not chosen yet */
        return ERROR_NONE;
    int code = check_divides("parallel.context", context, deck, ranks);
    if (code != ERROR_NONE)
        return code;
    if (deck->data.row_tokens % multiple != 0)
        return error_user("key data.row_tokens = %lld: must be a multiple of %lld with parallel.context = %lld, since "
                          "each rank has two slices of a row, such as %lld",
                          (long long)deck->data.row_tokens, (long long)multiple, (long long)context,
                          (long long)((deck->data.row_tokens / multiple + 1) * multiple));
    return ERROR_NONE;
}

static int check_shard(const struct deck *deck, int64_t ranks)
{
    const int64_t size = deck->parallel.shard_size;
    const int shard = deck->parallel.shard;
    if (size > 0 && !shards(deck))
        return error_user("key parallel.shard_size = %lld: needs a sharding level (parallel.shard); with "
                          "parallel.shard = \"none\" set 0",
                          (long long)size);
    int code = size > 0 ? check_divides("parallel.shard_size", size, deck, ranks) : ERROR_NONE;
    if (code != ERROR_NONE)
        return code;
    if (deck->parallel.reduce != DECK_REDUCE_AUTO && (shard == DECK_SHARD_NONE || shard == DECK_SHARD_OPTIMIZER)) {
        char *reduce = deck_key_text(deck, "parallel.reduce");
        code = error_user("key parallel.reduce = %s: needs parallel.shard = \"gradients\" or \"full\"; otherwise set "
                          "\"auto\" (gradients are whole, and reduced once per step)",
                          reduce);
        free(reduce);
        return code;
    }
    if (deck->parallel.reduce_as == DECK_COMPUTE_BF16 && !shards(deck))
        return error_user("key parallel.reduce_as = \"bf16\": needs a sharding level (parallel.shard); with "
                          "parallel.shard = \"none\" set \"fp32\"");
    return ERROR_NONE;
}

static int check_pipeline(const struct deck *deck, int64_t ranks)
{
    const int64_t stages = deck->parallel.pipeline, chunks = deck->parallel.virtual_stages;
    if (ranks / deck->parallel.tensor % stages != 0)
        return error_user("key parallel.pipeline = %lld: must divide the number of ranks%s, %lld", (long long)stages,
                          deck->parallel.tensor > 1 ? " over parallel.tensor" : "",
                          (long long)(ranks / deck->parallel.tensor));
    if (stages == 1 && chunks > 1)
        return error_user("key parallel.virtual_stages = %lld: needs parallel.pipeline above 1; set 1",
                          (long long)chunks);
    return ERROR_NONE;
}

static int check_reproducible(const struct deck *deck)
{
    static const char needs[] = "key train.reproducible = true: needs %s";
    if (!deck->train.reproducible)
        return ERROR_NONE;
    if (!deck->device.deterministic)
        return error_user(needs, "device.deterministic = true");
    if (!deck->precision.masters)
        return error_user(needs, "precision.masters = true");
    if (deck->precision.gradients == DECK_COMPUTE_BF16)
        return error_user(needs, "precision.gradients = \"fp32\"");
    if (deck->parallel.reduce_as == DECK_COMPUTE_BF16)
        return error_user(needs, "parallel.reduce_as = \"fp32\"");
    if (deck->parallel.tensor > 1)
        return error_user(needs, "parallel.tensor = 1");
    if (deck->parallel.pipeline > 1)
        return error_user(needs, "parallel.pipeline = 1");
    if (deck->parallel.context == 0)
        return error_user(needs, "a number in parallel.context, since rounding depends on how rows are split");
    if (deck->memory.head_tokens == 0)
        return error_user(needs, "a number in memory.head_tokens, since rounding depends on the head's slices");
    return ERROR_NONE;
}

int layout_check(const struct deck *deck, int64_t ranks)
{
    int code = check_tensor(deck, ranks);
    if (code == ERROR_NONE)
        code = check_pipeline(deck, ranks);
    if (code == ERROR_NONE)
        code = check_context(deck, ranks);
    if (code == ERROR_NONE)
        code = check_shard(deck, ranks);
    if (code == ERROR_NONE)
        code = check_reproducible(deck);
    if (code == ERROR_NONE && !deck->precision.masters && deck->precision.compute != DECK_COMPUTE_BF16)
        code = error_user("key precision.masters = false: makes weights, gradients and moments bf16, and needs "
                          "precision.compute = \"bf16\"");
    if (code == ERROR_NONE && deck->precision.gradients == DECK_COMPUTE_BF16 &&
        deck->precision.compute != DECK_COMPUTE_BF16)
        code = error_user("key precision.gradients = \"bf16\": needs precision.compute = \"bf16\"");
    return code;
}

int layout_most_shared(const struct deck *deck, int64_t ranks)
{
    const int64_t sharing = ranks / deck->parallel.tensor / deck->parallel.pipeline;
    return sharing == 1 ? DECK_SHARD_NONE : DECK_SHARD_FULL;
}

const char *layout_level(int shard)
{
    static const char *const levels[] = {
        [DECK_SHARD_NONE] = "none",
        [DECK_SHARD_OPTIMIZER] = "optimizer",
        [DECK_SHARD_GRADIENTS] = "gradients",
        [DECK_SHARD_FULL] = "full",
    };
    return levels[shard];
}

char *layout_text(const struct deck *deck, int64_t ranks)
{
    const struct grid_shape shape = layout_shape(deck);
    const struct grid_numbers sizes = grid_sizes(&shape, (int)ranks);
    char tensor[64] = "", stages[64] = "";
    if (sizes.tensor > 1)
        snprintf(tensor, sizeof tensor, " x %d tensor ranks%s", sizes.tensor,
                 deck->parallel.sequence ? "" : " (whole sequences)");
    if (sizes.stages > 1)
        snprintf(stages, sizeof stages, " x %d stages of %lld model chunk%s", sizes.stages,
                 (long long)deck->parallel.virtual_stages, deck->parallel.virtual_stages == 1 ? "" : "s");
    return memory_format("%lld rank%s = %d replica%s x %d shard%s (%s)%s%s, context %d", (long long)ranks,
                         ranks == 1 ? "" : "s", sizes.replicas, sizes.replicas == 1 ? "" : "s", sizes.shard,
                         sizes.shard == 1 ? "" : "s", layout_level(deck->parallel.shard), tensor, stages,
                         sizes.context);
}

/* -- Groups ------------------------------------------------------------------------------------------------------- */

int layout_along(const struct grid_numbers *numbers, enum layout_axis axis)
{
    const int along[LAYOUT_AXES] = {[LAYOUT_ALL] = numbers->all,
                                    [LAYOUT_DATA] = numbers->data,
                                    [LAYOUT_SHARD] = numbers->shard,
                                    [LAYOUT_NEAR] = numbers->near,
                                    [LAYOUT_FAR] = numbers->far,
                                    [LAYOUT_REPLICAS] = numbers->replicas,
                                    [LAYOUT_CONTEXT] = numbers->context,
                                    [LAYOUT_TENSOR] = numbers->tensor,
                                    [LAYOUT_KV_REPLICAS] = numbers->kv_replicas,
                                    [LAYOUT_STAGES] = numbers->stages};
    return along[axis];
}

struct comm *layout_comm(const struct grid *grid, enum layout_axis axis)
{
    struct comm *const comms[LAYOUT_AXES] = {
        [LAYOUT_ALL] = grid->world,       [LAYOUT_DATA] = grid->data,     [LAYOUT_SHARD] = grid->shard,
        [LAYOUT_NEAR] = grid->near,       [LAYOUT_FAR] = grid->far,       [LAYOUT_REPLICAS] = grid->replicas,
        [LAYOUT_CONTEXT] = grid->context, [LAYOUT_TENSOR] = grid->tensor, [LAYOUT_KV_REPLICAS] = grid->kv_replicas,
        [LAYOUT_STAGES] = grid->stages};
    return comms[axis];
}

/* Returns the distance between consecutive ranks of a group. */
static int64_t stride_of(const struct grid_numbers *sizes, enum layout_axis axis)
{
    if (axis == LAYOUT_ALL || axis == LAYOUT_TENSOR || axis == LAYOUT_KV_REPLICAS)
        return 1;
    if (axis == LAYOUT_STAGES)
        return (int64_t)sizes->tensor * sizes->data;
    return (int64_t)sizes->tensor * (axis == LAYOUT_REPLICAS ? sizes->shard : axis == LAYOUT_FAR ? sizes->near : 1);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

int64_t layout_neighbours(const struct grid_numbers *sizes, enum layout_axis axis, int64_t node)
{
    const int64_t stride = stride_of(sizes, axis);
    const int64_t near = common_divisor(stride * layout_along(sizes, axis), node) / stride;
    return near > 1 ? near : 1;
}

struct maker {
    const struct grid_numbers *sizes;
    const struct executor *executor;
    layout_make *make;
    void *self;
};

/* own: nearly all of the group's collectives are into memory that it allocates. If they are copies, the executor's
 * collectives are needed seldom, and take their memory then. */
static struct group *make(const struct maker *m, enum layout_axis axis, const char *name, bool own)
{
    struct group *made = m->make(m->self, axis, name);
    const int64_t size = layout_along(m->sizes, axis);
    const int block = m->executor != NULL ? m->executor->node_block : 0;
    made->copies =
        m->executor != NULL && m->executor->copies && (block == 0 || layout_neighbours(m->sizes, axis, block) == size);
    if (made->class != NULL && made->class->connect != NULL && !(own && made->copies))
        made->class->connect(made);
    return made;
}

struct parallel_groups layout_groups(const struct grid_numbers *sizes, const struct executor *executor,
                                     layout_make *make_one, void *self)
{
    const struct maker m = {sizes, executor, make_one, self};
    struct parallel_groups groups = groups_replicated(make(&m, LAYOUT_DATA, "data", false));
    if (sizes->shard > 1) {
        groups.gather = make(&m, LAYOUT_SHARD, "gather", true);
        groups.reduce = make(&m, LAYOUT_SHARD, "reduce", true);
        groups.replicas = sizes->replicas > 1 ? make(&m, LAYOUT_REPLICAS, "replicas", false) : NULL;
        groups.near = sizes->near > 1 ? make(&m, LAYOUT_NEAR, "near", false) : NULL;
        groups.far = sizes->near > 1 ? make(&m, LAYOUT_FAR, "far", false) : NULL;
    }
    if (sizes->context > 1)
        groups.context = make(&m, LAYOUT_CONTEXT, "context", true);
    if (sizes->tensor > 1 || sizes->stages > 1)
        groups.all = make(&m, LAYOUT_ALL, "all", false);
    if (sizes->stages > 1)
        groups.stages = make(&m, LAYOUT_STAGES, "stages", false);
    if (sizes->tensor > 1) {
        groups.tensor = make(&m, LAYOUT_TENSOR, "tensor", true);
        groups.shared = make(&m, LAYOUT_TENSOR, "shared", false);
        groups.kv_replicas = sizes->kv_replicas > 1 && sizes->kv_replicas < sizes->tensor
                                 ? make(&m, LAYOUT_KV_REPLICAS, "kv_replicas", false)
                                 : NULL;
    }
    return groups;
}

static void destroy_group(struct group *group)
{
    if (group != NULL)
        comm_group_destroy(group);
}

void layout_destroy(struct parallel_groups *groups)
{
    destroy_group(groups->gather);
    destroy_group(groups->reduce);
    destroy_group(groups->near);
    destroy_group(groups->far);
    if (groups->replicas != groups->data)
        destroy_group(groups->replicas);
    destroy_group(groups->context);
    destroy_group(groups->tensor);
    destroy_group(groups->shared);
    destroy_group(groups->kv_replicas);
    destroy_group(groups->stages);
    if (groups->all != groups->data)
        destroy_group(groups->all);
    destroy_group(groups->data);
    *groups = (struct parallel_groups){0};
}
