/* With train.on_divergence = "rewind" a run equals, to the bit, a run started from that checkpoint after the bad step's
 * data: all sharding levels, pipeline, tensor and context ranks, delayed scaling, on an executor that runs everything
 * late and replays.
 *
 * ranks: 4 */
#include "check.h"

#include "base/log.h"
#include "cpu/cpu.h"
#include "ref/late.h"
#include "ref/wrapper.h"
#include "stores.h"
#include "train/run.h"

#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <unistd.h>

enum { SAVED = 3, BAD = 5, STEPS = 8 };

static struct comm *world;
static struct {
    struct wrapper wrapper;
    struct executor *cpu, *late; /* the latter is the session's */
    int updates;                 /* begun, counted by what ends the sum over all gradients */
    int bad;                     /* the update whose gradients are spoilt; 0: none */
    bool one;                    /* rank 1's alone */
    int64_t replays;
    const struct executor_class *inner;
    struct executor_class class; /* of the late executor, which counts them */
} fault;

static void spoil(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_SUM_SQUARES && fault.updates + 1 == fault.bad && (world->rank == 1 || !fault.one))
        ((float *)((const struct sum_squares_args *)args)->x.data)[0] = INFINITY;
    if (op == OP_GRADIENT_SCALE)
        fault.updates++;
    wrapper_pass(wrapper, stream, op, args);
}

static void destroy_counting(struct executor *late)
{
    fault.replays = late_replays(late);
    fault.inner->destroy(late);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    fault.cpu = cpu_executor_create(request->threads);
    fault.updates = 0;
    wrapper_create(&fault.wrapper, fault.cpu, spoil, NULL);
    fault.late = late_executor_create(&fault.wrapper.executor);
    fault.inner = fault.late->class;
    fault.class = *fault.inner;
    fault.class.destroy = destroy_counting;
    fault.late->class = &fault.class;
    *executor = fault.late;
    return ERROR_NONE;
}

/* A run in `folder` with the two overrides of a layout. */
static int train(const char *folder, char *const layout[2], const char *steps, const char *every, int bad)
{
    char where[500], until[100], saves[100];
    char *overrides[] = {where, until, saves, "train.on_divergence=rewind", layout[0], layout[1]};
    snprintf(where, sizeof where, "output.folder=%s", stores_path(folder));
    snprintf(until, sizeof until, "train.steps=%s", steps);
    snprintf(saves, sizeof saves, "checkpoint.every=%s", every);
    fault.bad = bad;
    int code = run_train(world, stores_path("deck.cfg"), NULL, overrides, 6, make_executor);
    fault.cpu->class->destroy(fault.cpu);
    return code;
}

/* Gives the file `to` the place in the data that `from` has. */
static void copy_place(const char *to, const char *from)
{
    static const char *const names[] = {"epoch", "window", "offset"};
    hid_t old = H5Fopen(to, H5F_ACC_RDWR, H5P_DEFAULT), new_ = H5Fopen(from, H5F_ACC_RDONLY, H5P_DEFAULT);
    int same = 0;
    for (int i = 0; i < 3; i++) {
        int64_t before = -1, after = -1;
        hid_t source = H5Aopen_by_name(new_, "data", names[i], H5P_DEFAULT, H5P_DEFAULT);
        hid_t target = H5Aopen_by_name(old, "data", names[i], H5P_DEFAULT, H5P_DEFAULT), space = H5Aget_space(target);
        CHECK(H5Aread(target, H5T_NATIVE_INT64, &before) >= 0 && H5Aread(source, H5T_NATIVE_INT64, &after) >= 0);
        H5Aclose(target);
        CHECK(H5Adelete_by_name(old, "data", names[i], H5P_DEFAULT) >= 0);
        target =
            H5Acreate_by_name(old, "data", names[i], H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Awrite(target, H5T_NATIVE_INT64, &after) >= 0);
        same += before == after;
        H5Sclose(space);
        H5Aclose(target);
        H5Aclose(source);
    }
    CHECK(same < 3);
    CHECK(H5Fclose(old) >= 0 && H5Fclose(new_) >= 0);
}

/* The folder "wanted", with nothing in it but the checkpoint of step SAVED and the place of step BAD. */
static void prepare_wanted(void)
{
    char command[2000], to[500];
    snprintf(to, sizeof to, "%s/step_%08d.h5", stores_path("wanted"), SAVED);
    snprintf(command, sizeof command, "mkdir '%s' && cp '%s/step_%08d.h5' '%s'", stores_path("wanted"),
             stores_path("whole"), SAVED, to);
    CHECK(system(command) == 0);
    char from[500];
    snprintf(from, sizeof from, "%s/step_%08d.h5", stores_path("whole"), BAD);
    copy_place(to, from);
}

static void test_layout(char *const layout[2], bool one)
{
    fault.one = one;
    char wanted[32], found[32];
    CHECK(train("whole", layout, "5", "1", 0) == 0);
    if (world->rank == 0)
        prepare_wanted();
    comm_barrier(world);
    CHECK(train("wanted", layout, "8", "8", 0) == 0);
    CHECK(train("rewind", layout, "8", "3", BAD) == 0);
    CHECK(fault.replays > 0);
    CHECK(fault.updates == STEPS + (BAD - SAVED) + 1); /* step 6 was on its way */
    if (world->rank == 0) {
        stores_digest("wanted", STEPS, wanted);
        stores_digest("rewind", STEPS, found);
        CHECK(wanted[0] != '\0');
        if (strcmp(found, wanted) != 0)
            fprintf(stderr, "    %s %s\n", layout[0], layout[1]);
        CHECK_STRING(found, wanted);
        char command[2000];
        snprintf(command, sizeof command, "rm -r '%s' '%s' '%s'", stores_path("whole"), stores_path("wanted"),
                 stores_path("rewind"));
        CHECK(system(command) == 0);
    }
    comm_barrier(world);
}

static void write_files(void)
{
    stores_write_periodic(stores_path("five.h5"));
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 2; hidden = 32; ffn = 64; heads = 2; };\n"
            "data = { train = \"%s\"; row_tokens = 64; window = 48; };\n"
            "train = { global_batch = 12; micro_batch = 1; };\n"
            "schedule = { kind = \"constant\"; };\n"
            "checkpoint = { keep = 20; };\nlog = { every = 1; tensorboard = false; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"));
    fclose(deck);
}

int main(int count, char **arguments)
{
    static const struct {
        char *keys[2];
        bool cut; /* each rank measures gradients of its own */
    } layouts[] = {
        {{"parallel.shard=none", "parallel.shard_size=0"}, false},
        {{"parallel.shard=optimizer", "parallel.shard_size=2"}, true},
        {{"parallel.shard=gradients", "precision.compute=bf16"}, true},
        {{"parallel.shard=full", "parallel.shard_size=2"}, true},
        {{"parallel.pipeline=2", "parallel.shard=optimizer"}, true},
        {{"parallel.tensor=2", "parallel.context=2"}, true},
        {{"precision.recipe=delayed", "precision.history=4"}, false},
    };
    MPI_Init(&count, &arguments);
    world = comm_open_mpi();
    log_open(world->rank);
    stores_begin_on_ranks(world, write_files);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        test_layout(layouts[i].keys, layouts[i].cut);
    if (world->rank == 0)
        stores_end();
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
