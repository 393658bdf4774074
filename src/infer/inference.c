#include "infer/inference.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"
#include "comm/threads.h"
#include "data/tokenizer_member.h"
#include "checkpoint/checkpoint.h"
#include "plan/plan.h"
#include "estimate/fit.h"
#include "setup/layout.h"
#include "setup/model.h"
#include "setup/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MLP_TOKENS = 1 << 16
}; /* of longer batches an MLP is computed in slices (block_is_sliced), which saves memory */
enum { MADE_EXECUTOR = 1, MADE_GRID, MADE_GROUPS, MADE_ENGINE };

static int read_deck(struct inference *inference, const struct checkpoint_meta *meta, struct deck *deck)
{
    int code = deck_read_text(deck, meta->deck_text, inference->path, NULL, 0);
    if (code == ERROR_NONE && meta->tokenizer[0] == '\0')
        code = error_user("%s: its tokenizer is unknown; if it is %s, import the model again with that --tokenizer",
                          inference->path, model_family_from_deck(deck)->learns_from);
    return code == ERROR_NONE ? tokenizer_member_open(&inference->tokenizer, inference->path, meta->tokenizer) : code;
}

/* Returns the length of the longest window: the one in training, or what is left of the model's positions. */
static int64_t longest_window(const struct deck *deck, int64_t trained)
{
    const int64_t positions = model_positions_from_deck(deck) - model_family_from_deck(deck)->extra_positions;
    return MIN(MAX(trained, positions), INT32_MAX); /* batches number their tokens with int32 */
}

static int read_meta(struct inference *inference)
{
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(inference->world, inference->path, &meta);
    if (code != ERROR_NONE)
        return code;
    inference->step = meta.step;
    inference->seed = meta.seed;
    struct deck *deck = deck_create();
    code = read_deck(inference, &meta, deck);
    checkpoint_meta_destroy(&meta);
    if (code == ERROR_NONE)
        code = setup_create_inference(&inference->setup, deck, inference->tokenizer->vocabulary);
    inference->context = inference->setup.train.window;
    if (code == ERROR_NONE)
        inference->longest = longest_window(deck, inference->context);
    memory_free(deck);
    if (code == ERROR_NONE)
        comm_set_timeout(inference->setup.device.timeout);
    return comm_agree(inference->world, code);
}

int inference_open(struct inference *inference, struct comm *world, const char *where, device_make *make_executor)
{
    *inference = (struct inference){.world = world};
    comm_begin_long_work(); /* rank 0 does I/O between the collectives */
    int code = checkpoint_find_model(world, where, &inference->path);
    if (code == ERROR_NONE)
        code = read_meta(inference);
    if (code != ERROR_NONE)
        return code;
    struct comm *node = comm_split_node(world);
    inference->threads = threads_choose(node, 0);
    const struct device_request request = {.kind = DECK_DEVICE_AUTO,
                                           .threads = inference->threads,
                                           .world = world,
                                           .node = node,
                                           .deterministic = true}; /* no kernels are timed */
    code = make_executor(&inference->executor, &request);
    comm_destroy(node);
    if (code != ERROR_NONE)
        return code;
    inference->made = MADE_EXECUTOR;
    return comm_agree(world, model_settings_check(&inference->setup.model, inference->executor));
}

