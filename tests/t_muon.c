/* The optimizer Muon. Steps in double by plain loops (ref/muon.h) are torch.optim.Muon's. An engine's steps, with every
 * rule of the learning rate, and with a step that is skipped, have these weights and momenta, matrix by matrix; only
 * matrices of blocks have Muon, and they have one moment. Every sharding level, tensor, context and pipeline ranks,
 * bf16, 8 bits and replays give the training of one rank. A checkpoint has the momenta, continues to the bit, and is
 * not read by a run with AdamW, nor AdamW's by one with Muon. Injected faults: a lost gather, an iteration of other
 * coefficients, q and k orthogonalized as one.
 *
 * ranks: 4 */
#include "checkpoints.h"

#include "cpu/cpu.h"
#include "ref/muon.h"
#include "ref/team_layouts.h"
#include "ref/wrapper.h"

#include <math.h>
#include <mpi.h>

static struct executor *cpu;

/* -- The reference ------------------------------------------------------------------------------------------------ */

/* Three steps of torch.optim.Muon (PyTorch 2.15) in float64, in the place of bfloat16: lr 0.05, weight decay 0.1. */
static const struct {
    int64_t rows, cols;
    struct muon_settings settings;
    double after[12];
} of_torch[] = {{4,
                 3,
                 {1, 0.95, true, 5, DECK_ADJUST_ORIGINAL},
                 {0.800538413662352, 0.877067553806673, 0.167618839409818, -0.774398159647607, -1.00055632403878,
                  -0.327056408375333, 0.625545732568646, 1.022403702955, 0.413623345652869, -0.562104630549609,
                  -0.980643009487343, -0.480555168736533}},
                {3,
                 4,
                 {1, 0.95, false, 5, DECK_ADJUST_MATCH_RMS_ADAMW},
                 {0.803409144134682, 0.900182899859507, 0.150799521287423, -0.763090831058764, -0.972653262970218,
                  -0.276341325575469, 0.620102527256206, 0.980586737446699, 0.41204535702103, -0.55824304337359,
                  -0.972977053800142, -0.504693953927782}},
                {2,
                 5,
                 {1, 0.95, false, 5, DECK_ADJUST_SPECTRAL_UNCLAMPED},
                 {0.792319707601293, 0.909597890831495, 0.156913576610585, -0.762933679575496, -0.945983543461049,
                  -0.274736803687538, 0.631544730179446, 0.993192663731314, 0.421876527902787, -0.570851478813371}}};

static void test_reference(void)
{
    for (int c = 0; c < LENGTH(of_torch); c++) {
        const int64_t count = of_torch[c].rows * of_torch[c].cols;
        double weight[12], m[12] = {0}, gradient[12];
        for (int64_t i = 0; i < count; i++)
            weight[i] = sin(1.0 + (double)i);
        for (int t = 0; t < 3; t++) {
            for (int64_t i = 0; i < count; i++)
                gradient[i] = cos(0.7 * (double)(i * i) + 3.0 * t);
            muon_reference_step(&of_torch[c].settings, weight, m, gradient, of_torch[c].rows, of_torch[c].cols, 0.05,
                                0.1);
        }
        for (int64_t i = 0; i < count; i++)
            CHECK_NEAR(weight[i], of_torch[c].after[i], 1e-13, 1e-13);
    }
}

/* -- Steps of an engine ------------------------------------------------------------------------------------------- */

enum { STEPS = 5, SKIPPED = 2 /* its norm is not finite */ };

static struct {
    int updates;
    bool injected; /* a fault of the iteration */
} hooked;

/* Spoils the norm of a step; with a fault, iterates with another coefficient. */
static void change(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_GRADIENT_SCALE && hooked.updates++ == SKIPPED)
        *(double *)((const struct gradient_scale_args *)args)->squares.data = INFINITY;
    struct affine_args affine;
    if (op == OP_AFFINE && hooked.injected) {
        affine = *(const struct affine_args *)args;
        affine.diagonal *= 1.01;
        args = &affine;
    }
    wrapper_pass(wrapper, stream, op, args);
}

/* The matrices of a unit in double: state of the optimizer, and the engine's. */
struct matrices {
    double *weight, *m, *gradient;
    int64_t count;
};

