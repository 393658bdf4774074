/* Training with a frozen trunk, and with LoRA and its dropout. With a frozen trunk the head has the losses and
 * gradients, to the bit, of a training of everything, until an update. No frozen weight changes; frozen units have no
 * remainders, gradients or moments, and their weights are gathered once; a frozen trunk has no backward, and with LoRA
 * the first block computes no gradient of its input. Every sharding level, tensor, context and pipeline ranks, bf16, 8
 * bits, offload, recompute and replays give the training of one rank. A checkpoint has no moments of frozen units,
 * continues to the bit, and does not become a training of everything. Injected faults: lost sums of gradients, and a
 * gather of frozen weights that is lost.
 *
 * ranks: 4 */
#include "checkpoints.h"

#include "cpu/cpu.h"
#include "ref/team_layouts.h"
#include "ref/wrapper.h"

#include <mpi.h>

static struct executor *cpu;
static bool adapts; /* LoRA; else a frozen trunk */

static struct form freezing(struct form form)
{
    form.frozen = !adapts;
    form.adapted = adapts;
    form.dropout = adapts ? 0.25 : 0;
    return form;
}

/* -- One rank ----------------------------------------------------------------------------------------------------- */

static int norms; /* backwards of norms */

/* Launches that only a backward of blocks has, and with LoRA of the embedding. */
static void count_backward(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    *(int *)wrapper->self += (op == OP_ATTENTION_BACKWARD && !adapts) || op == OP_EMBEDDING_BACKWARD;
    norms += op == OP_RMSNORM_BACKWARD;
    wrapper_pass(wrapper, stream, op, args);
}

static void gather_weights(struct team *team, float **weights)
{
    *weights = memory_allocate(team->elements * (int64_t)sizeof **weights);
    CHECK(team_gather(team, TEAM_WEIGHT, *weights));
}

/* Compares what is frozen (trained = false) or what is trained, parameter by parameter. */
static bool same_units(const struct model *model, const float *a, const float *b, bool trained)
{
    bool same = true;
    int64_t at = 0;
    for (int u = 0; u < model->unit_count; u++) {
        const struct unit *unit = &model->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            const int64_t class = p->storage == STORAGE_VECTOR ? unit->elements[STORAGE_MATRIX] : 0;
            const int64_t first = at + class + p->offset, bytes = p->rows * p->cols * (int64_t)sizeof *a;
            if (unit->frozen != trained)
                same &= memcmp(a + first, b + first, (size_t)bytes) == 0;
        }
        at += unit_elements(unit);
    }
    return same;
}

static void check_memory(const struct team *team)
{
    struct weight_store *store = team->toy.engine.store;
    for (int u = 0; u < team->toy.model.unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            struct unit *unit = &team->toy.model.units[u];
            const struct store_shard shard = store->class->shard(store, unit, (enum storage_class)s);
            const bool trains = !unit->frozen && unit->elements[s] > 0;
            CHECK(tensor_present(&shard.gradient) == trains && tensor_present(&shard.m) == trains &&
                  tensor_present(&shard.v) == trains);
            CHECK(tensor_present(&shard.weight.low) == (trains && team->form.compute == DTYPE_BF16));
        }
}

static void test_one(enum toy_kind kind, enum dtype compute)
{
    const struct layout layout = {.context = 1, .shard = 1};
    struct form form =
        freezing((struct form){.kind = kind, .packed = true, .micro_batches = 2, .compute = compute, .slots = 1});
    struct team frozen, all;
    struct wrapper wrapper;
    struct comm *self = comm_self();
    int backwards = 0;
    float *before, *after;
    wrapper_create(&wrapper, cpu, count_backward, &backwards);
    team_create(&frozen, self, &wrapper.executor, &layout, &form);
    form.frozen = form.adapted = false;
    form.gathers = true; /* not tied either */
    team_create(&all, self, cpu, &layout, &form);
    check_memory(&frozen);
    gather_weights(&frozen, &before);
    norms = 0;
    struct run_outcome of_frozen = team_train(&frozen), of_all = team_train(&all);
    gather_weights(&frozen, &after);
    CHECK(backwards == 0);
    if (adapts && kind == TOY_LLAMA) /* two in each block, but one in the first; and the head's */
        CHECK(norms == TEAM_STEPS * form.micro_batches * 2 * (int)frozen.toy.model.settings.layers);
    CHECK(adapts || (of_frozen.losses[0] == of_all.losses[0] && of_frozen.norms[0] < of_all.norms[0]));
    CHECK(adapts || same_units(&frozen.whole, of_frozen.first, of_all.first, true));
    CHECK(same_units(&frozen.whole, before, after, false) && !same_units(&frozen.whole, before, after, true));
    CHECK(of_frozen.losses[TEAM_STEPS - 1] != of_all.losses[TEAM_STEPS - 1]);
    memory_free(before);
    memory_free(after);
    outcome_destroy(&of_frozen);
    outcome_destroy(&of_all);
    team_destroy(&frozen);
    team_destroy(&all);
    comm_destroy(self);
}

