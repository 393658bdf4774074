/* Ranks that shard each layer (tensor parallelism) give one rank's logits without training, also with experts, and with
 * biases and norms of heads one rank's training. Where they gather 8-bit quantized operands, all bits are those of
 * quantizing gathered values. Injected faults: a forgotten maximum, forgotten zeros.
 *
 * ranks: 4 */
#include "check.h"

#include "cpu/cpu.h"
#include "ref/team.h"
#include "ref/wrapper.h"
#include "state/initialise.h"

#include <mpi.h>
#include <string.h>

static struct comm *world, *self;
static struct executor *cpu;

/* -- Without training -------------------------------------------------------------------------------------------- */

enum { READ_TOKENS = 24, READ_HIDDEN = 32, READ_VOCABULARY = 40, READ_ROWS = 3 };

/* What a model says of one sequence: each token's loss and state, the logits of the last. */
struct reading {
    double losses[READ_TOKENS], logits[READ_VOCABULARY];
    float states[READ_TOKENS * READ_HIDDEN], rows[READ_ROWS * READ_VOCABULARY];
};

/* Of a second sequence, so that the first one's logits are the second row. */
static void read_logits(struct engine *engine, const int32_t *tokens, double *logits)
{
    const struct engine_piece pieces[] = {{3, tokens, 2, true}, {1, tokens, READ_TOKENS - 2, false}};
    const struct engine_piece rest[] = {{3, tokens, 1, true}, {1, tokens + READ_TOKENS - 2, 2, true}};
    engine_extend(engine, pieces, 2);
    const struct tensor found = engine_extend(engine, rest, 2);
    for (int v = 0; v < READ_VOCABULARY; v++)
        logits[v] = tensor_get(&found, 1, v);
}

static void read_with(const struct model_settings *settings, const struct parallel_groups *groups, enum memory_use use,
                      struct reading *reading)
{
    const struct engine_settings of = {.memory = {.use = use,
                                                  .compute = DTYPE_F32,
                                                  .statistic = DTYPE_F32,
                                                  .slots = {1},
                                                  .rows = 1,
                                                  .row_tokens = READ_TOKENS,
                                                  .max_segments = 4},
                                       .sequences = 4,
                                       .positions = READ_TOKENS};
    struct model model;
    struct engine engine;
    struct batch batch;
    toy_batch(&batch, 1, READ_TOKENS, 5);
    model_create(&model, settings, READ_TOKENS, 10);
    engine_create(&engine, cpu, &model, groups, &of);
    engine_initialise(&engine, 7);
    if (use == MEMORY_EVALUATE)
        engine_score(&engine, &batch, reading->losses);
    else if (use == MEMORY_EMBED)
        engine_embed(
            &engine, &batch,
            &(struct engine_states){.layers = (int64_t[]){settings->layers}, .count = 1, .vectors = reading->states});
    else if (use == MEMORY_LOGITS)
        engine_logits(&engine, &batch, (int32_t[READ_ROWS]){READ_TOKENS - 1, 0, 7}, READ_ROWS, reading->rows);
    else
        read_logits(&engine, batch.tokens, reading->logits);
    batch_destroy(&batch);
    engine_destroy(&engine);
    model_destroy(&model);
}

static double most_apart(const struct reading *a, const struct reading *b)
{
    double most = 0;
    for (int t = 0; t < READ_TOKENS; t++)
        most = fmax(most, fabs(a->losses[t] - b->losses[t]));
    for (int v = 0; v < READ_VOCABULARY; v++)
        most = fmax(most, fabs(a->logits[v] - b->logits[v]));
    for (int i = 0; i < READ_ROWS * READ_VOCABULARY; i++)
        most = fmax(most, (double)fabsf(a->rows[i] - b->rows[i]));
    for (int i = 0; i < READ_TOKENS * READ_HIDDEN; i++)
        most = fmax(most, (double)fabsf(a->states[i] - b->states[i]));
    return most;
}

/* Ranks that have a part of each layer and of the vocabulary, which they do not divide evenly, each say what one rank
 * alone says. Whole rows are needed to embed and to generate. */
static void test_reading_on(struct comm *comm, enum toy_kind kind)
{
    const struct form form = {.kind = kind};
    const struct layout one = {.context = 1};
    struct model_settings whole = team_settings(&one, &form);
    struct group *own = comm_group_create(self, NULL, "own"), *tensor = comm_group_create(comm, NULL, "tensor");
    const struct parallel_groups alone = groups_replicated(own);
    struct parallel_groups sharded = alone;
    sharded.tensor = tensor;
    for (int whole_rows = 0; whole_rows < 2; whole_rows++) {
        const struct layout layout = {.context = 1, .tensor = comm->size, .whole_rows = whole_rows};
        struct model_settings part = team_settings(&layout, &form);
        part.tensor.rank = comm->rank;
        part.kv_heads = whole.kv_heads = comm->size;
        part.experts = whole.experts = kind == TOY_MIXTRAL ? 2 * comm->size : 0;
        static struct reading wanted, found;
        for (enum memory_use use = MEMORY_EVALUATE; use <= (whole_rows ? MEMORY_GENERATE : MEMORY_EVALUATE); use++) {
            read_with(&whole, &alone, use, &wanted);
            read_with(&part, &sharded, use, &found);
        }
        CHECK(most_apart(&wanted, &(struct reading){0}) > 0.1 && most_apart(&wanted, &found) < 1e-5);
    }
    comm_group_destroy(tensor);
    comm_group_destroy(own);
}

static void test_reading(void)
{
    struct comm *comm = team_comm(world, (const int[]){3, 1});
    if (comm->size == 3) {
        test_reading_on(comm, TOY_LLAMA);
        test_reading_on(comm, TOY_MIXTRAL);
    }
    comm_destroy(comm);
}

