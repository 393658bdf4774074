/* Captured collectives of GPUs give what eager ones give, in place and in memory of the group too, and the watchdog
 * names one that does not finish. Runs on any number of ranks from 2 on, each with its own GPU; skipped elsewhere.
 *
 * "hang": rank 1 leaves out a replay; another rank ends after 5 s with exit code 1, and names the collective. "hang
 * gather": likewise for an all_gather in memory that the group owns.
 *
 * ranks: 2 */
#include "check.h"

#include "base/error.h"
#include "comm/comm.h"
#include "core/launch.h"

#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef CISTRON_CUDA
#include "cuda/cuda.h"
#endif

enum { COUNT = 1000, REPLAYS = 50, TIMEOUT = 5, RATE_BYTES = 128 << 20, RATE_TIMES = 20 };

#ifdef CISTRON_CUDA

static struct stream streams[STREAM_COUNT];
static int64_t size; /* ranks */
static struct tensor mine, all, cut;
static struct tensor highest; /* maximum over ranks of what mine was */

/* Forks into the other stream and joins again: mine is compared, summed, gathered, and scattered to cut; then a part is
 * added. */
static void run(struct group *group)
{
    static struct event forked, joined;
    struct stream *compute = &streams[STREAM_COMPUTE], *other = &streams[STREAM_REDUCE];
    event_record(&forked, compute);
    event_wait(&forked, other);
    LAUNCH(other, COPY, copy, .from = mine, .to = highest);
    LAUNCH(other, ALL_REDUCE, all_reduce, .group = group, .x = highest, .maximum = true);
    LAUNCH(other, ALL_REDUCE, all_reduce, .group = group, .x = mine);
    LAUNCH(other, ALL_GATHER, all_gather, .group = group, .in = mine, .out = all);
    LAUNCH(other, REDUCE_SCATTER, reduce_scatter, .group = group, .in = all, .out = cut);
    event_record(&joined, other);
    event_wait(&joined, compute);
    LAUNCH(compute, ADD, add, .from = cut, .to = mine);
}

static int64_t after(int64_t rank)
{
    return (rank + 1) % size;
}

/* With v of rank r in mine: whole is gathered in place, [v0; v1; ...]; 2 v are added to each of its rows, so that those
 * cross as v_own + 2 v_r; rows are passed round, and both ways; whole is summed into its own row; and as many rows of v
 * as there are ranks are summed over ranks. Between launches `mine` does not change. */
static struct tensor whole, crossed, passed, summed, stage_buffer;
static struct tensor scratch; /* for sums by copies; absent where tensors are not in the group's memory */

static void exchange(struct group *group)
{
    static struct event forked, joined;
    struct stream *compute = &streams[STREAM_COMPUTE], *other = &streams[STREAM_GATHER];
    const struct tensor own = tensor_rows(&whole, group->rank, 1);
    event_record(&forked, compute);
    event_wait(&forked, other);
    LAUNCH(other, COPY, copy, .from = mine, .to = own);
    LAUNCH(other, ALL_GATHER, all_gather, .group = group, .in = own, .out = whole);
    for (int64_t i = 0; i < 2 * size; i++)
        LAUNCH(other, ADD, add, .from = mine, .to = tensor_rows(&whole, i % size, 1));
    LAUNCH(other, ALL_TO_ALL, all_to_all, .group = group, .in = whole, .out = crossed);
    LAUNCH(other, SHIFT, shift, .group = group, .in = tensor_rows(&crossed, group->rank, 1), .out = passed);
    LAUNCH(other, SEND_RECEIVE, send_receive, .group = group, .to_next = tensor_rows(&crossed, group->rank, 1),
           .from_previous = tensor_rows(&stage_buffer, 0, 1),
           .to_previous = tensor_rows(&crossed, after(group->rank), 1), .from_next = tensor_rows(&stage_buffer, 1, 1));
    LAUNCH(other, REDUCE_SCATTER, reduce_scatter, .group = group, .in = whole, .out = own, .scratch = scratch);
    for (int64_t i = 0; i < size; i++)
        LAUNCH(other, COPY, copy, .from = mine, .to = tensor_rows(&summed, i, 1));
    LAUNCH(other, ALL_REDUCE, all_reduce, .group = group, .x = tensor_vector(summed.data, DTYPE_F32, size * COUNT),
           .scratch = scratch);
    event_record(&joined, other);
    event_wait(&joined, compute);
}