/* -- Layouts ------------------------------------------------------------------------------------------------------ */

static void test_shardings(void)
{
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        struct form form =
            freezing((struct form){.kind = kind, .packed = true, .micro_batches = 2, .slots = 1, .poisoned = true});
        CHECK(shardings_are_near(world, cpu, &form));
    }
}

static void test_layouts(void)
{
    static const struct form forms[] = {{.kind = TOY_LLAMA, .replays = true},
                                        {.kind = TOY_LLAMA, .offloaded = true},
                                        {.kind = TOY_ESM2, .recompute = DECK_RECOMPUTE_FULL, .poisoned = true},
                                        {.kind = TOY_AMPLIFY, .recompute = DECK_RECOMPUTE_QKV}};
    for (int i = 0; i < LENGTH(forms); i++) {
        struct form form = freezing(forms[i]);
        form.layers = 4;
        form.packed = true;
        form.micro_batches = 4;
        form.slots = 1;
        CHECK(layouts_are_near(world, cpu, &form));
    }
}

/* The MLP in slices of tokens gives the same training with adapters. */
static void test_slices(void)
{
    struct form form = {
        .kind = TOY_LLAMA, .packed = true, .micro_batches = 2, .slots = 1, .adapted = true, .dropout = 0.25};
    const struct layout layout = {.context = 1, .shard = 2, .sharding.level = SHARD_GRADIENTS};
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    form.mlp_tokens = 20;
    CHECK(layout_is_near(world, cpu, &layout, &form, &alone, true));
    outcome_destroy(&alone);
}

/* Stages of a pipeline have one rank's micro-batches, so that roundings are the same. */
static void test_rounding(void)
{
    static const int recipes[] = {DECK_RECIPE_NONE, DECK_RECIPE_DELAYED, DECK_RECIPE_BLOCK};
    for (int i = 0; i < LENGTH(recipes); i++) {
        const struct form form = freezing((struct form){.kind = TOY_LLAMA,
                                                        .layers = 4,
                                                        .packed = true,
                                                        .micro_batches = 4,
                                                        .slots = 1,
                                                        .compute = DTYPE_BF16,
                                                        .recipe = recipes[i]});
        struct run_outcome alone = train_alone(world, cpu, &form, false);
        CHECK(layout_is_near(world, cpu, &team_layouts[TEAM_LAYOUTS - 1], &form, &alone, true));
        outcome_destroy(&alone);
    }
}

static void count_gathered(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_ALL_GATHER)
        *(int64_t *)wrapper->self += tensor_count(&((const struct all_gather_args *)args)->out);
    wrapper_pass(wrapper, stream, op, args);
}

/* Whole frozen weights are gathered once, trained ones after each update too. */
static void test_gathers(void)
{
    const struct form form = freezing((struct form){.kind = TOY_LLAMA, .packed = true, .micro_batches = 2, .slots = 1});
    const struct layout layout = {.context = 1, .shard = 4, .sharding.level = SHARD_OPTIMIZER};
    int64_t gathered = 0, all = 0, trained = 0;
    struct wrapper wrapper;
    struct team team;
    wrapper_create(&wrapper, cpu, count_gathered, &gathered);
    team_create(&team, world, &wrapper.executor, &layout, &form);
    gathered = 0;
    for (int step = 0; step < TEAM_STEPS; step++)
        team_step(&team, step);
    for (int u = 0; u < team.toy.model.unit_count; u++) {
        const struct unit *unit = &team.toy.model.units[u];
        const int64_t padded = unit_aligned((unit_elements(unit) + 3) / 4) * 4;
        all += padded;
        trained += unit->frozen ? 0 : padded;
    }
    CHECK(trained > 0 && gathered == all + (TEAM_STEPS - 1) * trained);
    team_destroy(&team);
}

