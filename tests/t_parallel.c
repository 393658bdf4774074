/* 1, 2, 3 and 4 data ranks give equal losses to 1e-6 over 50 steps with unequal numbers of labels, for toys of every
 * family and each kind of quantization. Injected faults: normalising per rank or per micro-batch, and a missing maximum
 * of delayed scaling.
 *
 * ranks: 4 */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "cpu/cpu.h"
#include "model/linear.h"
#include "ref/toy.h"
#include "ref/wrapper.h"

#include <mpi.h>
#include <stdlib.h>

enum { STEPS = 50, ROW_TOKENS = 48, GLOBAL_ROWS = 7, MAX_SEGMENTS = 4 };

/* Rows of a global batch: padded rows of very different lengths; rows 2 and 3 have no label at all, so with 4 ranks of
 * 2 rows one rank has none. */
static void fill_rows(struct batch *global, int step)
{
    toy_batch(global, GLOBAL_ROWS, ROW_TOKENS, (uint64_t)(step % 5));
    for (int64_t r = 0; r < GLOBAL_ROWS; r++) {
        int64_t keep = r == 2 || r == 3 ? 0 : 3 + 6 * r;
        for (int64_t t = 0; t < ROW_TOKENS; t++)
            if (t >= keep)
                global->labels[r * ROW_TOKENS + t] = -100;
    }
}

/* Row `from` of the global batch becomes row `to` of a micro-batch. */
static void copy_row(struct batch *batch, int64_t to, const struct batch *global, int64_t from)
{
    int64_t shift = (to - from) * ROW_TOKENS;
    for (int64_t t = 0; t < ROW_TOKENS; t++) {
        batch->tokens[to * ROW_TOKENS + t] = global->tokens[from * ROW_TOKENS + t];
        batch->labels[to * ROW_TOKENS + t] = global->labels[from * ROW_TOKENS + t];
        batch->positions[to * ROW_TOKENS + t] = global->positions[from * ROW_TOKENS + t];
        batch->scale[to * ROW_TOKENS + t] = global->scale[from * ROW_TOKENS + t];
        batch->valid += global->labels[from * ROW_TOKENS + t] >= 0;
    }
    for (int64_t s = 0; s < MAX_SEGMENTS; s++) {
        int32_t length = global->segment_length[from * MAX_SEGMENTS + s];
        batch->segment_length[to * MAX_SEGMENTS + s] = length;
        batch->segment_start[to * MAX_SEGMENTS + s] =
            length > 0 ? global->segment_start[from * MAX_SEGMENTS + s] + (int32_t)shift : 0;
    }
}

/* -- Planted faults: an executor that scales the gradient of the logits, to normalise in the wrong place -------------
 */

struct fault_scale {
    double factor_per_label; /* gradient *= factor / labels of the scope; 0 = leave alone */
    double scope_labels;     /* labels of the scope; 0 = those of the launch */
    bool forgets_maximum;    /* maxima over ranks are left out */
};

static void misnormalise(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct fault_scale *scale = wrapper->self;
    if (op == OP_ALL_REDUCE && ((const struct all_reduce_args *)args)->maximum && scale->forgets_maximum)
        return;
    wrapper_pass(wrapper, stream, op, args);
    if (op != OP_XENT_BOTH || scale->factor_per_label == 0)
        return;
    const struct xent_both_args *a = args;
    double labels = scale->scope_labels;
    for (int64_t t = 0; t < a->labels.cols && scale->scope_labels == 0; t++)
        labels += ((const int32_t *)a->labels.data)[t] >= 0;
    float factor = labels > 0 ? (float)(scale->factor_per_label / labels) : 0;
    for (int64_t i = 0; i < tensor_count(&a->logits); i++)
        ((float *)a->logits.data)[i] *= factor;
}

/* -- Runs -------------------------------------------------------------------------------------------------------- */

enum fault { FAULT_NONE, FAULT_PER_RANK, FAULT_PER_MICRO_BATCH, FAULT_NO_MAXIMUM };

struct layout {
    int64_t micro_rows;
    enum dtype compute;
    enum fault fault;
    enum toy_kind kind;
    int recipe; /* enum deck_recipe */
    int steps;  /* 0: STEPS */
};

enum { OPERANDS = 256 /* or fewer */ };

struct scales {
    double of[OPERANDS]; /* 1 where there is none */
    bool agree;          /* on all ranks */
};

