/* train.recheck_every names a rank on which one bit of a weight, a moment, an activation or a gradient is wrong, with
 * host and step, and ends the run with exit code 1 before it saves: at every sharding level, in pipelines, with tensor
 * and context ranks, and where there is one group of ranks alone. Without a fault no bit of the training changes, on an
 * executor that runs everything late and replays. device.check ends a run before its first step.
 *
 * ranks: 4 */
#include "check.h"

#include "base/log.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "ref/late.h"
#include "ref/wrapper.h"
#include "stores.h"
#include "train/recheck_verdict.h"
#include "train/run.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

enum fault {
    FAULT_NONE,
    FAULT_WEIGHT,         /* once, after update BAD */
    FAULT_MOMENT,         /* once */
    FAULT_ACTIVATION,     /* in all forwards after update BAD */
    FAULT_ONE_ACTIVATION, /* in the first of them, which is of a recheck */
    FAULT_GRADIENT,       /* in all backwards after update BAD */
    FAULT_PRODUCT         /* always */
};
enum { BAD = 4, STEPS = 6, FAULTY = 1 /* rank */ };

static struct comm *world;
static struct {
    struct wrapper wrapper;
    struct executor *cpu;
    bool at_once; /* without the executor that runs everything late, which stalls where stages have several chunks */
    enum fault fault;
    int updates;
    bool done; /* a fault that occurs once has occurred */
} planter;

static void flip(struct tensor x)
{
    ((unsigned char *)x.data)[tensor_count(&x) / 3 * dtype_size(x.dtype)] ^= 1;
    planter.done = true;
}

static void spoil(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const bool bad = planter.updates >= BAD && world->rank == FAULTY;
    wrapper_pass(wrapper, stream, op, args);
    if (op == OP_GRADIENT_SCALE)
        planter.updates++;
    if (op == OP_ADAMW && planter.updates == BAD && world->rank == FAULTY && !planter.done) {
        if (planter.fault == FAULT_WEIGHT)
            flip(((const struct adamw_args *)args)->weight);
        if (planter.fault == FAULT_MOMENT)
            flip(((const struct adamw_args *)args)->v);
    }
    if (op == OP_RMSNORM_FORWARD && bad &&
        (planter.fault == FAULT_ACTIVATION || (planter.fault == FAULT_ONE_ACTIVATION && !planter.done))) {
        const struct tensor y = ((const struct rmsnorm_forward_args *)args)->y;
        flip(tensor_vector((char *)y.data + dtype_size(y.dtype) / 2, y.dtype, 1)); /* not the last of its bits */
    }
    if (op == OP_EMBEDDING_BACKWARD && bad && planter.fault == FAULT_GRADIENT)
        flip(((const struct embedding_backward_args *)args)->dweight);
    if (op == OP_GEMM && world->rank == FAULTY && planter.fault == FAULT_PRODUCT)
        flip(((const struct gemm_args *)args)->d);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    planter.cpu = cpu_executor_create(request->threads);
    planter.updates = 0;
    planter.done = false;
    wrapper_create(&planter.wrapper, planter.cpu, spoil, NULL);
    *executor = planter.at_once ? &planter.wrapper.executor : late_executor_create(&planter.wrapper.executor);
    return ERROR_NONE;
}

static int train(const char *folder, char *const layout[2], enum fault fault, const char *recheck, const char *check)
{
    char where[500], every[100], first[100];
    char *overrides[] = {where, every, first, layout[0], layout[1]};
    snprintf(where, sizeof where, "output.folder=%s", stores_path(folder));
    snprintf(every, sizeof every, "train.recheck_every=%s", recheck);
    snprintf(first, sizeof first, "device.check=%s", check);
    planter.fault = fault;
    planter.at_once = strstr(layout[1], "virtual") != NULL;
    const int code = run_train(world, stores_path("deck.cfg"), NULL, overrides, 5, make_executor);
    planter.cpu->class->destroy(planter.cpu);
    return code;
}

static bool exists(const char *folder, int step)
{
    char path[600];
    snprintf(path, sizeof path, "%s/step_%08d.h5", stores_path(folder), step);
    return access(path, F_OK) == 0;
}

static void remove_runs(void)
{
    comm_barrier(world);
    char command[2000];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", stores_path("plain"), stores_path("checked"));
    if (world->rank == 0)
        CHECK(system(command) == 0);
    comm_barrier(world);
}

/* The rank is named, before a checkpoint of step BAD is written. alone: no other rank is named. */
static void expect(char *const layout[2], enum fault fault, const char *what, bool alone)
{
    CHECK(train("checked", layout, fault, "2", "off") == ERROR_ENVIRONMENT);
    if (world->rank == 0) {
        char host[64] = "";
        gethostname(host, sizeof host - 1);
        char *line = memory_format("\n  rank %d on %s: %s", FAULTY, host, what),
             *other = memory_format("rank 0 on %s", host);
        const char *said = error_printed();
        const bool named = strstr(said, line) != NULL && (strstr(said, other) == NULL) == alone;
        if (!CHECK(named && strstr(said, "step 4: silent corruption") != NULL &&
                   strstr(said, "agreed after step 2;") != NULL))
            fprintf(stderr, "    %s %s, fault %d: wanted %s\n", layout[0], layout[1], (int)fault, line);
        CHECK(exists("checked", 2) && !exists("checked", BAD));
        free(line);
        free(other);
    }
    remove_runs();
}