static void read_matrices(struct toy *toy, struct unit *unit, struct matrices *to)
{
    const struct store_shard shard = toy->engine.store->class->shard(toy->engine.store, unit, STORAGE_MATRIX);
    const int64_t bytes = unit->elements[STORAGE_MATRIX] * (int64_t)sizeof(double);
    float *weights = memory_allocate(unit->elements[STORAGE_MATRIX] * (int64_t)sizeof(float));
    const double scale = tensor_get(&toy->engine.optimizer.scale, 0, 0);
    master_read(&toy->engine.streams[STREAM_COMPUTE], &shard.weight, weights);
    *to = (struct matrices){memory_allocate(bytes), memory_allocate(bytes), memory_allocate(bytes),
                            unit->elements[STORAGE_MATRIX]};
    for (int64_t i = 0; i < to->count; i++) {
        to->weight[i] = (double)weights[i];
        to->m[i] = tensor_get(&shard.m, 0, i);
        to->gradient[i] = tensor_get(&shard.gradient, 0, i) * scale;
    }
    memory_free(weights);
}

static void free_matrices(struct matrices *matrices)
{
    memory_free(matrices->weight);
    memory_free(matrices->m);
    memory_free(matrices->gradient);
}

/* Returns the L2 distance of two arrays as a share of b's distance from c. */
static double apart(const double *x, const double *y, const double *from, int64_t count)
{
    double squares = 0, length = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += (x[i] - y[i]) * (x[i] - y[i]);
        length += (y[i] - from[i]) * (y[i] - from[i]);
    }
    return length > 0 ? sqrt(squares / length) : squares > 0 ? INFINITY : 0;
}

/* Returns the largest distance of a parameter's step, and of its momentum, from the reference's. joined: the reference
 * has q and k as one matrix, an injected fault. */
static double step_apart(const struct toy *toy, const struct unit *unit, const struct matrices *before,
                         const struct matrices *after, double lr, bool joined)
{
    const struct optimizer_settings *s = &toy->engine.settings.optimizer;
    double worst = 0;
    for (int i = 0; i < unit->parameter_count; i++) {
        const struct parameter *p = &unit->parameters[i];
        if (p->storage != STORAGE_MATRIX)
            continue;
        const int64_t at = p->offset, rows = p->rows + (joined && i == 0 ? unit->parameters[i + 1].rows : 0),
                      bytes = rows * p->cols * (int64_t)sizeof(double), count = rows * p->cols;
        double *weight = memory_allocate(bytes), *m = memory_allocate(bytes);
        memcpy(weight, before->weight + at, (size_t)bytes);
        memcpy(m, before->m + at, (size_t)bytes);
        muon_reference_step(&s->muon, weight, m, after->gradient + at, rows, p->cols, lr * s->muon.lr_factor,
                            s->weight_decay);
        worst = fmax(worst, apart(after->weight + at, weight, before->weight + at, count));
        worst = fmax(worst, apart(after->m + at, m, before->m + at, count));
        memory_free(weight);
        memory_free(m);
    }
    return worst;
}

static bool same_matrices(const struct matrices *x, const struct matrices *y)
{
    const size_t bytes = (size_t)x->count * sizeof(double);
    return memcmp(x->weight, y->weight, bytes) == 0 && memcmp(x->m, y->m, bytes) == 0;
}

/* Returns the largest distance of all steps and blocks. */
static double steps_apart(enum toy_kind kind, enum dtype compute, const struct muon_settings *settings, bool joined)
{
    const double lr = 1e-2;
    double worst = 0;
    struct wrapper wrapper;
    struct toy toy;
    wrapper_create(&wrapper, cpu, change, NULL);
    struct toy_options options = toy_options(&wrapper.executor);
    options.settings = toy_settings(kind);
    options.settings.muon = true;
    options.compute = compute;
    options.muon = *settings;
    toy_create(&toy, &options);
    hooked.updates = 0;
    struct schedule schedule = schedule_create(1, 1, false);
    for (int step = 0; step < STEPS; step++) {
        struct batch batch;
        struct matrices before[8], after;
        toy_batch(&batch, 2, 48, (uint64_t)step + 1);
        for (int u = 0; u < toy.model.unit_count; u++)
            read_matrices(&toy, &toy.model.units[u], &before[u]);
        engine_step(&toy.engine, &schedule, &batch, lr);
        for (int u = 0; u < toy.model.unit_count; u++) {
            const struct unit *unit = &toy.model.units[u];
            read_matrices(&toy, &toy.model.units[u], &after);
            if (step == SKIPPED)
                CHECK(same_matrices(&before[u], &after));
            else if (unit->layer >= 0)
                worst = fmax(worst, step_apart(&toy, unit, &before[u], &after, lr, joined));
            else
                CHECK(after.count == 0 || !same_matrices(&before[u], &after));
            free_matrices(&before[u]);
            free_matrices(&after);
        }
        batch_destroy(&batch);
    }
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    return worst;
}

