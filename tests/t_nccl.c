/* Collectives of GPUs in recordings: replays give what launches give, and the watchdog names one that does not finish.
 * Run on 2 ranks, each with a GPU of its own; skipped elsewhere.
 *   t_nccl hang    rank 1 leaves out a replay: rank 0 ends after 5 s with 1, and says in which collective */
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

enum { COUNT = 1000, REPLAYS = 50, TIMEOUT = 5 };

#ifdef CISTRON_CUDA

static struct stream streams[STREAM_COUNT];
static struct tensor mine, both, cut;
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
    LAUNCH(other, ALL_GATHER, all_gather, .group = group, .in = mine, .out = both);
    LAUNCH(other, REDUCE_SCATTER, reduce_scatter, .group = group, .in = both, .out = cut);
    event_record(&joined, other);
    event_wait(&joined, compute);
    LAUNCH(compute, ADD, add, .from = cut, .to = mine);
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

/* With 1 on rank 0 and 2 on rank 1: the maximum is 2, the sum 3, each cut twice that on 2 ranks, and 9 is left on both.
 */
static void test(struct executor *executor, struct group *group, bool hangs)
{
    for (int s = 0; s < STREAM_COUNT; s++)
        streams[s] = (struct stream){executor, s, NULL};
    mine = vector(executor, 1);
    both = vector(executor, 2);
    cut = vector(executor, 1);
    highest = vector(executor, 1);
    fill(1 + group->rank);
    run(group);
    CHECK(read_back(executor, mine) == 9);
    CHECK(read_back(executor, highest) == 2);
    executor->class->capture_begin(executor, &streams[STREAM_COMPUTE]);
    run(group);
    void *recording = executor->class->capture_end(executor, &streams[STREAM_COMPUTE]);
    for (int i = 0; i < REPLAYS; i++) {
        fill(1 + group->rank + i);
        launch_replay(&streams[STREAM_COMPUTE], recording, "replay test", 0);
        if (i % 7 == 0)
            run(group); /* launches and replays one after the other */
        CHECK(read_back(executor, mine) == (3 + 2 * (float)i) * 3 * (i % 7 == 0 ? 6 : 1));
        CHECK(read_back(executor, highest) == (i % 7 == 0 ? (3 + 2 * (float)i) * 3 : (float)(2 + i)));
    }
    if (hangs && group->rank == 1)
        sleep(10 * TIMEOUT);
    if (hangs) {
        launch_replay(&streams[STREAM_COMPUTE], recording, "replay test", 0);
        stream_synchronize(&streams[STREAM_COMPUTE]);
        fprintf(stderr, "the watchdog has not ended this\n");
    }
    executor->class->discard(executor, recording);
    executor->class->release(executor, mine.data, MEMORY_DEVICE);
    executor->class->release(executor, both.data, MEMORY_DEVICE);
    executor->class->release(executor, cut.data, MEMORY_DEVICE);
    executor->class->release(executor, highest.data, MEMORY_DEVICE);
}

static int test_on_gpus(struct comm *world, bool hangs)
{
    struct comm *node = comm_split_node(world);
    struct executor *executor;
    const struct device_request request = {.world = world, .node = node, .timeout = TIMEOUT};
    if (cuda_device_count() < 2 || world->size != 2)
        return CHECK_SKIP;
    if (cuda_executor_make(&executor, &request) != ERROR_NONE)
        return 1;
    struct group *group = comm_group_create(world, executor, "test");
    test(executor, group, hangs);
    comm_group_destroy(group);
    executor->class->destroy(executor);
    comm_destroy(node);
    return 0;
}

#else

static int test_on_gpus(struct comm *world, bool hangs)
{
    (void)world, (void)hangs;
    return CHECK_SKIP;
}

#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    int code = test_on_gpus(world, argc > 1 && strcmp(argv[1], "hang") == 0);
    if (code == CHECK_SKIP && world->rank == 0)
        printf("skipped: no two GPUs here\n");
    comm_destroy(world);
    MPI_Finalize();
    return code != 0 ? code : check_end();
}
