#include "train/layout.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

static bool shards(const struct deck *deck)
{
    return deck->parallel.shard != DECK_SHARD_NONE;
}

struct grid_shape layout_shape(const struct deck *deck)
{
    return (struct grid_shape){.tensor = 1,
                               .context = (int)deck->parallel.context,
                               .shard = shards(deck) ? (int)deck->parallel.shard_size : 1};
}

struct sharding layout_sharding(const struct deck *deck)
{
    const enum shard_level level = (enum shard_level)deck->parallel.shard;
    return (struct sharding){
        .level = level,
        .whole_gradients = level >= SHARD_GRADIENTS && deck->parallel.reduce == DECK_REDUCE_STEP,
        .bf16_sums = deck->parallel.reduce_as == DECK_COMPUTE_BF16,
        .no_masters = !deck->precision.masters,
    };
}

struct row_cut layout_rows(const struct deck *deck, int64_t kv_heads)
{
    struct row_cut rows = {(int)deck->parallel.context, (enum deck_context)deck->parallel.context_method};
    if (rows.method == DECK_CONTEXT_AUTO)
        rows.method = kv_heads % rows.ranks == 0 ? DECK_CONTEXT_HEADS : DECK_CONTEXT_GATHER;
    return rows;
}

/* -- Mistakes ----------------------------------------------------------------------------------------------------- */

static int check_context(const struct deck *deck, int64_t ranks)
{
    enum { CHUNK = 16 /* tokens that a row's chunk is a multiple of, as a row is */ };
    const int64_t context = deck->parallel.context, multiple = 2 * context * CHUNK;
    if (context <= 1) /* 0: chosen later */
        return ERROR_NONE;
    if (ranks % context != 0)
        return error_user("key parallel.context = %lld: must divide the number of ranks, %lld", (long long)context,
                          (long long)ranks);
    if (deck->data.row_tokens % multiple != 0)
        return error_user("key data.row_tokens = %lld: must be a multiple of %lld with parallel.context = %lld, whose "
                          "ranks have two chunks of a row each, such as %lld",
                          (long long)deck->data.row_tokens, (long long)multiple, (long long)context,
                          (long long)((deck->data.row_tokens / multiple + 1) * multiple));
    return ERROR_NONE;
}

static int check_shard(const struct deck *deck, int64_t ranks)
{
    const int64_t size = deck->parallel.shard_size;
    const int shard = deck->parallel.shard;
    if (size > 0 && !shards(deck))
        return error_user("key parallel.shard_size = %lld: needs parallel.shard, which says what its ranks hold once "
                          "between them; with parallel.shard = \"none\" set 0",
                          (long long)size);
    if (size > 0 && ranks % size != 0)
        return error_user("key parallel.shard_size = %lld: must divide the number of ranks, %lld", (long long)size,
                          (long long)ranks);
    if (deck->parallel.reduce != DECK_REDUCE_AUTO && (shard == DECK_SHARD_NONE || shard == DECK_SHARD_OPTIMIZER)) {
        char *reduce = deck_key_text(deck, "parallel.reduce");
        int code = error_user("key parallel.reduce = %s: for parallel.shard = \"gradients\" or \"full\"; else "
                              "gradients are whole and summed once a step (\"auto\")",
                              reduce);
        free(reduce);
        return code;
    }
    if (deck->parallel.reduce_as == DECK_COMPUTE_BF16 && !shards(deck))
        return error_user("key parallel.reduce_as = \"bf16\": for ranks that share the state; with parallel.shard = "
                          "\"none\" set \"fp32\"");
    return ERROR_NONE;
}

int layout_check(const struct deck *deck, int64_t ranks)
{
    int code = check_context(deck, ranks);
    if (code == ERROR_NONE)
        code = check_shard(deck, ranks);
    if (code == ERROR_NONE && !deck->precision.masters && deck->precision.compute != DECK_COMPUTE_BF16)
        code = error_user("key precision.masters = false: weights, gradients and moments are bf16 then; needs "
                          "precision.compute = \"bf16\"");
    return code;
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
    return memory_format("%lld rank%s = %d replica%s x %d shard%s (%s), context %d", (long long)ranks,
                         ranks == 1 ? "" : "s", sizes.replicas, sizes.replicas == 1 ? "" : "s", sizes.shard,
                         sizes.shard == 1 ? "" : "s", layout_level(deck->parallel.shard), sizes.context);
}

/* -- Groups ------------------------------------------------------------------------------------------------------- */

int layout_along(const struct grid_numbers *numbers, enum layout_axis axis)
{
    const int along[] = {[LAYOUT_DATA] = numbers->data,
                         [LAYOUT_SHARD] = numbers->shard,
                         [LAYOUT_REPLICAS] = numbers->replicas,
                         [LAYOUT_CONTEXT] = numbers->context};
    return along[axis];
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

int64_t layout_neighbours(const struct grid_numbers *sizes, enum layout_axis axis, int64_t node)
{
    const int64_t stride = (int64_t)sizes->tensor * (axis == LAYOUT_REPLICAS ? sizes->shard : 1);
    const int64_t near = common_divisor(stride * layout_along(sizes, axis), node) / stride;
    return near > 1 ? near : 1;
}

struct groups layout_groups(const struct grid_numbers *sizes, layout_make *make, void *self)
{
    struct groups groups = groups_replicated(make(self, LAYOUT_DATA, "data"));
    if (sizes->shard > 1) {
        groups.gather = make(self, LAYOUT_SHARD, "gather");
        groups.reduce = make(self, LAYOUT_SHARD, "reduce");
        groups.replicas = sizes->replicas > 1 ? make(self, LAYOUT_REPLICAS, "replicas") : NULL;
    }
    if (sizes->context > 1)
        groups.context = make(self, LAYOUT_CONTEXT, "context");
    return groups;
}

static void destroy_group(struct group *group)
{
    if (group != NULL)
        comm_group_destroy(group);
}

void layout_destroy(struct groups *groups)
{
    destroy_group(groups->gather);
    destroy_group(groups->reduce);
    if (groups->replicas != groups->data)
        destroy_group(groups->replicas);
    destroy_group(groups->context);
    destroy_group(groups->data);
    *groups = (struct groups){0};
}