/* Moments of each unit: one of matrices of blocks, two of everything else. */
static void check_moments(enum toy_kind kind)
{
    struct toy toy;
    struct toy_options options = toy_options(cpu);
    options.settings = toy_settings(kind);
    options.settings.muon = true;
    toy_create(&toy, &options);
    for (int u = 0; u < toy.model.unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            const struct store_shard shard =
                toy.engine.store->class->shard(toy.engine.store, &toy.model.units[u], (enum storage_class)s);
            const bool muon = toy.model.units[u].layer >= 0 && s == STORAGE_MATRIX;
            CHECK(shard.m.cols == shard.weight.value.cols && shard.v.cols == (muon ? 0 : shard.m.cols));
            CHECK(tensor_present(&shard.v) == (shard.v.cols > 0));
        }
    toy_destroy(&toy);
}

static void test_steps(void)
{
    static const struct muon_settings of[] = {{1, 0.95, true, 5, DECK_ADJUST_MATCH_RMS_ADAMW},
                                              {2, 0.9, false, 4, DECK_ADJUST_ORIGINAL},
                                              {0.5, 0.95, true, 5, DECK_ADJUST_SPECTRAL_UNCLAMPED}};
    double worst[2] = {0, 0};
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        check_moments((enum toy_kind)kind);
        for (int i = 0; i < LENGTH(of); i++)
            /* in bf16 not experts: some have fewer tokens than rows, and what is rounding there becomes as large as the
             * rest */
            for (int type = 0; type < (toy_settings((enum toy_kind)kind).experts > 0 ? 1 : 2); type++) {
                const double found =
                    steps_apart((enum toy_kind)kind, type == 0 ? DTYPE_F32 : DTYPE_BF16, &of[i], false);
                worst[type] = fmax(worst[type], found);
            }
    }
    if (world->rank == 0)
        printf("steps are %.2e from Muon in double, in bf16 %.2e\n", worst[0], worst[1]);
    /* the iteration enlarges the smallest singular values, and so roundings, by up to 3.4445^5 = 485; torch's bf16 is
     * 0.11 to 0.22 from float64 for singular values i^-2 */
    CHECK(worst[0] < 485 * 0x1p-23 && worst[1] < 0.3);
    hooked.injected = true;
    CHECK(steps_apart(TOY_LLAMA, DTYPE_F32, &of[0], false) > 1e-3);
    hooked.injected = false;
    CHECK(steps_apart(TOY_LLAMA, DTYPE_F32, &of[0], true) > 1e-3);
}

/* -- Layouts ------------------------------------------------------------------------------------------------------ */

static void test_shardings(void)
{
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        const struct form form = {
            .kind = kind, .packed = true, .micro_batches = 2, .slots = 1, .poisoned = true, .muon = true};
        CHECK(shardings_are_near(world, cpu, &form));
    }
}

static void test_layouts(void)
{
    static const struct form forms[] = {{.kind = TOY_LLAMA, .replays = true},
                                        {.kind = TOY_QWEN, .poisoned = true},
                                        {.kind = TOY_ESM2, .poisoned = true},
                                        {.kind = TOY_AMPLIFY, .recompute = DECK_RECOMPUTE_QKV}};
    for (int i = 0; i < LENGTH(forms); i++) {
        struct form form = forms[i];
        form.muon = true;
        form.layers = 4;
        form.packed = true;
        form.micro_batches = 4;
        form.slots = 1;
        CHECK(layouts_are_near(world, cpu, &form));
    }
}

/* Stages of a pipeline have one rank's micro-batches, so that roundings are the same. */
static void test_rounding(void)
{
    static const int recipes[] = {DECK_RECIPE_NONE, DECK_RECIPE_DELAYED, DECK_RECIPE_BLOCK};
    for (int i = 0; i < LENGTH(recipes); i++) {
        const struct form form = {.kind = TOY_LLAMA,
                                  .layers = 4,
                                  .packed = true,
                                  .micro_batches = 4,
                                  .slots = 1,
                                  .compute = DTYPE_BF16,
                                  .recipe = recipes[i],
                                  .muon = true};
        struct run_outcome alone = train_alone(world, cpu, &form, false);
        CHECK(layout_is_near(world, cpu, &team_layouts[TEAM_LAYOUTS - 1], &form, &alone, true));
        outcome_destroy(&alone);
    }
}

