/* Collectives of the CUDA executor's groups on several GPUs, in CUDA graphs: how long gathers and sums of each size
 * take, and what is left of them when they overlap with GEMMs, chunk by chunk, as tensor parallelism does. mpirun -n
 * GPUS bench/gpu/collective_speed [TOKENS [HIDDEN]]      by default 16384 tokens of 4096
 *
 * First table: microseconds of a gather and of a sum (reduce-scatter), by bytes of the whole tensor, in memory of the
 * group (copies where all ranks reach each other) and in other memory (kernels). Second table: milliseconds of a gather
 * with the GEMM that reads its rows, and of a GEMM with the sum of its rows, in 1 to 8 chunks; beside them the GEMM
 * alone, in one piece and in as many pieces. */
#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "core/launch.h"
#include "cuda/cuda.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 10, RUNS = 5, TIMEOUT = 60, MOST_MIB = 128, CHUNKS = 8 };

static struct executor *executor;
static struct group *group;
static struct stream streams[STREAM_COUNT];

/* -- Timing ------------------------------------------------------------------------------------------------------ */

/* Launches what is timed. */
typedef void work(const void *of);

/* Returns seconds of one of REPEATS repetitions inside a graph: the median of RUNS replays. */
static double seconds_of(work *work, const void *of)
{
    struct stream *stream = &streams[STREAM_COMPUTE];
    double seconds[RUNS];
    work(of); /* what cannot be captured happens now */
    stream_synchronize(stream);
    executor->capture->begin(executor->owner, stream);
    for (int i = 0; i < REPEATS; i++)
        work(of);
    void *graph = executor->capture->end(executor->owner, stream);
    for (int run = -1; run < RUNS; run++) {
        executor->profiling->stamp(executor->owner, stream, 0);
        launch_replay(stream, graph, "collective_speed", 0);
        executor->profiling->stamp(executor->owner, stream, 1);
        stream_synchronize(stream);
        if (run >= 0)
            seconds[run] = executor->profiling->stamp_seconds(executor->owner, 0, 1) / REPEATS;
    }
    executor->capture->discard(executor->owner, graph);
    for (int i = 1; i < RUNS; i++)
        for (int j = i; j > 0 && seconds[j] < seconds[j - 1]; j--) {
            const double swapped = seconds[j];
            seconds[j] = seconds[j - 1], seconds[j - 1] = swapped;
        }
    return seconds[RUNS / 2];
}

/* -- Collectives alone ------------------------------------------------------------------------------------------- */

struct exchange {
    struct tensor all, scratch; /* by ranks; scratch absent: no copies */
    bool sums;
};

static void exchange(const void *of)
{
    const struct exchange *x = of;
    struct stream *stream = &streams[STREAM_COMPUTE];
    const struct tensor own = tensor_rows(&x->all, group->rank, 1);
    if (x->sums)
        LAUNCH(stream, REDUCE_SCATTER, reduce_scatter, .group = group, .in = x->all, .out = own, .scratch = x->scratch);
    else
        LAUNCH(stream, ALL_GATHER, all_gather, .group = group, .in = own, .out = x->all);
}

static void time_alone(void *of_group, void *scratch, void *other)
{
    if (group->rank == 0)
        printf("%8s %12s %12s %12s %12s   microseconds\n%8s %12s %12s %12s %12s\n", "", "gather", "gather", "sum",
               "sum", "MiB", "in group's", "in other", "in group's", "in other");
    for (int64_t mib = 1; mib <= MOST_MIB; mib *= 2) {
        double us[4];
        for (int i = 0; i < 4; i++) {
            const int64_t cols = (mib << 20) / 2 / group->size;
            const struct exchange x = {.all = tensor_matrix(i % 2 ? other : of_group, DTYPE_BF16, group->size, cols),
                                       .scratch = i == 2 ? tensor_matrix(scratch, DTYPE_BF16, group->size, cols)
                                                         : (struct tensor){0},
                                       .sums = i / 2};
            us[i] = 1e6 * seconds_of(exchange, &x);
        }
        if (group->rank == 0)
            printf("%8d %12.1f %12.1f %12.1f %12.1f\n", (int)mib, us[0], us[1], us[2], us[3]);
    }
}