static void fill(double value)
{
    LAUNCH(&streams[STREAM_COMPUTE], FILL, fill, .x = mine, .value = value);
}

static float read_back(struct executor *executor, struct tensor from)
{
    float *numbers = executor->class->allocate(executor, COUNT * (int64_t)sizeof *numbers, MEMORY_HOST);
    LAUNCH(&streams[STREAM_COMPUTE], COPY, copy, .from = from, .to = tensor_vector(numbers, DTYPE_F32, COUNT));
    stream_synchronize(&streams[STREAM_COMPUTE]);
    float found = numbers[0];
    for (int i = 1; i < COUNT; i++)
        CHECK(numbers[i] == found);
    executor->class->release(executor, numbers, MEMORY_HOST);
    return found;
}

static struct tensor vector(struct executor *executor, int64_t rows)
{
    return tensor_matrix(executor->class->allocate(executor, rows * COUNT * 4, MEMORY_DEVICE), DTYPE_F32, rows, COUNT);
}

/* Replays it on rank 0 alone. */
static void hang(const struct group *group, void *recording)
{
    if (group->rank == 1)
        sleep(10 * TIMEOUT);
    launch_replay(&streams[STREAM_COMPUTE], recording, "replay test", 0);
    stream_synchronize(&streams[STREAM_COMPUTE]);
    fprintf(stderr, "the watchdog has not ended this\n");
}

/* Sum over ranks of base + rank. */
static float sum_of(float base)
{
    return (float)size * base + (float)(size * (size - 1) / 2);
}

/* With 1 on rank 0, 2 on rank 1 and so on: the maximum is the last's, with the sum s each cut is s times the ranks, and
 * their sum is left on all. */
static void test_sums(struct executor *executor, struct group *group, bool hangs)
{
    const float n = (float)size;
    all = vector(executor, size);
    cut = vector(executor, 1);
    highest = vector(executor, 1);
    fill(1 + group->rank);
    run(group);
    CHECK(read_back(executor, mine) == sum_of(1) * (n + 1));
    CHECK(read_back(executor, highest) == n);
    executor->capture->begin(executor->owner, &streams[STREAM_COMPUTE]);
    run(group);
    void *recording = executor->capture->end(executor->owner, &streams[STREAM_COMPUTE]);
    for (int i = 0; i < REPLAYS; i++) {
        fill(1 + group->rank + i);
        launch_replay(&streams[STREAM_COMPUTE], recording, "replay test", 0);
        if (i % 7 == 0)
            run(group); /* launches and replays one after the other */
        const float once = sum_of((float)(1 + i)) * (n + 1);
        CHECK(read_back(executor, mine) == (i % 7 == 0 ? once * n * (n + 1) : once));
        CHECK(read_back(executor, highest) == (i % 7 == 0 ? once : n + (float)i));
    }
    if (hangs)
        hang(group, recording);
    executor->capture->discard(executor->owner, recording);
    executor->class->release(executor, all.data, MEMORY_DEVICE);
    executor->class->release(executor, cut.data, MEMORY_DEVICE);
    executor->class->release(executor, highest.data, MEMORY_DEVICE);
}

/* Of bf16, which NCCL may round once a rank: zeros leave one sum. */
static void test_halves(struct executor *executor, struct group *group)
{
    struct stream *compute = &streams[STREAM_COMPUTE];
    struct tensor halves =
        tensor_vector(executor->class->allocate(executor, COUNT * 2, MEMORY_DEVICE), DTYPE_BF16, COUNT);
    LAUNCH(compute, FILL, fill, .x = halves, .value = group->rank == 0 ? 256 : group->rank == 1 ? 3 : 0);
    LAUNCH(compute, ALL_REDUCE, all_reduce, .group = group, .x = halves);
    fill(0);
    LAUNCH(compute, ADD, add, .from = halves, .to = mine);
    CHECK(read_back(executor, mine) == 260); /* 259 is a tie, to even */
    executor->class->release(executor, halves.data, MEMORY_DEVICE);
}