/* -- Faults ------------------------------------------------------------------------------------------------------- */

/* Loses what one kind of collective brings from other ranks, of which self points to the op. */
static void lose(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    wrapper_pass(wrapper, stream, op, args);
    if (op != *(const enum op *)wrapper->self)
        return;
    const struct tensor out = op == OP_ALL_GATHER ? ((const struct all_gather_args *)args)->out
                                                  : ((const struct reduce_scatter_args *)args)->out;
    wrapper_pass(wrapper, stream, OP_FILL,
                 &(struct fill_args){.x = tensor_vector(out.data, out.dtype, tensor_count(&out)), .value = 0});
}

static void test_faults(void)
{
    static const enum op lost[] = {OP_ALL_GATHER, OP_REDUCE_SCATTER};
    const struct form form = freezing((struct form){.kind = TOY_LLAMA, .packed = true, .micro_batches = 2, .slots = 1});
    const struct layout layout = {.context = 1, .shard = 4, .sharding.level = SHARD_FULL};
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    for (int i = 0; i < LENGTH(lost); i++) {
        struct wrapper wrapper;
        enum op op = lost[i];
        wrapper_create(&wrapper, cpu, lose, &op);
        CHECK(!layout_is_near(world, &wrapper.executor, &layout, &form, &alone, false));
    }
    outcome_destroy(&alone);
}

/* -- Files -------------------------------------------------------------------------------------------------------- */

static void test_files(enum dtype compute)
{
    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct training saved, restarted, whole;
    settings.freeze = adapts ? DECK_FREEZE_NONE : DECK_FREEZE_TRUNK;
    if (adapts) {
        settings.lora = (struct lora_settings){.rank = 2, .alpha = 4};
        CHECK(lora_read_targets(&settings.lora, settings.family, "q_proj,v_proj,down_proj") == ERROR_NONE);
    }
    training_create(&saved, world, &settings, compute);
    train(&saved, 2);
    char *path = save_step(&saved);
    CHECK(file_has(path, "model/model.embed_tokens.weight") && !file_has(path, "optim/m/model.embed_tokens.weight"));
    CHECK(file_has(path, "optim/m/lm_head.weight") == !adapts &&
          file_has(path, "optim/v/model.norm.weight") == !adapts);
    CHECK(file_has(path, "optim/v/model.layers.1.mlp.down_proj.lora_B.weight") == adapts);
    training_create(&restarted, world, &settings, compute);
    engine_initialise(&restarted.toy.engine, 99);
    CHECK(checkpoint_read(world, &restarted.toy.engine, path, true) == ERROR_NONE);
    CHECK(same_bits(&saved.toy.engine, &restarted.toy.engine));
    CHECK(train(&saved, 2) == train(&restarted, 2));
    CHECK(same_bits(&saved.toy.engine, &restarted.toy.engine));
    settings.freeze = DECK_FREEZE_NONE;
    settings.lora.rank = 0;
    training_create(&whole, world, &settings, compute);
    CHECK(checkpoint_read(world, &whole.toy.engine, path, true) == ERROR_USER);
    CHECK(world->rank != 0 || strstr(error_printed(), "/optim/m/model.embed_tokens.weight: is missing") != NULL);
    error_clear();
    CHECK(checkpoint_read(world, &whole.toy.engine, path, false) == (adapts ? ERROR_USER : ERROR_NONE));
    error_clear();
    training_destroy(&whole);
    training_destroy(&restarted);
    training_destroy(&saved);
    free(path);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    folder = rank_folder_create(world, "t_frozen");
    for (int mode = 0; mode < 2; mode++) {
        adapts = mode == 1;
        for (int kind = 0; kind < TOY_KINDS; kind++) {
            test_one((enum toy_kind)kind, DTYPE_F32);
            test_one((enum toy_kind)kind, DTYPE_BF16);
        }
        test_shardings();
        test_layouts();
        test_rounding();
        test_gathers();
        test_faults();
        test_files(DTYPE_F32);
        test_files(DTYPE_BF16);
    }
    test_slices();
    rank_folder_remove(world, folder);
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
