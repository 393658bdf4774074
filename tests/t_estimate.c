/* The estimate of a deck matches the engine that it becomes on each rank, for toys of every family: FLOPs in three
 * conventions, memory, traffic of groups, ranks of a group on one node, which groups sum quantized operands over nodes,
 * and when the embedding's gradient is gathered. */
#include "check.h"

#include "base/error.h"
#include "cpu/cpu.h"
#include "architecture/flops.h"
#include "model/linear.h"
#include "plan/plan.h"
#include "ref/toy.h"
#include "state/snapshot.h"
#include "estimate/estimate.h"
#include "setup/layout.h"
#include "setup/settings.h"
#include "setup/model.h"

#include <string.h>

/* -- FLOPs ------------------------------------------------------------------------------------------------------- */

static struct model_settings preset(const char *name)
{
    struct deck deck;
    struct model_settings settings;
    deck_defaults(&deck);
    snprintf(deck.model.preset, sizeof deck.model.preset, "%s", name);
    CHECK(model_settings_from_deck(&settings, &deck, 0) == ERROR_NONE);
    return settings;
}

/* Of a window of 3 in a segment of 8: 1, 2, and 6 times 3 keys. A layer without a window sees all. */
static void test_window_flops(void)
{
    CHECK_NEAR(flops_keys(8, true, 0), 4.5, 1e-15, 0);
    CHECK_NEAR(flops_keys(8, true, 3), 21.0 / 8, 1e-15, 0);
    CHECK_NEAR(flops_keys(8, true, 8), 4.5, 1e-15, 0);
    CHECK_NEAR(flops_keys(8, true, 9), 4.5, 1e-15, 0);
    CHECK_NEAR(flops_keys(8, false, 0), 8, 1e-15, 0);
    struct model_settings s = preset("mistral_7b_v01"), all = s, some = s;
    CHECK(s.sliding_window == 4096 && preset("mistral_7b_v03").sliding_window == 0);
    all.sliding_window = 0;
    some.max_window_layers = 24;
    const double of_all = flops_per_token(&all, 16384, FLOPS_CAUSAL),
                 of_window = flops_per_token(&s, 16384, FLOPS_CAUSAL);
    /* 3 passes, 2 GEMMs, 32 layers, 4096 columns: 16385 / 2 keys, and 4096 * 28674 / 32768 */
    CHECK_NEAR(of_all - of_window, 3 * 2 * 2 * 32 * 4096.0 * (8192.5 - 4096 * 28673.0 / 32768), 1e-12, 0);
    CHECK_NEAR(flops_per_token(&some, 16384, FLOPS_CAUSAL), of_all - (of_all - of_window) / 4, 1e-12, 0);
    CHECK(flops_per_token(&s, 16384, FLOPS_FULL) == flops_per_token(&all, 16384, FLOPS_FULL));
}

/* Figures of the recipes' specification: recipes 8, and the appendix on parallelism (four digits). */
static void test_published_flops(void)
{
    struct model_settings og2 = preset("og2_7b"), llama = preset("llama3_8b");
    CHECK_NEAR(flops_per_token(&og2, 8192, FLOPS_OPENGENOME2) * 384 * 8192, 1.6215e17, 5e-5, 0);
    CHECK_NEAR(flops_per_token(&og2, 8192, FLOPS_CAUSAL), 4.833e10, 2e-4, 0);
    CHECK_NEAR(flops_per_token(&llama, 8192, FLOPS_CAUSAL), 5.147e10, 2e-4, 0);
    CHECK_NEAR(flops_per_token(&llama, 8192, FLOPS_FULL), 5.79e10, 1e-3, 0);
    CHECK_STRING(flops_name(FLOPS_OPENGENOME2), "opengenome2");
    struct model_settings frozen = llama; /* a forward of all, and a backward of the head with 4 FLOPs per element */
    frozen.freeze = DECK_FREEZE_TRUNK;
    CHECK_NEAR(flops_per_token(&frozen, 8192, FLOPS_FULL),
               flops_per_token(&llama, 8192, FLOPS_FULL) / 3 + 4.0 * 4096 * 128256, 1e-12, 0);
    /* NeMo's benchmark of Llama 3.1: 8B in 12.39 s for 128 rows on 8 devices of 1979 TFLOP/s */
    const double full = flops_per_token(&llama, 8192, FLOPS_FULL), rate = 8192 * 128 / 12.39;
    CHECK_NEAR(full, 20937965568.0 + 33822867456.0 + 3152019456.0, 1e-12, 0);
    CHECK_NEAR(rate, 84631, 1e-5, 0);
    CHECK_NEAR(flops_utilisation(full, rate, 8 * 1979e12), 0.3093, 1e-3, 0); /* of a rounded 4.74e14 there */
    CHECK_NEAR(flops_days(FLOPS_QUOTED_TOKENS, rate), 136.76, 1e-4, 0);
    struct deck deck;
    deck_defaults(&deck);
    deck.data.row_tokens = 16384;
    deck.data.window = 0;
    CHECK(settings_of_loader(&deck).window == 16384);
    deck.data.window = 8192;
    CHECK(settings_of_loader(&deck).window == 8192);
}