static void check_exchange(struct executor *executor, const struct group *group, float base)
{
    const int64_t rank = group->rank, next = after(rank), before = (rank + size - 1) % size;
    const float own = base + (float)rank, n = (float)size;
    CHECK(read_back(executor, mine) == own);
    for (int64_t r = 0; r < size; r++) {
        const float of_rank = base + (float)r;
        CHECK(read_back(executor, tensor_rows(&crossed, r, 1)) == own + 2 * of_rank);
        CHECK(read_back(executor, tensor_rows(&summed, r, 1)) == sum_of(base));
        CHECK(read_back(executor, tensor_rows(&whole, r, 1)) ==
              (r == rank ? n * own + 2 * sum_of(base) : of_rank + 2 * own));
    }
    CHECK(read_back(executor, passed) == 3 * (base + (float)before));
    CHECK(read_back(executor, tensor_rows(&stage_buffer, 0, 1)) == 3 * (base + (float)before));
    CHECK(read_back(executor, tensor_rows(&stage_buffer, 1, 1)) ==
          base + (float)next + 2 * (base + (float)after(next)));
}

static double mebibytes(struct executor *executor)
{
    return (double)executor->device->occupied(executor->owner) / (1 << 20);
}

/* In the group's own memory, if it has any, and in the executor's. */
static void test_exchange(struct executor *executor, struct group *group, bool of_group, bool hangs)
{
    const double before = mebibytes(executor);
    const bool gives = of_group && group->class->allocate != NULL;
    const int64_t bytes = size * COUNT * 4;
    char *memory = gives ? group->class->allocate(group, 3 * bytes)
                         : executor->class->allocate(executor, 3 * bytes, MEMORY_DEVICE);
    const double given = mebibytes(executor);
    whole = tensor_matrix(memory, DTYPE_F32, size, COUNT);
    summed = tensor_matrix(memory + bytes, DTYPE_F32, size, COUNT);
    scratch = gives ? tensor_matrix(memory + 2 * bytes, DTYPE_F32, size, COUNT) : (struct tensor){0};
    crossed = vector(executor, size);
    passed = vector(executor, 1);
    stage_buffer = vector(executor, 2);
    CHECK(read_back(executor, tensor_rows(&whole, 1, 1)) == 0);
    fill(1 + group->rank);
    exchange(group);
    check_exchange(executor, group, 1);
    if (group->rank == 0)
        printf("the group's memory took %.0f MiB of the device, the first exchanges %.0f\n", given - before,
               mebibytes(executor) - given);
    executor->capture->begin(executor->owner, &streams[STREAM_COMPUTE]);
    exchange(group);
    void *recording = executor->capture->end(executor->owner, &streams[STREAM_COMPUTE]);
    for (int i = 0; i < REPLAYS; i++) {
        fill(1 + group->rank + i);
        if (i % 7 != 3)
            launch_replay(&streams[STREAM_COMPUTE], recording, "replay test", 0);
        else
            exchange(group);
        check_exchange(executor, group, (float)(1 + i));
    }
    if (hangs)
        hang(group, recording);
    executor->capture->discard(executor->owner, recording);
    if (gives)
        group->class->release(group, memory);
    else
        executor->class->release(executor, memory, MEMORY_DEVICE);
    executor->class->release(executor, crossed.data, MEMORY_DEVICE);
    executor->class->release(executor, passed.data, MEMORY_DEVICE);
    executor->class->release(executor, stage_buffer.data, MEMORY_DEVICE);
}

