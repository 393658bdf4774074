/* GB/s (1e9 bytes) of a checkpoint of 85 million parameters with their moments, about 1 GB, beside dd's to the same
 * folder: written with what it takes to be safe (hashes, flushes, side file, renames) beside dd conv=fsync; read as a
 * restart does it, with all its bytes compared, beside dd's reading, the page cache emptied of the file before each,
 * then once more from the page cache. Beside steps they wait for the snapshot alone, whose first one takes memory.
 * Medians of several turns, taken in alternation. LAYERS and HIDDEN: another model, for example of many small tensors.
 *   make bench/checkpoint_speed && [mpirun -n RANKS] bench/checkpoint_speed FOLDER [TURNS [LAYERS HIDDEN]] */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "state/initialise.h"
#include "state/snapshot.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TURNS = 25, TOKENS = 16, PAGE_BYTES = 4096 };

enum act { ACT_WRITE, ACT_DD_WRITE, ACT_LOAD, ACT_DD_READ, ACT_LOAD_WARM, ACT_DD_WARM, ACT_SNAPSHOT, ACTS };

static const char *const act_names[ACTS] = {"write",           "dd conv=fsync",   "restart", "dd read",
                                            "restart, cached", "dd read, cached", "snapshot"};

static struct comm *world;
static double seconds[ACTS][MOST_TURNS];
static int turns = 5;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Takes a file out of the page cache; returns the share of it that is there still. */
static double evict(const char *path)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        error_fatal("%s: cannot open it", path);
    fdatasync(descriptor);
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    int64_t pages = (status.st_size + PAGE_BYTES - 1) / PAGE_BYTES, there = 0;
    unsigned char *resident = memory_allocate(pages);
    void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED || mincore(map, (size_t)status.st_size, resident) != 0)
        error_fatal("%s: cannot tell what the page cache holds of it", path);
    for (int64_t i = 0; i < pages; i++)
        there += resident[i] & 1;
    munmap(map, (size_t)status.st_size);
    memory_free(resident);
    close(descriptor);
    return (double)there / (double)pages;
}

/* A command on rank 0, with dd's own report thrown away. */
static double run_dd(const char *from, const char *to, int64_t bytes, const char *options)
{
    double start = clock_seconds();
    if (world->rank == 0) {
        char *command = memory_format("dd if='%s' of='%s' bs=8M count=%lld iflag=count_bytes %s 2>/dev/null", from, to,
                                      (long long)bytes, options);
        if (system(command) != 0)
            error_fatal("%s: failed", command);
        free(command);
    }
    comm_barrier(world);
    return clock_seconds() - start;
}

/* As a restart does it; returns the seconds. */
static double load(struct engine *engine, const char *path)
{
    const double start = clock_seconds();
    char *found, *aside;
    bool damaged;
    if (checkpoint_find_to_load(world, path, &found, &aside) != ERROR_NONE ||
        checkpoint_load(world, engine, found, true, &damaged) != ERROR_NONE)
        error_fatal("the checkpoint cannot be read, or is not what was written");
    free(found);
    return clock_seconds() - start;
}

/* One turn of all; returns the bytes of the checkpoint, and the largest share of a file that stayed in the cache. */
static int64_t turn(struct engine *engine, struct snapshot *snapshot, const char *folder, int number, double *cached)
{
    struct checkpoint_meta meta = {.deck_text = "# none\n", .version = "bench"};
    char *path = memory_format("%s/bench_checkpoint.h5", folder), *copy = memory_format("%s/bench_dd", folder);
    char *side = memory_format("%s.xxh3", path);
    struct stat status = {0};
    double start = clock_seconds();
    int code = checkpoint_write(world, engine, &meta, path, true);
    seconds[ACT_WRITE][number] = clock_seconds() - start;
    if (code != ERROR_NONE || stat(path, &status) != 0)
        error_fatal("the checkpoint cannot be written");
    seconds[ACT_DD_WRITE][number] = run_dd("/dev/zero", copy, status.st_size, "conv=fsync");

    double left = world->rank == 0 ? evict(path) : 0;
    *cached = left > *cached ? left : *cached;
    comm_barrier(world);
    seconds[ACT_LOAD][number] = load(engine, path);
    seconds[ACT_LOAD_WARM][number] = load(engine, path);
    left = world->rank == 0 ? evict(copy) : 0;
    *cached = left > *cached ? left : *cached;
    comm_barrier(world);
    seconds[ACT_DD_READ][number] = run_dd(copy, "/dev/null", status.st_size, "");
    seconds[ACT_DD_WARM][number] = run_dd(copy, "/dev/null", status.st_size, "");
    start = clock_seconds();
    snapshot_take(snapshot);
    snapshot_taken(snapshot, true);
    comm_barrier(world);
    seconds[ACT_SNAPSHOT][number] = clock_seconds() - start;
    comm_barrier(world);
    if (world->rank == 0) {
        unlink(path);
        unlink(side);
        unlink(copy);
    }
    free(path);
    free(copy);
    free(side);
    return status.st_size;
}