static struct setup setup_for(const struct inference *inference, const struct parallel_groups *groups)
{
    const struct inference_shape *shape = &inference->shape;
    struct setup setup = inference->setup; /* shares the deck, which the inference owns */
    const int ranks = context_ranks(&setup.model.context);
    const bool splits = ranks > 1 && shape->use != MEMORY_GENERATE; /* rows */
    const int64_t multiple = splits ? 2 * ranks : 1;
    const int64_t row_tokens = (shape->tokens + multiple - 1) / multiple * multiple;
    const int64_t ends = shape->segments > shape->least_rows ? shape->segments : shape->least_rows;
    setup.tokens = splits ? row_tokens / ranks : row_tokens;
    if (precision_quantizes(&setup.model.precision) || tensor_ranks(&setup.model.tensor) > 1)
        setup.model.mlp_tokens = 0;
    else if (setup.model.mlp_tokens == 0)
        setup.model.mlp_tokens = MLP_TOKENS;
    if (shape->use == MEMORY_GENERATE)
        setup.head_tokens = ends;
    if (shape->use == MEMORY_LOGITS)
        setup.head_tokens = setup.tokens; /* the logits of any token may be requested */
    setup.engine.memory.longest = shape->longest;
    setup.engine.memory.use = shape->use;
    setup.engine.memory.row_tokens = row_tokens;
    setup.engine.memory.max_segments =
        shape->use == MEMORY_GENERATE ? engine_call_segments(shape->segments, shape->tokens, ranks) : shape->segments;
    setup.engine.sharding.level = groups->gather != NULL ? SHARD_FULL : SHARD_NONE;
    setup.engine.replays = groups->gather == NULL && group_size(groups->tensor) == 1 && ranks == 1;
    setup.engine.sequences = shape->segments;
    setup.engine.positions = shape->positions;
    setup.engine.least_rows = shape->least_rows;
    setup.engine.tensor = inference->grid.tensor;
    setup.engine.context = splits ? inference->grid.context : NULL;
    return setup;
}

/* Plans the engine of this rank. Writes bytes by category, of host memory too; returns those of the device. */
static int64_t plan_memory(const struct inference *inference, const struct parallel_groups *groups,
                           int64_t memory[BUDGET_CATEGORIES])
{
    struct executor *plan = plan_executor_create(inference->executor);
    struct model model;
    struct engine *engine = memory_allocate(sizeof *engine);
    const struct setup setup = setup_for(inference, groups);
    setup_create_engine(&setup, inference->world->rank, plan, groups, &model, engine);
    const int64_t need = budget_total(&engine->budget);
    memcpy(memory, engine->budget.bytes, sizeof engine->budget.bytes);
    engine_destroy(engine);
    model_destroy(&model);
    memory_free(engine);
    plan->class->destroy(plan);
    return need;
}

static int64_t need_with(const struct inference *inference, const struct parallel_groups *groups)
{
    int64_t memory[BUDGET_CATEGORIES];
    return plan_memory(inference, groups, memory);
}

/* Groups for planning, without communicators. */
struct planned {
    struct grid_numbers sizes, place;
    struct group made[LAYOUT_AXES + 2];
    int count;
};

static struct group *plan_group(void *self, enum layout_axis axis, const char *name)
{
    struct planned *planned = self;
    struct group *group = &planned->made[planned->count++];
    *group = (struct group){
        .name = name, .rank = layout_along(&planned->place, axis), .size = layout_along(&planned->sizes, axis)};
    return group;
}

/* Returns whether this rank lacks the memory for all weights of its part, together with what the shape needs. */
static bool lacks_memory(const struct inference *inference, const struct grid_shape *shape)
{
    const struct comm *world = inference->world;
    struct comm *node = comm_split_node(inference->world);
    const int64_t unused = fit_free(inference->executor, node->size);
    comm_destroy(node);
    struct planned planned = {.sizes = grid_sizes(shape, world->size),
                              .place = grid_place(shape, world->size, world->rank)};
    const struct parallel_groups groups = layout_groups(&planned.sizes, NULL, plan_group, &planned);
    return unused > 0 && need_with(inference, &groups) > unused; /* 0: the free memory is unknown */
}

static struct group *make_group(void *self, enum layout_axis axis, const char *name)
{
    const struct inference *inference = self;
    return comm_group_create(layout_comm(&inference->grid, axis), inference->executor, name);
}

int inference_refuse_strands(const struct inference *inference)
{
    return error_user("--both-strands: applies to models of nucleotides only, but %s has the tokenizer %s",
                      inference->path, inference->tokenizer->name);
}

/* Returns what limits a window to inference->longest tokens. */
static const char *limit_of(const struct inference *inference)
{
    return inference->longest > inference->context ? "the positions of this model (model.positions)"
                                                   : "the context that this model was trained with";
}