/* Bytes a second that a rank receives, in place: of gathers, or of sums, for which there may be scratch. */
static double rate_of(struct executor *executor, struct group *group, void *memory, void *sums_scratch, bool sums)
{
    struct stream *stream = &streams[STREAM_GATHER];
    const struct tensor rows = tensor_matrix(memory, DTYPE_F32, size, RATE_BYTES / 4 / size);
    const struct tensor own = tensor_rows(&rows, group->rank, 1);
    for (int i = -3; i < RATE_TIMES; i++) {
        if (i == 0)
            executor->profiling->stamp(executor->owner, stream, 0);
        if (sums)
            LAUNCH(stream, REDUCE_SCATTER, reduce_scatter, .group = group, .in = rows, .out = own,
                   .scratch = tensor_matrix(sums_scratch, DTYPE_F32, size, rows.cols));
        else
            LAUNCH(stream, ALL_GATHER, all_gather, .group = group, .in = own, .out = rows);
    }
    executor->profiling->stamp(executor->owner, stream, 1);
    stream_synchronize(stream);
    return RATE_TIMES * (double)((size - 1) * rows.cols * 4) /
           executor->profiling->stamp_seconds(executor->owner, 0, 1);
}

/* Is what the group gives worth it? */
static void measure(struct executor *executor, struct group *group)
{
    if (group->class->allocate == NULL)
        return;
    void *of_group = group->class->allocate(group, RATE_BYTES),
         *sums_scratch = group->class->allocate(group, RATE_BYTES);
    void *other = executor->class->allocate(executor, RATE_BYTES, MEMORY_DEVICE);
    for (int sums = 0; sums < 2; sums++) {
        const double rate = rate_of(executor, group, of_group, sums_scratch, sums);
        const double usual = rate_of(executor, group, other, NULL, sums);
        if (group->rank == 0)
            printf("%s of %d MiB: %.0f GB/s in the group's memory, %.0f in other\n", sums ? "sums" : "gathers",
                   RATE_BYTES >> 20, rate * 1e-9, usual * 1e-9);
    }
    group->class->release(group, sums_scratch);
    group->class->release(group, of_group);
    executor->class->release(executor, other, MEMORY_DEVICE);
}

static int test_on_gpus(struct comm *world, bool hangs, bool in_gather)
{
    struct comm *node = comm_split_node(world);
    struct executor *executor;
    const struct device_request request = {.world = world, .node = node, .timeout = TIMEOUT};
    if (world->size < 2 || cuda_device_count() < world->size)
        return CHECK_SKIP;
    size = world->size;
    if (cuda_executor_make(&executor, &request) != ERROR_NONE)
        return 1;
    struct group *group = comm_group_create(world, executor, "test");
    for (int s = 0; s < STREAM_COUNT; s++)
        streams[s] = (struct stream){executor, s, NULL};
    mine = vector(executor, 1);
    test_sums(executor, group, hangs && !in_gather);
    test_halves(executor, group);
    test_exchange(executor, group, true, hangs);
    test_exchange(executor, group, false, false);
    test_exchange(executor, group, true, false); /* at an address that the group has had before */
    executor->class->release(executor, mine.data, MEMORY_DEVICE);
    measure(executor, group);
    comm_group_destroy(group);
    executor->class->destroy(executor);
    comm_destroy(node);
    return 0;
}

#else

static int test_on_gpus(struct comm *world, bool hangs, bool in_gather)
{
    (void)world, (void)hangs, (void)in_gather;
    return CHECK_SKIP;
}

#endif

int main(int argc, char **argv)
{
    const bool hangs = argc > 1 && strcmp(argv[1], "hang") == 0;
    const bool in_gather = hangs && argc > 2 && strcmp(argv[2], "gather") == 0;
    if (argc > 1 + hangs + in_gather)
        check_unknown_argument(argv[1 + hangs + in_gather], "hang, or hang gather");
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    int code = test_on_gpus(world, hangs, in_gather);
    if (code == CHECK_SKIP && world->rank == 0)
        printf("skipped: it takes two ranks or more, and a GPU for each\n");
    comm_destroy(world);
    MPI_Finalize();
    return code != 0 ? code : check_end();
}