/* Of delayed scaling. */
static void read_scales(struct comm *comm, struct engine *engine, struct scales *scales)
{
    *scales = (struct scales){.agree = true};
    for (int i = 0; i < OPERANDS; i++)
        scales->of[i] = 1;
    if (!delayed_scaling_present(&engine->scaling))
        return;
    struct delayed_scaling host = delayed_scaling_fetch(&engine->scaling, &engine->streams[STREAM_COMPUTE]);
    const int64_t operands = operand_count(&engine->model->settings);
    CHECK(operands <= OPERANDS && tensor_count(&host.scale) == operands);
    for (int64_t i = 0; i < operands && i < OPERANDS; i++) {
        int32_t bits;
        memcpy(&bits, tensor_at(&host.scale, i, 0), sizeof bits);
        scales->agree &= comm_sum_i64(comm, comm_max_i64(comm, bits) != bits) == 0;
        scales->of[i] = tensor_get(&host.scale, i, 0);
    }
    delayed_scaling_host_destroy(&host);
}

static void run_layout(struct comm *comm, struct executor *cpu, struct layout layout, double *losses,
                       struct scales *scales)
{
    const int steps = layout.steps > 0 ? layout.steps : STEPS;
    int64_t per_pass = comm->size * layout.micro_rows;
    int64_t micro_batches = (GLOBAL_ROWS + per_pass - 1) / per_pass;
    struct fault_scale scale = {.forgets_maximum = layout.fault == FAULT_NO_MAXIMUM};
    struct wrapper planter;
    wrapper_create(&planter, cpu, misnormalise, &scale);
    struct group *group = comm_group_create(comm, NULL, "data");
    struct toy_options options = toy_options(&planter.executor);
    options.settings = toy_settings(layout.kind);
    options.settings.precision = toy_precision(layout.recipe);
    /* the recipes' scale of weights: larger ones amplify rounding from step to step */
    options.settings.init_std = options.settings.output_std = 0.02;
    options.settings.embedding_std = toy_embedding_std(layout.kind, 0.02);
    options.group = group;
    options.compute = layout.compute;
    options.rows = layout.micro_rows;
    options.row_tokens = ROW_TOKENS;
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create((int)micro_batches, 1, false);
    struct batch *batches = memory_allocate((int64_t)sizeof *batches * micro_batches);
    for (int step = 0; step < steps; step++) {
        struct batch global;
        fill_rows(&global, step);
        double all = 0, own = 0;
        for (int64_t t = 0; t < GLOBAL_ROWS * ROW_TOKENS; t++)
            all += global.labels[t] >= 0;
        for (int64_t m = 0; m < micro_batches; m++) {
            batch_create(&batches[m], layout.micro_rows, ROW_TOKENS, MAX_SEGMENTS);
            batch_clear(&batches[m], 1);
            batches[m].number = step * 100 + m * comm->size + comm->rank;
            for (int64_t i = 0; i < layout.micro_rows; i++) {
                int64_t row = (m * comm->size + comm->rank) * layout.micro_rows + i;
                if (row < GLOBAL_ROWS)
                    copy_row(&batches[m], i, &global, row);
            }
            own += (double)batches[m].valid;
        }
        if (layout.fault == FAULT_PER_RANK) {
            scale.factor_per_label = all / comm->size;
            scale.scope_labels = own > 0 ? own : 1;
        } else if (layout.fault == FAULT_PER_MICRO_BATCH) {
            scale.factor_per_label = all / (double)(comm->size * micro_batches);
        }
        struct engine_result result = engine_step(&toy.engine, &schedule, batches, 2e-3);
        losses[step] = result.loss_sum / result.labels;
        CHECK(result.labels == all);
        for (int64_t m = 0; m < micro_batches; m++)
            batch_destroy(&batches[m]);
        batch_destroy(&global);
    }
    if (scales != NULL)
        read_scales(comm, &toy.engine, scales);
    memory_free(batches);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    comm_group_destroy(group);
}

/* -- Quantized --------------------------------------------------------------------------------------------------- */

enum { QUANTIZED_STEPS = 8 };

struct run_outcome {
    double losses[QUANTIZED_STEPS];
    struct scales scales;
};

static struct run_outcome run_quantized(struct comm *comm, struct executor *cpu, int recipe, int64_t rows,
                                        enum fault fault)
{
    struct run_outcome outcome;
    const struct layout layout = {rows, DTYPE_F32, fault, TOY_LLAMA, recipe, QUANTIZED_STEPS};
    run_layout(comm, cpu, layout, outcome.losses, &outcome.scales);
    return outcome;
}