/* Loses what a gather of momenta brings from other ranks: in SHARD_OPTIMIZER the only gather of an update, between the
 * scale and the next forward. */
static void lose(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    wrapper_pass(wrapper, stream, op, args);
    if (op == OP_ALL_GATHER && stream->id == STREAM_COMPUTE) {
        const struct tensor out = ((const struct all_gather_args *)args)->out;
        wrapper_pass(wrapper, stream, OP_FILL,
                     &(struct fill_args){.x = tensor_vector(out.data, out.dtype, tensor_count(&out)), .value = 0});
    }
}

static void test_faults(void)
{
    static const struct layout layouts[] = {{.context = 1, .shard = 4, .sharding.level = SHARD_OPTIMIZER},
                                            {.context = 1, .shard = 1, .tensor = 4, .whole_rows = true}};
    const struct form form = {.kind = TOY_LLAMA, .packed = true, .micro_batches = 2, .slots = 1, .muon = true};
    struct run_outcome alone = train_alone(world, cpu, &form, false);
    for (int i = 0; i < LENGTH(layouts); i++) {
        struct wrapper wrapper;
        wrapper_create(&wrapper, cpu, lose, NULL);
        CHECK(!layout_is_near(world, &wrapper.executor, &layouts[i], &form, &alone, false));
    }
    outcome_destroy(&alone);
}

/* -- Files -------------------------------------------------------------------------------------------------------- */

/* A run with the other optimizer reads the weights alone. */
static void check_refused(const char *path, const struct model_settings *settings, enum dtype compute,
                          const char *message)
{
    struct training other;
    training_create(&other, world, settings, compute);
    CHECK(checkpoint_read(world, &other.toy.engine, path, true) == ERROR_USER);
    CHECK(world->rank != 0 || strstr(error_printed(), message) != NULL);
    error_clear();
    CHECK(checkpoint_read(world, &other.toy.engine, path, false) == ERROR_NONE);
    training_destroy(&other);
}

static void test_files(enum dtype compute)
{
    struct model_settings adamw = toy_settings(TOY_LLAMA), muon = adamw;
    struct training saved, restarted;
    muon.muon = true;
    training_create(&saved, world, &muon, compute);
    train(&saved, 2);
    char *path = save_step(&saved);
    CHECK(file_has(path, "optim/m/model.layers.1.mlp.down_proj.weight"));
    CHECK(!file_has(path, "optim/v/model.layers.1.mlp.down_proj.weight"));
    CHECK(file_has(path, "optim/v/model.embed_tokens.weight") && file_has(path, "optim/v/model.norm.weight"));
    CHECK(file_has(path, "optim/v/model.layers.1.input_layernorm.weight"));
    training_create(&restarted, world, &muon, compute);
    engine_initialise(&restarted.toy.engine, 99);
    CHECK(checkpoint_read(world, &restarted.toy.engine, path, true) == ERROR_NONE);
    CHECK(same_bits(&saved.toy.engine, &restarted.toy.engine));
    CHECK(train(&saved, 2) == train(&restarted, 2));
    CHECK(same_bits(&saved.toy.engine, &restarted.toy.engine));
    training_destroy(&restarted);
    training_destroy(&saved);
    check_refused(path, &adamw, compute, "has the moments of optimizer.kind = \"muon\", and this run has \"adamw\"");
    free(path);
    training_create(&saved, world, &adamw, compute);
    train(&saved, 1);
    path = save_step(&saved);
    training_destroy(&saved);
    check_refused(path, &muon, compute, "has the moments of optimizer.kind = \"adamw\", and this run has \"muon\"");
    free(path);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    cpu = cpu_executor_create(1);
    folder = rank_folder_create(world, "t_muon");
    test_reference();
    if (world->rank == 0)
        test_steps();
    test_shardings();
    test_layouts();
    test_rounding();
    test_faults();
    test_files(DTYPE_F32);
    test_files(DTYPE_BF16);
    rank_folder_remove(world, folder);
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