/* -- Overlapped with a GEMM -------------------------------------------------------------------------------------- */

/* y [T, out] = x [T, in] w': with x gathered before, or y summed after. */
struct layer {
    struct tensor x, w, y, own, scratch;
    int chunks;
    bool transfers, sums;
};

static struct tensor chunk_of(struct tensor x, int chunk, int chunks)
{
    const int64_t rows = x.rows / chunks;
    return tensor_rows(&x, chunk * rows, rows);
}

static struct tensor by_ranks(struct tensor x)
{
    return tensor_matrix(x.data, x.dtype, group->size, x.rows * x.cols / group->size);
}

static struct tensor flat(struct tensor x)
{
    return tensor_vector(x.data, x.dtype, x.rows * x.cols);
}

static void run_layer(const void *of)
{
    const struct layer *l = of;
    struct stream *compute = &streams[STREAM_COMPUTE], *exchange = &streams[STREAM_EXCHANGE];
    static struct event forked, joined;
    event_record(&forked, compute);
    event_wait(&forked, exchange);
    for (int c = 0; c < l->chunks; c++) {
        const struct tensor x = chunk_of(l->x, c, l->chunks), y = chunk_of(l->y, c, l->chunks);
        if (l->transfers && !l->sums) {
            LAUNCH(exchange, ALL_GATHER, all_gather, .group = group, .in = flat(chunk_of(l->own, c, l->chunks)),
                   .out = by_ranks(x));
            event_record(&joined, exchange);
            event_wait(&joined, compute);
        }
        LAUNCH(compute, GEMM, gemm, .a = x, .b = l->w, .transpose_b = true, .d = y);
        if (l->transfers && l->sums) {
            event_record(&forked, compute);
            event_wait(&forked, exchange);
            LAUNCH(exchange, REDUCE_SCATTER, reduce_scatter, .group = group, .in = by_ranks(y),
                   .out = flat(chunk_of(l->own, c, l->chunks)),
                   .scratch =
                       tensor_present(&l->scratch) ? by_ranks(chunk_of(l->scratch, c, l->chunks)) : (struct tensor){0});
        }
    }
    event_record(&joined, exchange);
    event_wait(&joined, compute);
}

static void time_layer(const char *what, struct layer l, bool sums)
{
    double alone[CHUNKS + 1] = {0};
    l.sums = sums;
    for (l.chunks = 1; l.chunks <= CHUNKS; l.chunks *= 2) {
        l.transfers = false;
        alone[l.chunks] = seconds_of(run_layer, &l);
        l.transfers = true;
        const double both = seconds_of(run_layer, &l);
        if (group->rank == 0)
            printf("%-34s %6lld %6lld %3d %10.3f %10.3f %10.3f\n", what, (long long)l.w.rows, (long long)l.w.cols,
                   l.chunks, 1e3 * alone[1], 1e3 * alone[l.chunks], 1e3 * both);
    }
}

/* Fills memory with numbers of both signs, over and over. */
static void fill(void *memory, int64_t bytes)
{
    enum { BLOCK = 1 << 20 };
    uint16_t *block = memory_allocate(BLOCK * (int64_t)sizeof *block);
    uint32_t state = 1;
    for (int i = 0; i < BLOCK; i++) {
        state = state * 1664525u + 1013904223u;
        block[i] = (uint16_t)(0x3c00 + (state >> 16) % 0x380 + (state >> 31) * 0x8000); /* bf16 of 0.008 to 1.9 */
    }
    for (int64_t at = 0; at < bytes; at += BLOCK * (int64_t)sizeof *block) {
        const int64_t left = (bytes - at) / 2, count = left < BLOCK ? left : BLOCK;
        LAUNCH(&streams[STREAM_COMPUTE], COPY, copy, .from = tensor_vector(block, DTYPE_BF16, count),
               .to = tensor_vector((char *)memory + at, DTYPE_BF16, count));
        stream_synchronize(&streams[STREAM_COMPUTE]);
    }
    memory_free(block);
}