/* The ranks of `part` against one. Rounding of sums in another order may send a value to another number of few bits,
 * but hardly ever does. */
static void test_quantized(struct comm *part, struct comm *self, struct executor *cpu)
{
    static const struct {
        int recipe;
        int64_t rows, rows_of_one; /* of a micro-batch */
    } cases[] = {{DECK_RECIPE_DELAYED, 1, GLOBAL_ROWS},
                 {DECK_RECIPE_DELAYED, 2, 2},
                 {DECK_RECIPE_CURRENT, 2, 2},
                 {DECK_RECIPE_BLOCK, 2, 2},
                 {DECK_RECIPE_MXFP8, 2, 2},
                 {DECK_RECIPE_NVFP4, 2, 2}};
    static struct run_outcome ones[sizeof cases / sizeof cases[0]];
    static bool known;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && !known; i++)
        ones[i] = run_quantized(self, cpu, cases[i].recipe, cases[i].rows_of_one, FAULT_NONE);
    known = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int recipe = cases[i].recipe;
        const struct run_outcome one = ones[i];
        const struct run_outcome all = run_quantized(part, cpu, recipe, cases[i].rows, FAULT_NONE);
        const double losses = check_apart(all.losses, one.losses, QUANTIZED_STEPS);
        const double scales = check_apart(all.scales.of, one.scales.of, OPERANDS);
        if (part->rank == 0)
            printf("recipe %d, %d ranks, %lld rows: losses %.2e, scales %.2e\n", recipe, part->size,
                   (long long)cases[i].rows, losses, scales);
        CHECK(losses <= 5e-6 && scales <= 1e-4 && all.scales.agree);
        if (recipe != DECK_RECIPE_DELAYED)
            continue;
        const struct run_outcome wrong = run_quantized(part, cpu, recipe, cases[i].rows, FAULT_NO_MAXIMUM);
        CHECK(check_apart(wrong.losses, one.losses, QUANTIZED_STEPS) > 2e-5 && !wrong.scales.agree);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi(), *self = comm_self();
    struct executor *cpu = cpu_executor_create(1);
    static double expected[STEPS], again[STEPS], losses[STEPS];
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        run_layout(self, cpu, (struct layout){GLOBAL_ROWS, DTYPE_F32, FAULT_NONE, kind, 0, 0}, expected, NULL);
        run_layout(self, cpu, (struct layout){GLOBAL_ROWS, DTYPE_F32, FAULT_NONE, kind, 0, 0}, again, NULL);
        CHECK(memcmp(expected, again, sizeof expected) == 0);
        CHECK(expected[STEPS - 1] < 0.9 * expected[0]); /* it learns, so later losses depend on all gradients */
        for (int size = 1; size <= world->size; size++) {
            struct comm *part = comm_split(world, world->rank < size ? 0 : 1);
            if (world->rank < size) {
                /* 7 rows by 7, 4, 3, 2, 1 rows a micro-batch: accumulation 1, 2, 3, 4, 7 on one rank; the last
                 * micro-batches have empty rows */
                for (int64_t rows = 1; rows <= 4; rows++) {
                    run_layout(part, cpu, (struct layout){rows, DTYPE_F32, FAULT_NONE, kind, 0, 0}, losses, NULL);
                    double distance = check_apart(losses, expected, STEPS);
                    if (part->rank == 0)
                        printf("model %d, %d ranks, %lld rows: %.2e\n", (int)kind, size, (long long)rows, distance);
                    CHECK(distance <= 1e-6);
                }
                if (size > 1) {
                    run_layout(part, cpu, (struct layout){2, DTYPE_F32, FAULT_PER_RANK, kind, 0, 0}, losses, NULL);
                    CHECK(check_apart(losses, expected, STEPS) > 1e-5);
                }
                run_layout(part, cpu, (struct layout){1, DTYPE_F32, FAULT_PER_MICRO_BATCH, kind, 0, 0}, losses, NULL);
                CHECK(check_apart(losses, expected, STEPS) > 1e-5);
                if (kind == TOY_LLAMA && size > 1)
                    test_quantized(part, self, cpu);
            }
            comm_destroy(part);
        }
    }
    cpu->class->destroy(cpu);
    comm_destroy(self);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