/* The engine's own step, op by op. Attention's backward makes the scores again: five products for forward's two. */
static void test_step_flops(enum toy_kind kind)
{
    enum { MICRO_BATCHES = 3 };
    struct executor *cpu = cpu_executor_create(1), *plan = plan_executor_create(cpu);
    struct toy_options options = toy_options(plan);
    options.settings = toy_settings(kind);
    options.settings.head_dim = 16; /* heads wider than the residual stream */
    options.max_segments = 1;
    options.head_tokens = 20;
    struct toy toy;
    toy_create(&toy, &options);
    struct batch batches[MICRO_BATCHES];
    for (int m = 0; m < MICRO_BATCHES; m++)
        batch_create(&batches[m], options.rows, options.row_tokens, options.max_segments);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    plan_executor_clear(plan);
    engine_step(&toy.engine, &schedule, batches, 1e-2);

    const struct plan_log *log = plan_executor_log(plan);
    double by_op[OP_COUNT] = {0}, all = 0, length = (double)options.row_tokens;
    double tokens = (double)(MICRO_BATCHES * options.rows * options.row_tokens);
    for (int64_t e = 0; e < log->count; e++)
        if (log->entries[e].kind == PLAN_LAUNCH)
            by_op[log->entries[e].op] += (double)op_flops(log->entries[e].op, plan_log_args(log, &log->entries[e]));
    for (int op = 0; op < OP_COUNT; op++)
        all += by_op[op];
    /* op_flops counts half of S^2 where attention is causal */
    bool causal = options.settings.family->causal;
    double products = by_op[OP_GEMM] + by_op[OP_EXPERT_GEMM] + by_op[OP_EXPERT_GRADIENT],
           attention = 3 * (causal ? 2 : 1) * by_op[OP_ATTENTION_FORWARD];
    CHECK(products > 0 && attention > 0);
    CHECK(all == (double)plan_log_cost(plan_log_all(log)).flops);
    CHECK(2 * by_op[OP_ATTENTION_BACKWARD] == 5 * by_op[OP_ATTENTION_FORWARD]);
    if (model_has_window(&options.settings)) { /* and of a layer with a window that less half of (S - W)^2 */
        const struct model_settings *s = &options.settings;
        const double outside = 1 - (double)s->sliding_window / length, whole = (double)s->max_window_layers;
        const double halves = whole + ((double)s->layers - whole) * (1 - outside * outside);
        CHECK_NEAR(by_op[OP_ATTENTION_FORWARD], 2 * tokens * (double)(s->heads * s->head_dim) * length * halves, 1e-6,
                   0);
    } else {
        CHECK_NEAR(flops_per_token(&options.settings, options.row_tokens, FLOPS_FULL) * tokens, products + attention,
                   1e-12, 0);
        CHECK_NEAR(flops_per_token(&options.settings, options.row_tokens, FLOPS_CAUSAL) * tokens,
                   products + attention * (causal ? (length + 1) / (2 * length) : 1), 1e-12, 0);
    }
    for (int m = 0; m < MICRO_BATCHES; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    plan->class->destroy(plan);
    cpu->class->destroy(cpu);
}

/* -- The estimate against the engine that a deck becomes --------------------------------------------------------- */

static int64_t (*plain_workspace)(struct executor *executor, enum op op, const void *args);

/* An executor on which those who measure gradients need more than others. */
static int64_t workspace_of_squares(struct executor *executor, enum op op, const void *args)
{
    return plain_workspace(executor, op, args) + (op == OP_SUM_SQUARES ? 1 << 22 : 0);
}

/* Every byte of every category of the engine that a rank makes. */
static void compare_rank(const struct estimate *estimate, const struct deck *deck, int rank, struct executor *executor)
{
    struct model model;
    struct engine engine;
    struct group group = {.name = "data", .rank = rank, .size = (int)estimate->ranks};
    struct engine_settings settings = estimate->setup.engine;
    const struct estimate_rank *kind = &estimate->kinds[rank == 0 ? 0 : 1];
    settings.memory.slots[0] = 1;
    model_create(&model, &estimate->setup.model, deck->train.micro_batch * deck->data.row_tokens,
                 deck->memory.head_tokens);
    const struct parallel_groups groups = groups_replicated(&group);
    engine_create(&engine, executor, &model, &groups, &settings);
    for (int c = 0; c < BUDGET_CATEGORIES; c++)
        if (!CHECK(kind->memory[c] == engine.budget.bytes[c]))
            fprintf(stderr, "    rank %d, %s: estimate %lld, engine %lld\n", rank,
                    budget_category_name((enum budget_category)c), (long long)kind->memory[c],
                    (long long)engine.budget.bytes[c]);
    CHECK(kind->need == budget_total(&engine.budget));
    struct snapshot snapshot;
    snapshot_create(&snapshot, &engine);
    int64_t taken = 0;
    for (int i = 0; snapshot_grow(&snapshot); i++)
        taken += snapshot.buffer_bytes[i];
    CHECK(taken > 0 && taken == snapshot_bytes(&engine) && (rank > 1 || kind->snapshot == taken));
    snapshot_destroy(&snapshot);
    engine_destroy(&engine);
    model_destroy(&model);
}

/* Kinds of ranks: rank 0 and all others, which only differ in what they measure. */
static void compare_ranks(const struct estimate *estimate, const struct deck *deck, struct executor *executor)
{
    const struct estimate_rank *first = &estimate->kinds[0], *others = &estimate->kinds[1];
    const int ranks = (int)estimate->ranks;
    int64_t memory[BUDGET_CATEGORIES];
    CHECK(estimate->kind_count == (ranks > 1 ? 2 : 1));
    compare_rank(estimate, deck, 0, executor);
    for (int rank = 1; rank < ranks; rank++)
        compare_rank(estimate, deck, rank, executor);
    CHECK(estimate_neediest(estimate) == first);
    CHECK(estimate_memory(memory, &estimate->setup, executor) == first->need);
    CHECK(memcmp(memory, first->memory, sizeof memory) == 0);
    if (ranks == 1)
        return;
    CHECK(first->rank == 0 && others->rank == 1);
    CHECK(first->need - others->need > 1 << 20);
    CHECK(first->flops == others->flops && first->groups == others->groups &&
          first->traffic[0].bytes == others->traffic[0].bytes);
}

/* The estimate of each kind of rank against the executor that would run it, and what the ops of one step do. */
static void test_estimate(const struct deck *deck, int ranks, int threads)
{
    struct executor *cpu = cpu_executor_create(threads);
    struct executor_class class = *cpu->class;
    struct estimate estimate;
    plain_workspace = class.workspace;
    class.workspace = workspace_of_squares;
    cpu->class = &class;
    if (!CHECK(estimate_create(&estimate, deck, ranks, threads, cpu, NULL) == ERROR_NONE)) {
        fprintf(stderr, "    %s\n", error_message());
        return;
    }
    CHECK(cpu->workspace_bytes[STREAM_COMPUTE] == 0); /* nothing was asked of the real one */
    compare_ranks(&estimate, deck, cpu);
    const struct estimate_rank *rank = estimate_neediest(&estimate);
    struct model model;
    model_create(&model, &estimate.setup.model, deck->train.micro_batch * deck->data.row_tokens,
                 deck->memory.head_tokens);
    int64_t elements = 0; /* with the padding of flat buffers */
    for (int u = 0; u < model.unit_count; u++)
        elements += model.units[u].elements[STORAGE_MATRIX] + model.units[u].elements[STORAGE_VECTOR];
    const int64_t squares = optimizer_squares(&model, 0);
    CHECK((rank->quantized > 0) == precision_quantizes(&estimate.setup.model.precision));
    model_destroy(&model);

    CHECK(estimate.setup.micro_batches == (22 / 4 + 1 + ranks - 1) / ranks);
    CHECK(estimate.idle_ranks == (ranks > 6 ? ranks - 6 : 0));
    if (ranks == 1) {
        CHECK(rank->groups == 0);
    } else if (CHECK(rank->groups == 1)) { /* gradients, and the sums: losses, labels, squares */
        CHECK_STRING(rank->traffic[0].group, "data");
        double sums = 8.0 * (double)(2 + squares);
        if (precision_delays(&estimate.setup.model.precision)) /* and amaxes */
            sums += 4.0 * (double)operand_count(&estimate.setup.model);
        double wanted = 2.0 * ((double)elements * 4 + sums) * (ranks - 1) / ranks;
        CHECK_NEAR((double)rank->traffic[0].bytes, wanted, 0, (double)rank->traffic[0].collectives);
    }
    /* without recomputation: the convention's products, and seven of attention for its six */
    double tokens = (double)(estimate.setup.micro_batches * deck->train.micro_batch * deck->data.row_tokens);
    double causal = estimate.token_flops[FLOPS_CAUSAL] * tokens, full = estimate.token_flops[FLOPS_FULL] * tokens;
    double length = (double)estimate.setup.train.window, attention = (full - causal) * (length + 1) / (length - 1);
    if (deck->memory.recompute <= DECK_RECOMPUTE_NORMS)
        CHECK_NEAR(rank->flops, causal + attention / 6, 1e-12, 0);
    else
        CHECK(rank->flops > causal + attention / 6);
    estimate_destroy(&estimate);
    cpu->class->destroy(cpu);
}

/* Ranks that share rows do together what one rank does, by each method of attention. */
static void test_shared_rows(void)
{
    struct executor *cpu = cpu_executor_create(1);
    struct deck deck = toy_deck();
    struct estimate alone, shared;
    CHECK(estimate_create(&alone, &deck, 1, 1, cpu, NULL) == ERROR_NONE);
    deck.parallel.context = 2;
    for (int method = DECK_CONTEXT_GATHER; method <= DECK_CONTEXT_RING; method++) {
        deck.parallel.context_method = method;
        if (!CHECK(estimate_create(&shared, &deck, 2, 1, cpu, NULL) == ERROR_NONE)) {
            fprintf(stderr, "    %s\n", error_message());
            continue;
        }
        const struct estimate_rank *rank = estimate_neediest(&shared);
        CHECK_NEAR(2 * rank->flops, alone.kinds[0].flops, 1e-12, 0);
        if (CHECK(rank->groups == 2) && method == DECK_CONTEXT_GATHER) {
            /* of each layer: keys and values (64 columns) of half a micro-batch twice, and their gradients */
            const int64_t bytes = 3 * 3 * 64 * (4 * 128 / 2) * (int64_t)sizeof(float) * shared.setup.micro_batches;
            CHECK_STRING(rank->traffic[0].group, "context");
            CHECK(rank->traffic[0].bytes == bytes);
        }
        estimate_destroy(&shared);
    }
    estimate_destroy(&alone);
    cpu->class->destroy(cpu);
}

/* -- Nodes ------------------------------------------------------------------------------------------------------- */

struct plan_groups {
    struct grid_numbers sizes;
    struct group made[ESTIMATE_GROUPS];
    int count;
};

static struct group *sized_group(void *self, enum layout_axis axis, const char *name)
{
    struct plan_groups *groups = self;
    groups->made[groups->count] = (struct group){.name = name, .size = layout_along(&groups->sizes, axis)};
    return &groups->made[groups->count++];
}

/* Ranks of a sharding group that sum on a node first. */
static int near_of(struct deck *deck, int shard, int shard_size, int tensor, int64_t ranks, int64_t block)
{
    deck->parallel.shard = shard;
    deck->parallel.shard_size = shard_size;
    deck->parallel.tensor = tensor;
    return layout_shape_on(deck, ranks, block).near;
}

/* Which groups make sums of copies, and which sums are divided by nodes. */
static void test_nodes(void)
{
    struct deck deck = toy_deck();
    struct executor copier = {.copies = true, .node_block = 8};
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 1, 16, 8) == 0); /* fp32 sums are not made of all-to-alls */
    deck.parallel.reduce_as = DECK_COMPUTE_BF16;
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 1, 16, 8) == 8 && near_of(&deck, DECK_SHARD_OPTIMIZER, 0, 1, 16, 8) == 8);
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 2, 16, 8) == 4);
    CHECK(near_of(&deck, DECK_SHARD_FULL, 8, 1, 16, 8) == 0); /* a group on one node */
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 8, 16, 8) == 0); /* a group with one rank of each node */
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 1, 16, 16) == 0 && near_of(&deck, DECK_SHARD_FULL, 0, 1, 16, 0) == 0);
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 1, 16, 1) == 0);
    deck.parallel.reduce_as = DECK_COMPUTE_FP32;
    deck.train.reproducible = true;
    CHECK(near_of(&deck, DECK_SHARD_FULL, 0, 1, 16, 8) == 8 && near_of(&deck, DECK_SHARD_GRADIENTS, 0, 1, 16, 4) == 4);
    CHECK(near_of(&deck, DECK_SHARD_OPTIMIZER, 0, 1, 16, 8) == 0); /* whole gradients are scattered in f64 */

    const struct grid_shape shape = {.tensor = 2, .context = 1, .shard = 4};
    struct plan_groups on_two = {.sizes = grid_sizes(&shape, 16)}, on_one = on_two, without = on_two;
    struct parallel_groups groups = layout_groups(&on_two.sizes, &copier, sized_group, &on_two);
    CHECK(groups.tensor->copies && groups.gather->copies && groups.reduce->copies && groups.shared->copies);
    CHECK(!groups.all->copies && !groups.data->copies && !groups.replicas->copies);
    copier.node_block = 0;
    groups = layout_groups(&on_one.sizes, &copier, sized_group, &on_one);
    CHECK(groups.tensor->copies && groups.all->copies && groups.data->copies && groups.replicas->copies);
    copier.copies = false;
    groups = layout_groups(&without.sizes, &copier, sized_group, &without);
    CHECK(!groups.tensor->copies && !groups.all->copies && !groups.replicas->copies);
}