static void time_overlapped(int64_t tokens, int64_t hidden, bool copies)
{
    const int ranks = group->size;
    const int64_t widest = 7 * hidden / ranks; /* of the MLP: gate and up together */
    const int64_t bytes[5] = {tokens * widest * 2, widest * hidden * 2, tokens * widest * 2,
                              tokens / ranks * hidden * 2, tokens * hidden * 2};
    void *memory[5];
    for (int i = 0; i < 5; i++) {
        memory[i] = copies ? group->class->allocate(group, bytes[i])
                           : executor->class->allocate(executor, bytes[i], MEMORY_DEVICE);
        fill(memory[i], bytes[i]);
    }
    const int64_t outs[2] = {hidden * 3 / 2 / ranks, widest}, ins[2] = {hidden / ranks, widest / 2};
    for (int i = 0; i < 4; i++) {
        const bool sums = i / 2;
        const int64_t in = sums ? ins[i % 2] : hidden, out = sums ? hidden : outs[i % 2];
        const struct layer l = {.x = tensor_matrix(memory[0], DTYPE_BF16, tokens, in),
                                .w = tensor_matrix(memory[1], DTYPE_BF16, out, in),
                                .y = tensor_matrix(memory[2], DTYPE_BF16, tokens, out),
                                .own = tensor_matrix(memory[3], DTYPE_BF16, tokens / ranks, hidden),
                                .scratch = sums && copies ? tensor_matrix(memory[4], DTYPE_BF16, tokens, hidden)
                                                          : (struct tensor){0}};
        time_layer(sums ? (copies ? "GEMM, sum by copies" : "GEMM, sum by kernels")
                        : (copies ? "gather by copies, GEMM" : "gather by kernels, GEMM"),
                   l, sums);
    }
    for (int i = 0; i < 5; i++)
        if (copies)
            group->class->release(group, memory[i]);
        else
            executor->class->release(executor, memory[i], MEMORY_DEVICE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const int64_t tokens = argc > 1 ? atoll(argv[1]) : 16384, hidden = argc > 2 ? atoll(argv[2]) : 4096;
    struct comm *world = comm_open_mpi(), *node = comm_split_node(world);
    const struct device_request request = {.world = world, .node = node, .timeout = TIMEOUT};
    if (cuda_executor_make(&executor, &request) != ERROR_NONE)
        return 1;
    group = comm_group_create(world, executor, "speed");
    for (int s = 0; s < STREAM_COUNT; s++)
        streams[s] = (struct stream){executor, s, NULL};
    executor->class->reserve(executor, STREAM_COMPUTE, (int64_t)64 << 20); /* of GEMMs */
    const int64_t bytes = (int64_t)MOST_MIB << 20;
    void *of_group = group->class->allocate(group, bytes), *scratch = group->class->allocate(group, bytes);
    void *other = executor->class->allocate(executor, bytes, MEMORY_DEVICE);
    time_alone(of_group, scratch, other);
    executor->class->release(executor, other, MEMORY_DEVICE);
    group->class->release(group, scratch);
    group->class->release(group, of_group);
    if (group->rank == 0)
        printf("%-34s %6s %6s %3s %10s %10s %10s   milliseconds\n", "", "out", "in", "", "GEMM", "in pieces", "both");
    time_overlapped(tokens, hidden, true);
    time_overlapped(tokens, hidden, false);
    comm_group_destroy(group);
    executor->class->destroy(executor);
    comm_destroy(node);
    comm_destroy(world);
    MPI_Finalize();
    return 0;
}
