/* Data parallelism: 1, 2, 3 and 4 ranks give the losses of one, whatever the number of valid labels of each, and
 * normalising per rank or per micro-batch, planted here, would not. Run on 4 ranks. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "cpu/cpu.h"
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
};

static void misnormalise(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct fault_scale *scale = wrapper->self;
    wrapper_pass(wrapper, stream, op, args);
    if (op != OP_XENT_GRAD || scale->factor_per_label == 0)
        return;
    const struct xent_grad_args *a = args;
    double labels = scale->scope_labels;
    for (int64_t t = 0; t < a->labels.cols && scale->scope_labels == 0; t++)
        labels += ((const int32_t *)a->labels.data)[t] >= 0;
    float factor = labels > 0 ? (float)(scale->factor_per_label / labels) : 0;
    for (int64_t i = 0; i < tensor_count(&a->logits); i++)
        ((float *)a->logits.data)[i] *= factor;
}

/* -- Runs -------------------------------------------------------------------------------------------------------- */

enum fault { FAULT_NONE, FAULT_PER_RANK, FAULT_PER_MICRO_BATCH };

struct layout {
    int64_t micro_rows;
    enum dtype compute;
    enum fault fault;
    enum toy_kind kind;
};

static void run_layout(struct comm *comm, struct executor *cpu, struct layout layout, double *losses)
{
    int64_t per_pass = comm->size * layout.micro_rows;
    int64_t micro_batches = (GLOBAL_ROWS + per_pass - 1) / per_pass;
    struct fault_scale scale = {0, 0};
    struct wrapper planter;
    wrapper_create(&planter, cpu, misnormalise, &scale);
    struct group *group = comm_group_create(comm, NULL, "data");
    struct toy_options options = toy_options(&planter.executor);
    options.settings = toy_settings(layout.kind);
    /* the recipes' scale of weights: larger ones amplify rounding from step to step */
    options.settings.init_std = options.settings.embedding_std = options.settings.output_std = 0.02;
    options.group = group;
    options.compute = layout.compute;
    options.rows = layout.micro_rows;
    options.row_tokens = ROW_TOKENS;
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create((int)micro_batches, 1, false);
    struct batch *batches = memory_allocate((int64_t)sizeof *batches * micro_batches);
    for (int step = 0; step < STEPS; step++) {
        struct batch global;
        fill_rows(&global, step);
        double all = 0, own = 0;
        for (int64_t t = 0; t < GLOBAL_ROWS * ROW_TOKENS; t++)
            all += global.labels[t] >= 0;
        for (int64_t m = 0; m < micro_batches; m++) {
            batch_create(&batches[m], layout.micro_rows, ROW_TOKENS, MAX_SEGMENTS);
            batch_clear(&batches[m], 1);
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
    memory_free(batches);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    comm_group_destroy(group);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi(), *self = comm_self();
    struct executor *cpu = cpu_executor_create(1);
    static double expected[STEPS], again[STEPS], losses[STEPS];
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        run_layout(self, cpu, (struct layout){GLOBAL_ROWS, DTYPE_F32, FAULT_NONE, kind}, expected);
        run_layout(self, cpu, (struct layout){GLOBAL_ROWS, DTYPE_F32, FAULT_NONE, kind}, again);
        CHECK(memcmp(expected, again, sizeof expected) == 0);
        CHECK(expected[STEPS - 1] < 0.9 * expected[0]); /* it learns, so later losses depend on all gradients */
        for (int size = 1; size <= world->size; size++) {
            struct comm *part = comm_split(world, world->rank < size ? 0 : 1);
            if (world->rank < size) {
                /* 7 rows by 7, 4, 3, 2, 1 rows a micro-batch: accumulation 1, 2, 3, 4, 7 on one rank; the last
                 * micro-batches have empty rows */
                for (int64_t rows = 1; rows <= 4; rows++) {
                    run_layout(part, cpu, (struct layout){rows, DTYPE_F32, FAULT_NONE, kind}, losses);
                    double distance = check_apart(losses, expected, STEPS);
                    if (part->rank == 0)
                        printf("model %d, %d ranks, %lld rows: %.2e\n", (int)kind, size, (long long)rows, distance);
                    CHECK(distance <= 1e-6);
                }
                if (size > 1) {
                    run_layout(part, cpu, (struct layout){2, DTYPE_F32, FAULT_PER_RANK, kind}, losses);
                    CHECK(check_apart(losses, expected, STEPS) > 1e-5);
                }
                run_layout(part, cpu, (struct layout){1, DTYPE_F32, FAULT_PER_MICRO_BATCH, kind}, losses);
                CHECK(check_apart(losses, expected, STEPS) > 1e-5);
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