/* -- How the embedding's gradient comes to be that of all ranks -------------------------------------------------- */

static struct group *plan_group(void *self, enum layout_axis axis, const char *name)
{
    struct plan_groups *groups = self;
    const int sizes[] = {[LAYOUT_DATA] = groups->sizes.data,
                         [LAYOUT_SHARD] = groups->sizes.shard,
                         [LAYOUT_REPLICAS] = groups->sizes.replicas,
                         [LAYOUT_CONTEXT] = groups->sizes.context};
    groups->made[groups->count] = (struct group){.name = name, .size = sizes[axis]};
    return &groups->made[groups->count++];
}

/* Bytes that a rank receives in a step in all, where it gathers what the embedding's gradient is made of, or sums it.
 */
static int64_t moved_by(const struct setup *setup, bool gathers, struct executor *cpu)
{
    enum { MOST = 8 };
    const int ranks = (int)setup->ranks, micro_batches = (int)setup->micro_batches;
    struct plan_groups made = {.sizes = grid_sizes(&setup->shape, ranks)};
    const struct parallel_groups groups = layout_groups(&made.sizes, NULL, plan_group, &made);
    struct executor *plan = plan_executor_create(cpu);
    struct setup own = *setup;
    struct model model;
    struct engine engine;
    struct batch batches[MOST];
    struct plan_traffic traffic[ESTIMATE_GROUPS];
    own.model.embedding_ranks = gathers ? ranks : 1;
    setup_create_engine(&own, 0, plan, &groups, &model, &engine);
    for (int m = 0; m < micro_batches; m++)
        batch_create(&batches[m], setup->train.micro_rows, setup->train.row_tokens, setup->engine.memory.max_segments);
    struct schedule schedule = schedule_create(micro_batches, 1, false);
    plan_executor_clear(plan);
    engine_step(&engine, &schedule, batches, 1e-2);
    int64_t bytes = 0;
    const int count = plan_log_traffic(plan_log_all(plan_executor_log(plan)), traffic, ESTIMATE_GROUPS);
    for (int g = 0; g < count; g++)
        bytes += traffic[g].bytes;
    for (int m = 0; m < micro_batches; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    engine_destroy(&engine);
    model_destroy(&model);
    plan->class->destroy(plan);
    return bytes;
}

static bool gathers_with(struct setup *setup, int64_t vocabulary)
{
    struct model model;
    setup->model.vocabulary = vocabulary;
    setup_update(setup);
    model_create(&model, &setup->model, setup->tokens, setup->head_tokens);
    const bool gathers = model.units[0].complete_gradients;
    CHECK(model.settings.embedding_ranks == (gathers ? (int)setup->ranks : 1));
    model_destroy(&model);
    return gathers;
}

struct embedding_case {
    int ranks, context, shard, shard_size, reduce, reduce_as, compute;
    bool token_dropout;
};

/* From some vocabulary on it is gathered: where that moves less, to a few rows. */
static void test_embedding_of(const struct embedding_case *c, struct executor *cpu)
{
    enum { STEP = 8 /* rows: flat buffers without padding */, MOST = 100000 * STEP };
    struct deck deck = toy_deck();
    struct setup setup;
    int64_t summed = STEP, gathered = MOST;
    deck.parallel.context = c->context;
    deck.parallel.shard = c->shard;
    deck.parallel.shard_size = c->shard_size;
    deck.parallel.reduce = c->reduce;
    deck.parallel.reduce_as = c->reduce_as;
    deck.precision.compute = c->compute;
    CHECK(setup_create(&setup, &deck, c->ranks) == ERROR_NONE && setup_complete(&setup, 0, cpu) == ERROR_NONE);
    setup.model.token_dropout = c->token_dropout;
    CHECK(!gathers_with(&setup, summed) && gathers_with(&setup, gathered));
    while (gathered - summed > STEP) {
        const int64_t middle = (summed + gathered) / 2 / STEP * STEP;
        *(gathers_with(&setup, middle) ? &gathered : &summed) = middle;
    }
    for (int i = 0; i < 2; i++) {
        CHECK(gathers_with(&setup, i == 0 ? summed : gathered) == (i == 1));
        const int64_t by_sum = moved_by(&setup, false, cpu);
        const int64_t by_gather = moved_by(&setup, true, cpu);
        if (!CHECK((by_gather < by_sum) == (i == 1)))
            fprintf(stderr, "    %d ranks, shard %d, a vocabulary of %lld: %lld bytes summed, %lld gathered\n",
                    c->ranks, c->shard, (long long)setup.model.vocabulary, (long long)by_sum, (long long)by_gather);
    }
    setup.model.tied = true;
    CHECK(!gathers_with(&setup, MOST));
    setup_destroy(&setup);
}

static void test_embedding(void)
{
    enum { AUTO = DECK_REDUCE_AUTO, STEP = DECK_REDUCE_STEP, FP32 = DECK_COMPUTE_FP32, BF16 = DECK_COMPUTE_BF16 };
    static const struct embedding_case cases[] = {{2, 1, DECK_SHARD_NONE, 0, AUTO, FP32, BF16, false},
                                                  {4, 1, DECK_SHARD_NONE, 0, AUTO, FP32, FP32, true},
                                                  {4, 1, DECK_SHARD_OPTIMIZER, 0, AUTO, FP32, BF16, false},
                                                  {4, 1, DECK_SHARD_OPTIMIZER, 2, AUTO, BF16, BF16, false},
                                                  {2, 1, DECK_SHARD_GRADIENTS, 0, AUTO, FP32, BF16, false},
                                                  {4, 1, DECK_SHARD_GRADIENTS, 2, AUTO, BF16, FP32, false},
                                                  {4, 1, DECK_SHARD_FULL, 2, AUTO, FP32, BF16, true},
                                                  {4, 1, DECK_SHARD_FULL, 0, STEP, FP32, BF16, false},
                                                  {4, 2, DECK_SHARD_FULL, 2, AUTO, FP32, BF16, false}};
    struct executor *cpu = cpu_executor_create(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        test_embedding_of(&cases[i], cpu);
    cpu->class->destroy(cpu);
}

/* Of the nodes that groups along an axis reach, the fewest ranks of a group that one has. */
static int64_t fewest_near(const struct grid_shape *shape, int ranks, enum layout_axis axis, int64_t node)
{
    int64_t fewest = ranks;
    for (int own = 0; own < ranks; own++) {
        const struct grid_numbers at = grid_place(shape, ranks, own);
        int64_t near = 0;
        for (int64_t rank = own / node * node; rank < (own / node + 1) * node; rank++) {
            const struct grid_numbers other = grid_place(shape, ranks, (int)rank);
            near += axis == LAYOUT_REPLICAS  ? other.shard == at.shard
                    : axis == LAYOUT_SHARD   ? other.replicas == at.replicas
                    : axis == LAYOUT_CONTEXT ? rank / shape->context == own / shape->context
                                             : 1;
        }
        fewest = near < fewest ? near : fewest;
    }
    return fewest;
}

static void test_neighbours(void)
{
    int exact = 0;
    for (int ranks = 1; ranks <= 48; ranks++)
        for (int node = 1; node <= ranks; node++)
            for (int size = 1; size <= ranks; size++) {
                const struct grid_shape shape = {.tensor = 1, .context = size, .shard = size};
                if (ranks % node != 0 || ranks % size != 0)
                    continue;
                const struct grid_numbers sizes = grid_sizes(&shape, ranks);
                for (int axis = LAYOUT_DATA; axis <= LAYOUT_CONTEXT; axis++) {
                    const int64_t near = layout_neighbours(&sizes, (enum layout_axis)axis, node);
                    const int64_t fewest = fewest_near(&shape, ranks, (enum layout_axis)axis, node);
                    const bool even = node % size == 0 || size % node == 0;
                    if (!CHECK(near >= 1 && near <= fewest && (!even || near == fewest)))
                        fprintf(stderr, "    %d ranks, nodes of %d, groups of %d, axis %d: %lld, %lld\n", ranks, node,
                                size, axis, (long long)near, (long long)fewest);
                    exact += even;
                }
            }
    CHECK(exact > 1000);
}

/* Sequences beyond a preset's are for those who ask for them. */
static void test_positions(void)
{
    const struct {
        const char *preset;
        int64_t positions, row, window;
        bool fits;
    } cases[] = {
        {"og2_7b", 0, 8192, 0, true},       {"og2_7b", 0, 8208, 0, false},      {"og2_7b", 0, 16384, 8192, true},
        {"og2_7b", 0, 16384, 8193, false},  {"og2_7b", 16384, 16384, 0, true},  {"og2_7b", 4096, 8192, 0, false},
        {"esm2_8m", 0, 1024, 0, true},      {"esm2_8m", 0, 1040, 0, false},     {"esm2_8m", 1042, 1040, 0, true},
        {"esm2_8m", 1040, 1040, 0, false},  {"amplify_120m", 0, 2048, 0, true}, {"amplify_120m", 0, 2064, 0, false},
        {"llama31_8b", 0, 131072, 0, true}, {"", 0, 1 << 20, 0, true}};
    struct executor *cpu = cpu_executor_create(1);
    struct model_settings model;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct deck deck;
        deck_defaults(&deck);
        strcpy(deck.model.preset, cases[i].preset);
        deck.model.positions = cases[i].positions;
        deck.data.row_tokens = cases[i].row;
        deck.data.window = cases[i].window;
        deck.model.vocabulary = 64;
        if (cases[i].preset[0] == '\0')
            deck.model.layers = deck.model.hidden = deck.model.ffn = deck.model.heads = 2, deck.model.head_dim = 2;
        if (!CHECK((settings_of_model(&model, &deck, 0, cpu) == ERROR_NONE) == cases[i].fits))
            fprintf(stderr, "    case %d: %s\n", (int)i, error_message());
        error_clear();
    }
    cpu->class->destroy(cpu);
}

static void test_estimates(void)
{
    struct deck deck = toy_deck();
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        deck.memory.recompute = policy;
        deck.model.tied = policy % 2 ? DECK_TIED_YES : DECK_TIED_NO;
        deck.precision.compute = policy % 3 ? DECK_COMPUTE_BF16 : DECK_COMPUTE_FP32;
        test_estimate(&deck, 1 + policy, 1 + policy % 2);
    }
    test_estimate(&deck, 8, 3);
    deck.memory.recompute = DECK_RECOMPUTE_NORMS;
    test_estimate(&deck, 3, 2);
    deck.data.window = 32; /* attention spans windows */
    deck.data.max_segments = 64;
    test_estimate(&deck, 2, 2);
    for (int recipe = DECK_RECIPE_DELAYED; recipe <= DECK_RECIPE_NVFP4; recipe++) {
        deck.precision.recipe = recipe;
        deck.precision.compute = recipe % 2 ? DECK_COMPUTE_BF16 : DECK_COMPUTE_FP32;
        deck.memory.recompute = recipe % 3 ? DECK_RECOMPUTE_NORMS : DECK_RECOMPUTE_QKV;
        test_estimate(&deck, 1 + recipe % 2, 1);
    }
}