static void report(int64_t bytes, double cached)
{
    double rate[ACTS];
    printf("%.2f GB, %d ranks, %d turns; GB/s: median, slowest, fastest\n", (double)bytes * 1e-9, world->size, turns);
    for (int a = 0; a < ACTS; a++) {
        qsort(seconds[a], (size_t)turns, sizeof(double), by_size);
        rate[a] = (double)bytes * 1e-9 / seconds[a][turns / 2];
        printf("  %-16s %6.2f %6.2f %6.2f\n", act_names[a], rate[a], (double)bytes * 1e-9 / seconds[a][turns - 1],
               (double)bytes * 1e-9 / seconds[a][0]);
    }
    printf("  write is %.2f of dd, restart %.2f of dd, from the page cache %.2f of dd\n",
           rate[ACT_WRITE] / rate[ACT_DD_WRITE], rate[ACT_LOAD] / rate[ACT_DD_READ],
           rate[ACT_LOAD_WARM] / rate[ACT_DD_WARM]);
    if (cached > 0.01)
        printf("  reads came from the page cache in part: it kept %.0f %% of a file\n", 100 * cached);
}

int main(int count, char **arguments)
{
    struct model_settings settings = {.family = &family_llama,
                                      .layers = 12,
                                      .hidden = 768,
                                      .ffn = 2048,
                                      .heads = 12,
                                      .kv_heads = 12,
                                      .head_dim = 64,
                                      .vocabulary = 256,
                                      .rope = {.theta = 10000},
                                      .norm_eps = 1e-5,
                                      .init_std = 0.02,
                                      .embedding_std = 0.02,
                                      .output_std = 0.02,
                                      .decay_matrices = true};
    static const struct engine_settings engine_settings = {.memory = {.compute = DTYPE_F32,
                                                                      .statistic = DTYPE_F32,
                                                                      .slots = {1},
                                                                      .rows = 1,
                                                                      .row_tokens = TOKENS,
                                                                      .max_segments = 1},
                                                           .optimizer = {0.9, 0.95, 1e-8, 0.1, 1.0}};
    MPI_Init(&count, &arguments);
    world = comm_open_mpi();
    log_open(world->rank);
    if (count < 2)
        error_fatal("usage: bench/checkpoint_speed FOLDER [TURNS [LAYERS HIDDEN]]");
    if (count > 2 && atoi(arguments[2]) > 0)
        turns = atoi(arguments[2]) < MOST_TURNS ? atoi(arguments[2]) : MOST_TURNS;
    if (count > 4) {
        settings.layers = atoi(arguments[3]);
        settings.hidden = atoi(arguments[4]);
        settings.ffn = 8 * settings.hidden / 3 / 16 * 16;
        settings.heads = settings.kv_heads = settings.hidden / settings.head_dim;
    }
    struct executor *executor = cpu_executor_create(1);
    struct group *group = comm_group_create(world, NULL, "data");
    struct model model;
    struct engine engine;
    model_create(&model, &settings, TOKENS, TOKENS);
    const struct parallel_groups groups = groups_replicated(group);
    engine_create(&engine, executor, &model, &groups, &engine_settings);
    engine_initialise(&engine, 1);
    struct snapshot snapshot;
    snapshot_create(&snapshot, &engine);
    int64_t bytes = 0;
    double cached = 0;
    for (int i = 0; i < turns; i++)
        bytes = turn(&engine, &snapshot, arguments[1], i, &cached);
    snapshot_destroy(&snapshot);
    if (world->rank == 0)
        report(bytes, cached);
    engine_destroy(&engine);
    model_destroy(&model);
    comm_group_destroy(group);
    executor->class->destroy(executor);
    comm_destroy(world);
    MPI_Finalize();
    return 0;
}
