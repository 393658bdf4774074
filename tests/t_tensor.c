/* Units that sum over ranks while they compute give one rank's result: each of 2 ranks owns half of a product's inner
 * dimension, and the sum overlaps another product. Planned memory respects the order of events; each wait is needed;
 * every allowed order gives the same bits.
 *
 * ranks: 2 */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "comm/comm.h"
#include "cpu/cpu.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/toy.h"

#include <mpi.h>
#include <stdlib.h>

enum { UNITS = 4, HIDDEN = 32, INNER = 64 }; /* as many tokens as columns */

/* y = sum over ranks of (x U') D', with U [INNER, HIDDEN] split by rows and D [HIDDEN, INNER] by columns, plus x B' */
enum { SHARDED_UP, SHARDED_DOWN, WHOLE_OVERLAPPED };
enum { INNER_STATE = UNIT_FIRST_OWN, PARTIAL, BESIDE };

static void sharded_forward(struct execution *e, struct unit *unit, struct tensor input)
{
    struct tensor x = input, y = unit_tensor(e, unit, UNIT_OUTPUT), partial = unit_tensor(e, unit, PARTIAL);
    struct tensor inner = unit_tensor(e, unit, INNER_STATE), beside = unit_tensor(e, unit, BESIDE);
    if (!tensor_present(&x)) { /* the first unit makes its own */
        x = y;
        LAUNCH(e->stream, COPY, copy, .from = unit_weight(e, unit, WHOLE_OVERLAPPED), .to = tensor_rows(&x, 0, HIDDEN));
    }
    LAUNCH(e->stream, GEMM, gemm, .a = x, .b = unit_weight(e, unit, SHARDED_UP), .transpose_b = true, .d = inner);
    LAUNCH(e->stream, GEMM, gemm, .a = inner, .b = unit_weight(e, unit, SHARDED_DOWN), .transpose_b = true,
           .d = partial);
    if (e->tensor != NULL) {
        execution_fork(e);
        LAUNCH(e->transfers, ALL_REDUCE, all_reduce, .group = e->tensor, .x = partial);
    }
    LAUNCH(e->stream, GEMM, gemm, .a = x, .b = unit_weight(e, unit, WHOLE_OVERLAPPED), .transpose_b = true,
           .d = beside);
    if (e->tensor != NULL)
        execution_join(e);
    LAUNCH(e->stream, COPY, copy, .from = beside, .to = y);
    LAUNCH(e->stream, ADD, add, .from = partial, .to = y);
}

static const struct unit_class sharded_class = {.name = "sharded", .forward = sharded_forward};

struct chain {
    struct unit units[UNITS];
    struct model model;
    struct model_settings settings;
    struct stream streams[STREAM_COUNT];
    struct budget budget;
    struct engine_memory memory;
    struct batch_tensors batch;
    struct execution_owner owner;
    struct execution execution;
    float *weights[UNITS];
};

static double value(int unit, int weight, int64_t row, int64_t col)
{
    const struct random_key key = {1, RANDOM_TEST, (uint64_t)(unit * 8 + weight)};
    return (random_uniform(&key, (uint64_t)(row * INNER + col)) - 0.5) * 0.4;
}

static void fill(struct chain *chain, int u, int id, int64_t first_row, int64_t first_col)
{
    const struct weight *w = &chain->units[u].weights[id];
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t c = 0; c < w->cols; c++)
            chain->weights[u][w->offset + r * w->cols + c] = (float)value(u, id, first_row + r, first_col + c);
}