/* A device that has no code for such heads is told of before anything is planned. */
static void test_widest_head(void)
{
    struct executor *cpu = cpu_executor_create(1);
    struct executor_class class = *cpu->class;
    struct executor narrow = {.class = &class};
    struct deck deck = toy_deck();
    struct model_settings model;
    struct estimate estimate;
    class.widest_head = 14;
    CHECK(estimate_create(&estimate, &deck, 1, 1, &narrow, NULL) == ERROR_USER);
    CHECK(strstr(error_message(), "key model.head_dim = 16 (model.hidden / model.heads if it is not set): at most 14 "
                                  "on a GPU") != NULL);
    error_clear();
    class.widest_head = 16;
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(model_settings_check(&model, &narrow) == ERROR_NONE && model_settings_check(&model, cpu) == ERROR_NONE);
    cpu->class->destroy(cpu);
}

/* A GPU that has one scale for a tensor, and what it lacks for more. */
static const char *lacks_blocks(const struct executor *executor, enum scaling scaling)
{
    (void)executor;
    return scaling == SCALING_TENSOR || scaling == SCALING_1X32 ? NULL : "a GPU of a kind";
}

/* A estimate of the small deck with what a recipe and two widths make of it: the text, or the message. */
static void check_quantized(int recipe, int64_t hidden, int64_t ffn, struct executor *target, const char *expected)
{
    struct deck deck = toy_deck();
    struct estimate estimate;
    deck.precision.recipe = recipe;
    deck.memory.recompute = DECK_RECOMPUTE_NONE;
    deck.model.hidden = hidden;
    deck.model.ffn = ffn;
    int code = estimate_create(&estimate, &deck, 1, 1, target, NULL);
    CHECK(code == (strncmp(expected, "key ", 4) == 0 ? ERROR_USER : ERROR_NONE));
    CHECK_STRING(code == ERROR_NONE ? estimate.quantized : error_message(), expected);
    estimate_destroy(&estimate);
    error_clear();
}