static void test_layout(char *const layout[2])
{
    char wanted[32], found[32];
    CHECK(train("plain", layout, FAULT_NONE, "0", "off") == ERROR_NONE);
    CHECK(train("checked", layout, FAULT_NONE, "2", "off") == ERROR_NONE);
    if (world->rank == 0) {
        stores_digest("plain", STEPS, wanted);
        stores_digest("checked", STEPS, found);
        CHECK(wanted[0] != '\0');
        if (strcmp(found, wanted) != 0)
            fprintf(stderr, "    %s %s\n", layout[0], layout[1]);
        CHECK_STRING(found, wanted);
    }
    remove_runs();
}

/* 16,384 ranks: tensor x pipeline x data x context, and bounds where bits may differ. */
static void test_many(void)
{
    enum { RANKS = 16384, BAD_RANK = 5000 };
    const struct grid_shape shape = {.tensor = 8, .context = 2, .shard = 64, .stages = 16};
    struct recheck_value *values = memory_allocate(RANKS * RECHECK_PARTS * (int64_t)sizeof *values);
    struct recheck_difference *differences = memory_allocate(RANKS * (int64_t)sizeof *differences);
    const int stage_ranks = RANKS / shape.stages;
    double widest[RECHECK_PARTS];
    for (int r = 0; r < RANKS; r++) {
        const int stage = r / stage_ranks;
        values[r * RECHECK_PARTS + RECHECK_STATE].bits = (uint64_t)(stage * 1000000 + r % (8 * 64));
        values[r * RECHECK_PARTS + RECHECK_LOSS].size = 100 + stage + r % 16 + 1e-4 * (r % 7);
        values[r * RECHECK_PARTS + RECHECK_GRADIENTS].size = 10 + stage + r % 16 + 1e-4 * (r % 5);
    }
    CHECK(recheck_compare(differences, &shape, RANKS, 1, values, widest) == 0);
    CHECK(widest[RECHECK_STATE] == 0);
    CHECK(widest[RECHECK_LOSS] > 2e-6 && widest[RECHECK_LOSS] < 6e-6); /* 3 to 6 times 1e-4 of 100 and more */
    CHECK(widest[RECHECK_GRADIENTS] > 1e-5 && widest[RECHECK_GRADIENTS] < 4e-5);
    values[BAD_RANK * RECHECK_PARTS + RECHECK_GRADIENTS].size *= 1.05;
    CHECK(recheck_compare(differences, &shape, RANKS, 1, values, widest) == 1);
    CHECK(differences[BAD_RANK].differs && differences[BAD_RANK].part == RECHECK_GRADIENTS &&
          differences[BAD_RANK].majority);
    values[BAD_RANK * RECHECK_PARTS + RECHECK_STATE].bits++; /* two replicas of 1024 / 8 / 64 */
    CHECK(recheck_compare(differences, &shape, RANKS, 1, values, widest) == 2);
    CHECK(differences[BAD_RANK].part == RECHECK_STATE && !differences[BAD_RANK].majority);
    values[BAD_RANK * RECHECK_PARTS + RECHECK_GRADIENTS].size = NAN;
    CHECK(recheck_compare(differences, &shape, RANKS, 1, values, widest) == 2);
    memory_free(values);
    memory_free(differences);
}

static void write_files(void)
{
    stores_write_periodic(stores_path("five.h5"));
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 3; hidden = 32; ffn = 64; heads = 2; };\n"
            "data = { train = \"%s\"; row_tokens = 64; window = 48; };\n"
            "train = { steps = 6; global_batch = 12; micro_batch = 1; };\n"
            "checkpoint = { every = 2; keep = 20; };\nlog = { every = 1; tensorboard = false; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"));
    fclose(deck);
}

int main(int count, char **arguments)
{
    static char *const layouts[][2] = {
        {"parallel.shard=none", "parallel.shard_size=0"},       {"parallel.shard=optimizer", "parallel.shard_size=2"},
        {"parallel.shard=gradients", "precision.compute=bf16"}, {"parallel.shard=full", "parallel.reduce_as=bf16"},
        {"parallel.pipeline=2", "parallel.virtual_stages=2"},   {"parallel.tensor=2", "parallel.context=2"},
        {"precision.recipe=delayed", "precision.history=4"},    {"precision.recipe=nvfp4", "precision.compute=bf16"},
    };
    enum { LAYOUTS = sizeof layouts / sizeof *layouts };
    MPI_Init(&count, &arguments);
    world = comm_open_mpi();
    log_open(world->rank);
    stores_begin_on_ranks(world, write_files);
    for (int i = 0; i < LAYOUTS; i++)
        test_layout(layouts[i]);
    static const char state[] = "weights or moments differ from other ranks'";
    static const char loss[] = "the loss of a micro-batch differs",
                      gradients[] = "the gradients of a micro-batch differ";
    expect(layouts[0], FAULT_WEIGHT, state, true);
    expect(layouts[0], FAULT_MOMENT, state, true);
    expect(layouts[0], FAULT_GRADIENT, gradients, true);
    expect(layouts[1], FAULT_MOMENT, state, true); /* and rank 3, its replica */
    expect(layouts[1], FAULT_ACTIVATION, loss, true);
    expect(layouts[2], FAULT_GRADIENT, gradients, true);
    expect(layouts[3], FAULT_ACTIVATION, loss, true);
    expect(layouts[4], FAULT_GRADIENT, gradients, false);
    expect(layouts[5], FAULT_ONE_ACTIVATION, gradients, false); /* of one group, which computes twice */
    CHECK(train("checked", layouts[3], FAULT_PRODUCT, "0", "results") == ERROR_ENVIRONMENT);
    if (world->rank == 0)
        CHECK(strstr(error_printed(), "rank 1 on ") != NULL && !exists("checked", 2));
    if (world->rank == 0)
        test_many();
    if (world->rank == 0)
        stores_end();
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