/* group NULL: one rank has everything. */
static void chain_create(struct chain *chain, struct executor *executor, struct group *group)
{
    static const struct execution_services services = {.address = memory_address};
    const int64_t part = INNER / (group != NULL ? group->size : 1), first = group != NULL ? group->rank * part : 0;
    *chain = (struct chain){.settings = toy_settings(TOY_LLAMA)};
    chain->model = (struct model){.settings = chain->settings,
                                  .tokens = HIDDEN,
                                  .unit_count = UNITS,
                                  .units = chain->units,
                                  .chunk_count = 1,
                                  .chunks = {{0, UNITS}}};
    for (int u = 0; u < UNITS; u++) {
        struct unit *unit = &chain->units[u];
        *unit = (struct unit){.class = &sharded_class,
                              .settings = &chain->settings,
                              .name = "sharded",
                              .index = u,
                              .layer = -1,
                              .tokens = HIDDEN};
        unit_declare_weight(unit, SHARDED_UP, part, HIDDEN, STORAGE_MATRIX);
        unit_declare_weight(unit, SHARDED_DOWN, HIDDEN, part, STORAGE_MATRIX);
        unit_declare_weight(unit, WHOLE_OVERLAPPED, HIDDEN, HIDDEN, STORAGE_MATRIX);
        unit_declare_tensor(unit, UNIT_OUTPUT, "output", UNIT_TOKENS, HIDDEN, ROLE_VALUE);
        unit_declare_tensor(unit, INNER_STATE, "inner", UNIT_TOKENS, part, ROLE_VALUE);
        unit_declare_tensor(unit, PARTIAL, "partial", UNIT_TOKENS, HIDDEN, ROLE_VALUE);
        unit_declare_tensor(unit, BESIDE, "beside", UNIT_TOKENS, HIDDEN, ROLE_VALUE);
        chain->weights[u] = memory_allocate(unit->elements[STORAGE_MATRIX] * (int64_t)sizeof(float));
        fill(chain, u, SHARDED_UP, first, 0);
        fill(chain, u, SHARDED_DOWN, 0, first);
        fill(chain, u, WHOLE_OVERLAPPED, 0, 0);
    }
    for (int s = 0; s < STREAM_COUNT; s++)
        chain->streams[s] = (struct stream){executor, s, NULL};
    chain->batch.tokens = tensor_vector(NULL, DTYPE_I32, HIDDEN);
    chain->owner.memory = &chain->memory;
    chain->execution = (struct execution){.services = &services,
                                          .owner = &chain->owner,
                                          .stream = &chain->streams[STREAM_COMPUTE],
                                          .transfers = &chain->streams[STREAM_REDUCE],
                                          .tensor = group,
                                          .pass = PASS_EVALUATE,
                                          .batch = &chain->batch,
                                          .compute = DTYPE_F32,
                                          .statistic = DTYPE_F32};
    const struct memory_settings of = {.use = MEMORY_EVALUATE,
                                       .compute = DTYPE_F32,
                                       .statistic = DTYPE_F32,
                                       .slots = {1},
                                       .rows = 1,
                                       .row_tokens = HIDDEN};
    budget_create(&chain->budget, executor);
    memory_create(&chain->memory, &chain->model, &of, &chain->execution, &chain->budget);
    for (int u = 0; u < UNITS; u++)
        chain->units[u].weight_base[STORAGE_MATRIX] = chain->weights[u];
}

static void chain_destroy(struct chain *chain)
{
    memory_destroy(&chain->memory);
    budget_destroy(&chain->budget);
    for (int u = 0; u < UNITS; u++) {
        unit_destroy(&chain->units[u]);
        memory_free(chain->weights[u]);
    }
}

static struct tensor chain_run(struct chain *chain)
{
    for (int u = 0; u < UNITS; u++)
        memory_forward_unit(&chain->execution, &chain->units[u]);
    return unit_tensor(&chain->execution, &chain->units[UNITS - 1], UNIT_OUTPUT);
}

static double distance(const struct tensor *a, const struct tensor *b)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < HIDDEN * HIDDEN; i++) {
        double x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        difference += (x - y) * (x - y);
        norm += y * y;
    }
    return sqrt(difference / norm);
}

static int64_t races(const struct plan_log *log, int64_t without)
{
    return race_check(log, without, NULL, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    struct group *group = comm_group_create(world, NULL, "tensor");
    struct executor *cpu = cpu_executor_create(1), *record = record_executor_create(cpu);
    struct chain whole, split;
    chain_create(&whole, cpu, NULL);
    chain_create(&split, record, group);
    struct tensor wanted = chain_run(&whole);
    record_clear(record);
    struct tensor got = chain_run(&split);
    float eager[HIDDEN * HIDDEN];
    memcpy(eager, got.data, sizeof eager);
    double apart = distance(&got, &wanted);
    CHECK(apart > 0 && apart < 1e-6);

    const int64_t most = UNITS * (3 * HIDDEN * HIDDEN + HIDDEN * INNER / 2) * (int64_t)sizeof(float);
    printf("split: %.1e from one rank, %lld of %lld bytes\n", apart, (long long)split.memory.transient_bytes,
           (long long)most);
    CHECK(split.memory.transient_bytes <= most / 2);
    const struct plan_log *log = record_executor_log(record);
    CHECK(races(log, -1) == 0);
    int waits = 0;
    for (int64_t e = 0; e < log->count; e++)
        if (log->entries[e].kind == PLAN_WAIT) {
            waits++;
            CHECK(races(log, e) > 0);
        }
    CHECK(waits == 2 * UNITS);
    for (uint64_t order = 0; order < 20; order++) {
        memset(got.data, 0, sizeof eager);
        record_replay(record, RECORD_RANDOM, order, -1);
        CHECK(memcmp(eager, got.data, sizeof eager) == 0);
    }
    chain_destroy(&whole);
    chain_destroy(&split);
    record->class->destroy(record);
    cpu->class->destroy(cpu);
    comm_group_destroy(group);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