static void test_quantized(void)
{
    struct executor *cpu = cpu_executor_create(1);
    struct executor_class class = *cpu->class;
    struct executor gpu = *cpu;
    gpu.class = &class;
    class.lacks_products = lacks_blocks;
    check_quantized(DECK_RECIPE_NONE, 56, 150, &gpu, "nothing");
    check_quantized(DECK_RECIPE_CURRENT, 64, 160, &gpu, "layers 1-3 of 3: current scaling, hybrid, fast sums forward");
    check_quantized(DECK_RECIPE_CURRENT, 64, 160, cpu,
                    "layers 1-3 of 3: current scaling, hybrid, fast sums forward, emulated");
    check_quantized(DECK_RECIPE_MXFP8, 64, 160, &gpu, "layers 1-3 of 3: MXFP8, e4m3, emulated");
    check_quantized(DECK_RECIPE_ROW, 64, 160, &gpu,
                    "key precision.recipe = \"row\": needs a GPU of a kind; \"current\" runs here, and device.kind = "
                    "\"cpu\" emulates it");
    check_quantized(DECK_RECIPE_NVFP4, 64, 160, &gpu,
                    "key precision.recipe = \"nvfp4\": needs a GPU of a kind; \"current\" runs here, and device.kind = "
                    "\"cpu\" emulates it");
    check_quantized(DECK_RECIPE_MXFP8, 64, 144, cpu,
                    "key model.ffn = 144: quantized GEMMs need a multiple of 32, such as 160; precision.linears can "
                    "leave linear layers out");
    check_quantized(DECK_RECIPE_NVFP4, 64, 150, cpu,
                    "key model.ffn = 150: quantized GEMMs need a multiple of 16, such as 160; precision.linears can "
                    "leave linear layers out");
    check_quantized(DECK_RECIPE_CURRENT, 56, 160, cpu,
                    "key model.hidden = 56: quantized GEMMs need a multiple of 16, such as 64; precision.recipe = "
                    "\"none\" accepts any");

    struct deck deck = toy_deck();
    struct model_settings model;
    deck.precision.recipe = DECK_RECIPE_CURRENT;
    deck.model.head_dim = 6; /* 4 query and 2 key heads: 24 and 48 columns */
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_USER);
    CHECK(strstr(error_message(), "key model.heads x head_dim = 24: ") == error_message());
    error_clear();
    deck.model.head_dim = 12; /* 48 and 96 */
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_NONE);
    deck.model.kv_heads = 1; /* 48 and 72 */
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_USER);
    CHECK(strstr(error_message(), "key (model.heads + 2 kv_heads) x head_dim = 72: ") == error_message());
    error_clear();
    snprintf(deck.precision.linears, sizeof deck.precision.linears, "o,up");
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_NONE);
    deck.precision.head = true; /* for 300 tokens */
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_USER);
    CHECK(strstr(error_message(), "key model.vocabulary = 300: ") == error_message());
    error_clear();
    deck.model.vocabulary = 304;
    deck.model.ffn = 150; /* no layer reads it */
    strcpy(deck.precision.fp8_layers, "");
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE && precision_quantizes(&model.precision));
    CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_NONE);
    deck.precision.recipe = DECK_RECIPE_BLOCK; /* what the GPU lacks, the head needs */
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    CHECK(settings_check_precision(&deck, &model, &gpu) == ERROR_USER);
    CHECK(strstr(error_message(), "needs a GPU of a kind") != NULL);
    error_clear();

    /* the head's slices, of which the small deck has 100 tokens of 512 */
    for (int recipe = DECK_RECIPE_CURRENT; recipe <= DECK_RECIPE_MXFP8; recipe++) {
        const bool scales_by_row = recipe == DECK_RECIPE_ROW || recipe == DECK_RECIPE_BLOCK;
        deck.precision.recipe = recipe;
        deck.model.vocabulary = 320;
        deck.memory.head_tokens = 100;
        CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
        CHECK(settings_check_precision(&deck, &model, cpu) == (scales_by_row ? ERROR_USER : ERROR_NONE));
        CHECK(!scales_by_row ||
              strstr(error_message(), "key memory.head_tokens = 100: with precision.head and ") != NULL);
        CHECK(!scales_by_row || strstr(error_message(), "need a multiple of 16 tokens, such as 112") != NULL);
        error_clear();
        deck.memory.head_tokens = 112;
        CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_NONE);
        deck.memory.head_tokens = 513; /* one chunk, of all */
        CHECK(settings_check_precision(&deck, &model, cpu) == ERROR_NONE);
        deck.memory.head_tokens = 511;
        CHECK(settings_check_precision(&deck, &model, cpu) == (scales_by_row ? ERROR_USER : ERROR_NONE));
        error_clear();
    }
    cpu->class->destroy(cpu);
}