int inference_choose_precision(struct inference *inference, const char *name)
{
    if (name == NULL)
        return ERROR_NONE;
    if (strcmp(name, "fp32") != 0 && strcmp(name, "bf16") != 0)
        return error_user("--precision %s: must be fp32 or bf16", name);
    if (precision_quantizes(&inference->setup.model.precision))
        return error_user("--precision %s: the model computes in the 8-bit or 4-bit formats of its deck "
                          "(precision.recipe)",
                          name);
    inference->setup.engine.memory.compute = strcmp(name, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
    return ERROR_NONE;
}

int inference_check_context(const struct inference *inference, int64_t context, int64_t least)
{
    if (context == 0)
        context = inference->context;
    if (context < least || context > inference->longest)
        return error_user("--context %lld: must be %lld to %lld, %s", (long long)context, (long long)least,
                          (long long)inference->longest, limit_of(inference));
    if (context > inference->context && inference->world->rank == 0)
        log_warn("--context %lld is more than the context of %lld that the model was trained with; its results may "
                 "make little sense",
                 (long long)context, (long long)inference->context);
    return ERROR_NONE;
}

int inference_check_record(const struct inference *inference, const char *name, int64_t tokens)
{
    if (tokens <= inference->longest)
        return ERROR_NONE;
    return error_user("record %s has %lld tokens, more than %lld, %s; --max-length truncates records",
                      text_short((char[TEXT_SHORT]){0}, name), (long long)tokens, (long long)inference->longest,
                      limit_of(inference));
}

static int set_tensor_parallel(struct inference *inference, int64_t tensor)
{
    const int ranks = inference->world->size;
    if (tensor < 1 || ranks % tensor != 0)
        return error_user("--tensor %lld: must divide the number of ranks, %d", (long long)tensor, ranks);
    inference->setup.model.tensor =
        (struct tensor_parallel){.ranks = (int)tensor, .rank = inference->world->rank % (int)tensor, .sequence = false};
    return tensor_parallel_check(&inference->setup.model, "--tensor");
}

/* Chooses the method of attention: by heads, which computes the same bits as one rank, if they can be divided. */
static void choose_context_method(struct inference *inference, int64_t ranks)
{
    const bool divides = model_kv_heads(&inference->setup.model) % ranks == 0;
    const bool windowed = model_has_window(&inference->setup.model); /* the ring does not know windows */
    inference->setup.model.context =
        (struct context_parallel){.ranks = (int)ranks,
                                  .method = divides    ? DECK_CONTEXT_HEADS
                                            : windowed ? DECK_CONTEXT_GATHER
                                                       : DECK_CONTEXT_RING,
                                  .cache = inference->shape.use == MEMORY_GENERATE && ranks > 1};
}

static int set_context_parallel(struct inference *inference, int64_t context, int64_t tensor)
{
    const int64_t ranks = inference->world->size / tensor;
    if (context < 1 || ranks % context != 0)
        return error_user("--context-parallel %lld: must divide the number of ranks%s, %lld", (long long)context,
                          tensor > 1 ? " over --tensor" : "", (long long)ranks);
    if (context > 1 && inference->shape.use == MEMORY_GENERATE && model_has_window(&inference->setup.model))
        return error_user(
            "--context-parallel %lld: not with a sliding window (model.sliding_window = %lld): ranks that "
            "share a key-value cache do not know windows",
            (long long)context, (long long)inference->setup.model.sliding_window);
    choose_context_method(inference, context);
    return ERROR_NONE;
}

/* Refuses a fine-tuning head where tokens are predicted. */
static int check_head(const struct inference *inference)
{
    if (inference->shape.use == MEMORY_EMBED || inference->setup.model.task.head == DECK_HEAD_LM)
        return ERROR_NONE;
    if (inference->setup.model.task.head == DECK_HEAD_NONE)
        return error_user("%s: has no language-model head (model.head = \"none\"); cistron embed reads its states, and "
                          "cistron train adds a head",
                          inference->path);
    return error_user(
        "%s: has a fine-tuning head (model.head) instead of a language-model head; cistron embed reads its "
        "states, and cistron export writes it for transformers",
        inference->path);
}

int inference_lay_out(struct inference *inference, const struct inference_shape *shape)
{
    const int64_t tensor = shape->tensor != 0 ? shape->tensor : 1, context = shape->context != 0 ? shape->context : 1;
    struct comm *world = inference->world;
    inference->shape = *shape;
    int code = check_head(inference);
    if (code == ERROR_NONE)
        code = set_tensor_parallel(inference, tensor);
    if (code == ERROR_NONE)
        code = set_context_parallel(inference, context, tensor);
    code = comm_agree(world, code);
    if (code != ERROR_NONE)
        return code;
    struct grid_shape grid = {.tensor = (int)tensor,
                              .context = (int)context,
                              .shard = 1,
                              .kv_replicas = model_kv_replicas(&inference->setup.model)};
    const bool shares = world->size > tensor && comm_max_i64(world, shape->shard || lacks_memory(inference, &grid)) > 0;
    grid.shard = shares ? 0 : 1;
    code = comm_agree(world, grid_create(&inference->grid, world, &grid));
    if (code != ERROR_NONE)
        return code;
    inference->made = MADE_GRID;
    const struct grid_numbers sizes = grid_sizes(&grid, world->size);
    inference->groups = layout_groups(&sizes, NULL, make_group, inference);
    inference->made = MADE_GROUPS;
    inference->shares = shares;
    inference->teams = inference->grid.data_ranks;
    inference->team = inference->grid.data_rank;
    inference->has_results = inference->grid.context->rank == 0;
    if (shares && world->rank == 0)
        fprintf(stderr, "# %d ranks share the weights: each has a shard\n", world->size);
    return ERROR_NONE;
}

int64_t inference_need(const struct inference *inference)
{
    return need_with(inference, &inference->groups);
}

int inference_plan(const struct deck *deck, int64_t window, const struct inference_shape *shape,
                   struct executor *executor, int64_t memory[BUDGET_CATEGORIES])
{
    const int64_t ranks = shape->context != 0 ? shape->context : 1;
    struct comm *self = comm_self();
    struct inference inference = {.world = self, .executor = executor, .shape = *shape};
    int64_t vocabulary;
    int code = settings_vocabulary(&vocabulary, deck);
    if (code == ERROR_NONE)
        code = setup_create_inference(&inference.setup, deck, vocabulary);
    if (code == ERROR_NONE) {
        inference.context = inference.setup.train.window;
        inference.longest = longest_window(deck, inference.context);
        code = inference_check_context(&inference, window, 1);
    }
    if (code == ERROR_NONE) {
        const struct grid_shape grid = {.tensor = 1, .context = (int)ranks, .shard = 1, .kv_replicas = 1};
        struct planned planned = {.sizes = grid_sizes(&grid, (int)ranks), .place = grid_place(&grid, (int)ranks, 0)};
        choose_context_method(&inference, ranks);
        const struct parallel_groups groups = layout_groups(&planned.sizes, NULL, plan_group, &planned);
        plan_memory(&inference, &groups, memory);
    }
    setup_destroy(&inference.setup);
    comm_destroy(self);
    return code;
}

int inference_start(struct inference *inference)
{
    const struct setup setup = setup_for(inference, &inference->groups);
    setup_create_engine(&setup, inference->world->rank, inference->executor, &inference->groups, &inference->model,
                        &inference->engine);
    inference->made = MADE_ENGINE;
    return checkpoint_read(inference->world, &inference->engine, inference->path, false);
}

bool inference_begins(const struct inference *inference)
{
    return !inference->setup.train.no_bos && inference->tokenizer->bos >= 0;
}

int inference_diverged(const char *checkpoint)
{
    return error_diverged("%s: the model's results are not finite (NaN or infinite): its training has diverged",
                          checkpoint);
}

void inference_close(struct inference *inference)
{
    if (inference->made >= MADE_ENGINE) {
        engine_destroy(&inference->engine);
        model_destroy(&inference->model);
    }
    if (inference->made >= MADE_GROUPS)
        layout_destroy(&inference->groups);
    if (inference->made >= MADE_GRID)
        grid_destroy(&inference->grid);
    if (inference->made >= MADE_EXECUTOR)
        inference->executor->class->destroy(inference->executor);
    tokenizer_close(inference->tokenizer);
    setup_destroy(&inference->setup);
    free(inference->path);
    inference->made = 0;
    comm_end_long_work();
}