/* -- Copies that are gathered ------------------------------------------------------------------------------------ */

/* A maximum over tensor ranks, or the zeros behind the last token, may be left out. */
struct quantized_planter {
    bool alone, nothing_behind;
    int maxima, beside; /* of these launches; gathers and sums of parts beside the units' stream */
};

static void plant_in_quantized(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct quantized_planter *p = wrapper->self;
    const struct all_reduce_args *sum = args;
    const struct fill_args *fill = args;
    p->maxima += op == OP_ALL_REDUCE && sum->maximum;
    p->beside += stream->id == STREAM_EXCHANGE && (op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER);
    if (p->alone && op == OP_ALL_REDUCE && sum->maximum)
        return;
    if (p->nothing_behind && op == OP_FILL && fill->x.rows > 1 && !tensor_contiguous(&fill->x))
        return;
    wrapper_pass(wrapper, stream, op, args);
}

static struct run_outcome train_quantized(const struct layout *layout, const struct form *form,
                                          struct quantized_planter *planter)
{
    struct wrapper wrapper;
    struct team team;
    wrapper_create(&wrapper, cpu, plant_in_quantized, planter);
    team_create(&team, world, &wrapper.executor, layout, form);
    struct run_outcome outcome = team_train(&team);
    team_destroy(&team);
    return outcome;
}

static bool same_bits(const struct run_outcome *a, const struct run_outcome *b)
{
    const size_t gradients = (size_t)a->elements * sizeof *a->first;
    return a->agree && b->agree && memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->norms, b->norms, sizeof a->norms) == 0 && memcmp(a->first, b->first, gradients) == 0 &&
           memcmp(a->last, b->last, gradients) == 0;
}

/* Where tensor ranks gather 8-bit operands, all bits are those of quantizing gathered values. What is gathered has the
 * scale of all ranks: the inputs of two linears and the gradients of two. What ranks have parts of has a scale for each
 * part. Two sums and a gather of each layer's backward run beside products.
 */
static void test_quantized(void)
{
    static const struct {
        enum toy_kind kind;
        int recipe, tensor;
        enum deck_recompute recompute;
        bool split;
    } cases[] = {{TOY_LLAMA, DECK_RECIPE_CURRENT, 2, DECK_RECOMPUTE_NONE, false},
                 {TOY_LLAMA, DECK_RECIPE_DELAYED, 4, DECK_RECOMPUTE_NORMS, true},
                 {TOY_ESM2, DECK_RECIPE_CURRENT, 4, DECK_RECOMPUTE_FULL, false},
                 {TOY_AMPLIFY, DECK_RECIPE_DELAYED, 2, DECK_RECOMPUTE_QKV, false}};
    for (int i = 0; i < LENGTH(cases); i++) {
        const struct layout layout = {.context = 1, .shard = 1, .tensor = cases[i].tensor};
        struct form form = {.kind = cases[i].kind,
                            .packed = true,
                            .micro_batches = 2,
                            .compute = DTYPE_BF16,
                            .recipe = cases[i].recipe,
                            .recompute = cases[i].recompute,
                            .slots = cases[i].split ? 2 : 1,
                            .split_backward = cases[i].split};
        struct quantized_planter plain = {0}, no_maximum = {.alone = true}, no_zeros = {.nothing_behind = true};
        struct run_outcome quantized = train_quantized(&layout, &form, &plain);
        const int64_t layers = TEAM_STEPS * form.micro_batches * toy_settings(form.kind).layers;
        CHECK(i > 0 || (plain.maxima == 4 * layers && plain.beside == 3 * layers));
        struct run_outcome alone = train_quantized(&layout, &form, &no_maximum);
        struct run_outcome nothing = train_quantized(&layout, &form, &no_zeros);
        form.measured = true;
        struct run_outcome values = train_quantized(&layout, &form, &plain);
        if (!CHECK(same_bits(&quantized, &values)) || !CHECK(!same_bits(&quantized, &alone)) ||
            !CHECK(!same_bits(&quantized, &nothing)))
            fprintf(stderr, "    %s\n", team_text(world->size, &layout, &form));
        outcome_destroy(&quantized);
        outcome_destroy(&values);
        outcome_destroy(&alone);
        outcome_destroy(&nothing);
    }
}

/* -- Vectors split and shared -------------------------------------------------------------------------------------- */

/* A Qwen has split biases, and gains of heads whose gradient each rank computes for its own heads; with four ranks two
 * of them have the same key heads. An ESM C and an OLMo 2 have norms over all heads, the tied Llama has a z-loss. */
static void test_heads(enum toy_kind kind)
{
    for (int tensor = 2; tensor <= 4; tensor *= 2) {
        const struct layout layout = {.context = 1, .shard = 1, .tensor = tensor};
        const struct form form = {.kind = kind, .packed = true, .micro_batches = 2, .slots = 1};
        struct form form_alone = form;
        form_alone.micro_batches *= world->size / tensor;
        struct run_outcome alone = train_alone(world, cpu, &form_alone, false);
        struct distances apart;
        if (!CHECK(layout_is_equal(world, cpu, &layout, &form, &alone, &bound_f32, &apart)))
            fprintf(stderr, "    %s: first gradient %.2e, last %.2e\n", team_text(world->size, &layout, &form),
                    apart.first, apart.last);
        outcome_destroy(&alone);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    self = comm_self();
    cpu = cpu_executor_create(1);
    cpu->copies = true; /* as devices do, so that sums have scratch */
    test_reading();
    test_quantized();
    test_heads(TOY_QWEN);
    test_heads(TOY_ESMC);
    test_heads(TOY_OLMO2);
    test_heads(TOY_LLAMA_TIED);
    cpu->class->destroy(cpu);
    comm_destroy(self);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