/* -- Seconds ------------------------------------------------------------------------------------------------------ */

/* A stage waits (p - 1) / v micro-batches' time for the others, however many there are: 1F1B and interleaved. */
static void test_bubble(struct executor *cpu)
{
    enum { STAGES = 3, FEW = 12, MANY = 24 };
    struct deck deck = toy_deck();
    struct machine_rates rates;
    deck.model.layers = 2 * STAGES;
    deck.data.source = DECK_DATA_RANDOM;
    deck.parallel.pipeline = STAGES;
    rates_default(&rates, 0);
    for (int parts = 1; parts <= 2; parts++) {
        struct estimate few, many;
        deck.parallel.virtual_stages = parts;
        deck.train.global_batch = FEW * deck.train.micro_batch;
        CHECK(estimate_create(&few, &deck, STAGES, 1, cpu, &rates) == ERROR_NONE);
        deck.train.global_batch = MANY * deck.train.micro_batch;
        CHECK(estimate_create(&many, &deck, STAGES, 1, cpu, &rates) == ERROR_NONE);
        CHECK(few.kind_count == many.kind_count && few.kind_count >= STAGES);
        for (int k = 0; k < few.kind_count; k++) {
            const double each = (many.kinds[k].seconds - few.kinds[k].seconds) / (MANY - FEW);
            CHECK_NEAR(few.kinds[k].bubble, (STAGES - 1.0) / parts * each, 1e-9, 0);
            CHECK(few.kinds[k].seconds > FEW * each + few.kinds[k].bubble);
        }
        estimate_destroy(&few);
        estimate_destroy(&many);
    }
}

int main(void)
{
    test_widest_head();
    test_quantized();
    test_positions();
    test_estimates();
    test_neighbours();
    test_nodes();
    test_embedding();
    test_published_flops();
    test_window_flops();
    test_shared_rows();
    struct executor *cpu = cpu_executor_create(1);
    test_bubble(cpu);
    cpu->class->destroy(cpu);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++)
        test_step_flops(kind);
    return check_end();
}
