/* Collectives, splits and the loader work on groups of 2 and 3 ranks in a world of 6; the process grid has the expected
 * groups in all shapes of up to 72 ranks, and refuses impossible shapes. Which GPU each rank gets, how ranks lie on
 * nodes, and collectives through host memory are checked.
 *
 * ranks: 6 */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/waiting.h"
#include "comm/copying_group.h"
#include "comm/grid.h"
#include "comm/placement.h"
#include "comm/threads.h"
#include "core/launch.h"
#include "cpu/cpu.h"
#include "loader/loader.h"
#include "prepare/prepare.h"
#include "ref/late.h"

#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float value(int rank, int64_t i)
{
    return (float)((rank + 1) * 0.1 + (double)(i % 977) * 1e-3);
}

#define COLLECT(stream, OP, name, ...)                                                                                 \
    launch_collective((stream), OP_##OP, &(struct name##_args){.group = group, __VA_ARGS__})

/* With a rank's part in its place within the whole: `data` has space for a row of each rank. */
static void test_in_place(struct stream *stream, struct group *group, const int *members, float *data, int64_t count)
{
    const struct tensor whole = tensor_matrix(data, DTYPE_F32, group->size, count);
    const struct tensor own = tensor_rows(&whole, group->rank, 1);
    const int world_rank = members[group->rank];
    int wrong = 0;
    for (int64_t i = 0; i < count * group->size; i++)
        data[i] = value(world_rank, i);
    COLLECT(stream, REDUCE_SCATTER, reduce_scatter, .in = whole, .out = own);
    for (int64_t i = 0; i < count * group->size; i++) {
        float expected = value(i / count == group->rank ? members[0] : world_rank, i);
        for (int r = 1; r < group->size && i / count == group->rank; r++)
            expected += value(members[r], i);
        wrong += data[i] != expected;
    }
    COLLECT(stream, ALL_GATHER, all_gather, .in = own, .out = whole);
    for (int64_t i = 0; i < count * group->size; i++) {
        float expected = value(members[0], i);
        for (int r = 1; r < group->size; r++)
            expected += value(members[r], i);
        wrong += data[i] != expected;
    }
    CHECK(wrong == 0);
}

/* Sums of bf16 are rounded once, when all terms are in. */
static uint16_t half_sum(const int *members, int size, int64_t i)
{
    float sum = bf16_to_f32(f32_to_bf16(value(members[0], i)));
    for (int r = 1; r < size; r++)
        sum += bf16_to_f32(f32_to_bf16(value(members[r], i)));
    return f32_to_bf16(sum);
}

static void test_halves(struct stream *stream, struct group *group, const int *members, int64_t count)
{
    const int64_t all = count * group->size, own = group->rank * count;
    uint16_t *data = memory_allocate(all * 2), *out = memory_allocate(count * 2);
    int wrong = 0;
    for (int64_t i = 0; i < all; i++)
        data[i] = f32_to_bf16(value(members[group->rank], i));
    COLLECT(stream, REDUCE_SCATTER, reduce_scatter, .in = tensor_matrix(data, DTYPE_BF16, group->size, count),
            .out = tensor_vector(out, DTYPE_BF16, count));
    COLLECT(stream, ALL_REDUCE, all_reduce, .x = tensor_vector(data, DTYPE_BF16, all));
    for (int64_t i = 0; i < all; i++)
        wrong += data[i] != half_sum(members, group->size, i);
    for (int64_t i = 0; i < count; i++)
        wrong += out[i] != half_sum(members, group->size, own + i);
    CHECK(wrong == 0);
    memory_free(data);
    memory_free(out);
}

/* All collectives on one group, against sums made here in rank order. */
/* Both ways, where all send before any receives, and one way between the first two ranks alone. data, out: [size *
 * count] each. */
static void test_send_receive(struct stream *stream, struct group *group, const int *members, float *data, float *out,
                              int64_t count)
{
    const int size = group->size, next = members[(group->rank + 1) % size];
    const int before = members[(group->rank + size - 1) % size];
    const struct tensor absent = {0}, first = tensor_vector(data, DTYPE_F32, count),
                        in = tensor_vector(out, DTYPE_F32, count);
    int64_t wrong = 0;
    for (int64_t i = 0; i < count * size; i++)
        data[i] = value(members[group->rank], i);
    if (size > 1) {
        COLLECT(stream, SEND_RECEIVE, send_receive, .to_next = first);
        COLLECT(stream, SEND_RECEIVE, send_receive, .to_previous = tensor_vector(data + count, DTYPE_F32, count));
        COLLECT(stream, SEND_RECEIVE, send_receive, .from_previous = in,
                .from_next = tensor_vector(out + count, DTYPE_F32, count));
    } else {
        COLLECT(stream, SEND_RECEIVE, send_receive, .to_next = first, .from_previous = in);
    }
    for (int64_t i = 0; i < count; i++)
        wrong += out[i] != value(before, i) || (size > 1 && out[count + i] != value(next, count + i));
    if (size > 1 && group->rank < 2) {
        COLLECT(stream, SEND_RECEIVE, send_receive,
                .to_next = group->rank == 0 ? tensor_vector(data + count, DTYPE_F32, count) : absent,
                .from_previous = group->rank == 1 ? in : absent);
        for (int64_t i = 0; i < count && group->rank == 1; i++)
            wrong += out[i] != value(members[0], count + i);
    }
    CHECK(wrong == 0);
}

static void test_collectives(struct stream *stream, struct group *group, const int *members, int64_t count)
{
    int size = group->size, world_rank = members[group->rank];
    float *data = memory_allocate(count * size * 4), *out = memory_allocate(count * size * 4);

    for (int64_t i = 0; i < count; i++)
        data[i] = value(world_rank, i);
    COLLECT(stream, ALL_REDUCE, all_reduce, .x = tensor_vector(data, DTYPE_F32, count));
    int wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        float sum = value(members[0], i);
        for (int r = 1; r < size; r++)
            sum += value(members[r], i);
        wrong += data[i] != sum;
    }
    CHECK(wrong == 0);

    for (int64_t i = 0; i < count; i++) /* each rank has the largest of some */
        data[i] = (i + group->rank) % size == 0 ? 7.0f : -value(world_rank, i);
    COLLECT(stream, ALL_REDUCE, all_reduce, .x = tensor_vector(data, DTYPE_F32, count), .maximum = true);
    for (int64_t i = 0; i < count; i++)
        wrong += data[i] != 7.0f;
    CHECK(wrong == 0);

    for (int64_t i = 0; i < count * size; i++)
        data[i] = value(world_rank, i);
    COLLECT(stream, REDUCE_SCATTER, reduce_scatter, .in = tensor_matrix(data, DTYPE_F32, size, count),
            .out = tensor_vector(out, DTYPE_F32, count));
    for (int64_t i = 0; i < count; i++) {
        int64_t element = group->rank * count + i;
        float sum = value(members[0], element);
        for (int r = 1; r < size; r++)
            sum += value(members[r], element);
        wrong += out[i] != sum;
    }
    CHECK(wrong == 0);

    for (int64_t i = 0; i < count; i++)
        data[i] = value(world_rank, i);
    COLLECT(stream, ALL_GATHER, all_gather, .in = tensor_vector(data, DTYPE_F32, count),
            .out = tensor_matrix(out, DTYPE_F32, size, count));
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < count; i++)
            wrong += out[r * count + i] != value(members[r], i);
    CHECK(wrong == 0);

    COLLECT(stream, BROADCAST, broadcast, .x = tensor_vector(data, DTYPE_F32, count), .root = size - 1);
    for (int64_t i = 0; i < count; i++)
        wrong += data[i] != value(members[size - 1], i);
    CHECK(wrong == 0);

    for (int64_t i = 0; i < count * size; i++)
        data[i] = value(world_rank, i);
    COLLECT(stream, ALL_TO_ALL, all_to_all, .in = tensor_matrix(data, DTYPE_F32, size, count),
            .out = tensor_matrix(out, DTYPE_F32, size, count));
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < count; i++)
            wrong += out[r * count + i] != value(members[r], group->rank * count + i);
    CHECK(wrong == 0);

    COLLECT(stream, SHIFT, shift, .in = tensor_vector(data, DTYPE_F32, count),
            .out = tensor_vector(out, DTYPE_F32, count));
    for (int64_t i = 0; i < count; i++)
        wrong += out[i] != value(members[(group->rank + size - 1) % size], i);
    CHECK(wrong == 0);
    test_send_receive(stream, group, members, data, out, count);
    test_in_place(stream, group, members, data, count);

    test_halves(stream, group, members, count);
    double total[2] = {world_rank + 0.5, 1};
    COLLECT(stream, ALL_REDUCE, all_reduce, .x = tensor_vector(total, DTYPE_F64, 2));
    CHECK(total[1] == size);
    double most[2] = {world_rank, -world_rank};
    COLLECT(stream, ALL_REDUCE, all_reduce, .x = tensor_vector(most, DTYPE_F64, 2), .maximum = true);
    CHECK(most[0] == members[size - 1] && most[1] == -members[0]); /* members ascend */
    memory_free(data);
    memory_free(out);
}

/* On an executor that copies only when it is waited for: as on a device. */
static void test_copying(struct executor *cpu, struct comm *comm, const int *members)
{
    struct executor *late = late_executor_create(cpu);
    struct stream stream = {late, STREAM_REDUCE, NULL};
    struct group *group = copying_group_create(comm, late, "copying");
    CHECK(group->rank == comm->rank && group->size == comm->size);
    for (int64_t count = 1; count <= 2000; count = count * 1700 + 1)
        test_collectives(&stream, group, members, count);
    test_collectives(&stream, group, members, 5);
    comm_group_destroy(group);
    late->class->destroy(late);
}

/* -- Which rank has which device ----------------------------------------------------------------------------------- */

enum { MOST_SEEN = 4 };

/* seen: for each rank the letters of its devices. places: its number in these and how many have it, as "00 01" .*/
static void check_placement(const char *const *seen, int ranks, int devices, const char *places)
{
    struct placement_id ids[8 * MOST_SEEN];
    struct device_placement found[8];
    int64_t counts[8];
    char text[64] = "";
    memset(ids, 0xa5, sizeof ids);
    for (int r = 0; r < ranks; r++) {
        counts[r] = (int64_t)strlen(seen[r]);
        for (int64_t i = 0; i < counts[r]; i++)
            ids[r * MOST_SEEN + i].bytes[PLACEMENT_ID_BYTES - 1] = (unsigned char)seen[r][i];
    }
    CHECK(placement_choose(found, ids, counts, MOST_SEEN, ranks) == devices);
    for (int r = 0; r < ranks; r++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d:%d", r > 0 ? " " : "", found[r].device,
                 found[r].sharing);
    CHECK_STRING(text, places);
}

static void test_placement(void)
{
    check_placement((const char *[]){"ABCD", "ABCD", "ABCD", "ABCD"}, 4, 4, "0:1 1:1 2:1 3:1");
    check_placement((const char *[]){"AB", "AB", "AB", "AB", "AB"}, 5, 2, "0:3 1:2 0:3 1:2 0:3");
    check_placement((const char *[]){"A", "B", "C"}, 3, 3, "0:1 0:1 0:1"); /* one each, as --gpus-per-task has it */
    check_placement((const char *[]){"A", "B", "A"}, 3, 2, "0:2 0:1 0:2");
    check_placement((const char *[]){"DCBA", "ABCD"}, 2, 4, "0:1 0:1"); /* not in one order */
    check_placement((const char *[]){"AB", "AB", "CD", "CD"}, 4, 4, "0:1 1:1 0:1 1:1");
    check_placement((const char *[]){"AB", "A"}, 2, 2, "1:1 0:1");
    check_placement((const char *[]){"AA"}, 1, 1, "0:1");
    struct placement_id ids[3] = {{{1}}, {{2}}, {{1}}};
    CHECK(placement_repeats(ids, 3) && !placement_repeats(ids, 2));
}

/* The loader on a grid: ranks of a model group get the same batches, and the rows of all these groups together are
 * those that one rank alone gets. */
enum { LOADED_STEPS = 6, GLOBAL_ROWS = 7, ROW_TOKENS = 64 };

static const struct loader_settings loading = {.seed = 3,
                                               .row_tokens = ROW_TOKENS,
                                               .window = 48,
                                               .overlap = 5,
                                               .max_segments = 4,
                                               .global_rows = GLOBAL_ROWS,
                                               .micro_rows = 2,
                                               .split = true,
                                               .mask_degenerate = true,
                                               .shuffle = true};

/* A number for each row of a step that is not empty: its tokens, labels, positions. Returns how many. */
static int64_t hash_rows(struct loader *loader, int64_t *hashes)
{
    const struct batch *batches = loader_next(loader);
    int64_t count = 0;
    for (int64_t m = 0; m < loader_micro_batches(loader); m++)
        for (int64_t i = 0; i < batches[m].rows; i++) {
            const struct batch *batch = &batches[m];
            int64_t hash = 0;
            for (int64_t t = i * ROW_TOKENS; t < (i + 1) * ROW_TOKENS; t++)
                hash =
                    (hash * 1000003 + batch->tokens[t] * 7 + batch->labels[t] * 131 + batch->positions[t]) % 2147483647;
            if (batch->segment_length[i * batch->max_segments] > 0)
                hashes[count++] = hash;
        }
    return count;
}

static int64_t count_of(int64_t wanted, const int64_t *hashes, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += hashes[i] == wanted;
    return found;
}

static void test_loader(struct comm *world, int tensor, int context, bool balance, const char *store)
{
    struct comm *self = comm_self();
    struct grid made, *grid = &made;
    CHECK(grid_create(grid, world, &(struct grid_shape){.tensor = tensor, .context = context}) == ERROR_NONE);
    struct loader_settings settings = loading;
    settings.stores = store;
    settings.balance = balance;
    struct loader *own, *alone;
    CHECK(loader_create(&own, &settings, world, grid->data_rank, grid->data_ranks) == ERROR_NONE);
    CHECK(loader_create(&alone, &settings, self, 0, 1) == ERROR_NONE);
    for (int step = 0; step < LOADED_STEPS; step++) {
        int64_t expected[2 * GLOBAL_ROWS], own_rows[2 * GLOBAL_ROWS];
        CHECK(hash_rows(alone, expected) == GLOBAL_ROWS);
        const int64_t rows = hash_rows(own, own_rows);
        CHECK(comm_sum_i64(world, rows) == tensor * context * GLOBAL_ROWS);
        for (int r = 0; r < GLOBAL_ROWS; r++) { /* each model group holds some of the rows */
            const int64_t found = count_of(expected[r], own_rows, rows);
            CHECK(comm_sum_i64(world, found) == tensor * context * count_of(expected[r], expected, GLOBAL_ROWS));
            CHECK(comm_max_i64(grid->model, found) == found);
        }
        if (step == 2) { /* a restart in mid-epoch */
            struct blend_position position = loader_position(own);
            loader_next(own);
            loader_seek(own, &position, step + 1);
            blend_position_destroy(&position);
        }
    }
    loader_destroy(own);
    loader_destroy(alone);
    grid_destroy(grid);
    comm_destroy(self);
}

/* -- Shapes of the grid -------------------------------------------------------------------------------------------- */

static bool stands_at(const struct comm *comm, int size, int rank)
{
    return comm->size == size && comm->rank == rank;
}

/* The ranks of each group of a shape are those that the formula of grid.h names. */
static void check_grid(struct comm *world, const struct grid_shape *shape)
{
    struct grid grid;
    const int stage_ranks = world->size / shape->stages, place_in_stage = world->rank % stage_ranks;
    const int own = world->rank, cuts = shape->shard > 0 ? shape->shard : stage_ranks / shape->tensor;
    const int data = place_in_stage / shape->tensor, tensor = own % shape->tensor, base = own - place_in_stage;
    if (!CHECK(grid_create(&grid, world, shape) == ERROR_NONE))
        return;
    const struct grid_numbers sizes = grid_sizes(shape, world->size), place = grid_place(shape, world->size, own);
    CHECK(stands_at(grid.model, sizes.model, place.model) && stands_at(grid.tensor, sizes.tensor, place.tensor));
    CHECK(stands_at(grid.context, sizes.context, place.context) && stands_at(grid.data, sizes.data, place.data));
    CHECK(stands_at(grid.shard, sizes.shard, place.shard) && stands_at(grid.replicas, sizes.replicas, place.replicas));
    CHECK(sizes.shard * sizes.replicas == sizes.data && sizes.data * sizes.tensor == stage_ranks);
    CHECK(stands_at(grid.stages, shape->stages, own / stage_ranks));
    CHECK(grid.data_rank == data / shape->context && grid.data_ranks == sizes.data / shape->context);
    int members[6];
    comm_all_gather(grid.tensor, &own, members, sizeof own);
    for (int r = 0; r < shape->tensor; r++)
        CHECK(members[r] == base + data * shape->tensor + r);
    comm_all_gather(grid.context, &own, members, sizeof own);
    for (int r = 0; r < shape->context; r++)
        CHECK(members[r] == base + (grid.data_rank * shape->context + r) * shape->tensor + tensor);
    comm_all_gather(grid.shard, &own, members, sizeof own);
    for (int r = 0; r < cuts; r++)
        CHECK(members[r] == base + (data / cuts * cuts + r) * shape->tensor + tensor);
    comm_all_gather(grid.replicas, &own, members, sizeof own);
    for (int r = 0; r < sizes.replicas; r++)
        CHECK(members[r] == base + (r * cuts + data % cuts) * shape->tensor + tensor);
    comm_all_gather(grid.stages, &own, members, sizeof own);
    for (int r = 0; r < shape->stages; r++)
        CHECK(members[r] == r * stage_ranks + place_in_stage);
    grid_destroy(&grid);
}

/* Each kind that a rank is of has one rank, whatever divides what. */
static void check_kinds(const struct grid_shape *shape, int ranks)
{
    int kinds[GRID_KINDS], of[GRID_KINDS] = {0}; /* 1: ranks are of it; 2: and one stands for them */
    const int count = grid_kinds(shape, ranks, kinds);
    for (int i = 0; i < ranks + count; i++) {
        const struct grid_numbers at = grid_place(shape, ranks, i < ranks ? i : kinds[i - ranks]);
        int *kind = &of[(at.context > 0) + 2 * (at.shard > 0) + 4 * (at.replicas > 0) + 8 * (at.tensor > 0) +
                        16 * (at.kv_replicas > 0) + 32 * at.stages];
        *kind = i < ranks ? 1 : *kind + 1;
    }
    for (int k = 0; k < GRID_KINDS; k++)
        if (!CHECK(of[k] == 0 || of[k] == 2))
            fprintf(stderr,
                    "    %d ranks, %d stages, tensor %d, context %d, shard %d: kind %d has %d ranks to stand for it\n",
                    ranks, shape->stages, shape->tensor, shape->context, shape->shard, k, of[k] - 1);
}

/* Room for the parts of sums, of one shape and type, and of nothing else. */
static void test_scratch(void)
{
    static float numbers[12];
    struct group group = {.name = "three", .size = 3};
    const struct tensor x = tensor_vector(numbers, DTYPE_F32, 6), rows = tensor_matrix(numbers, DTYPE_F32, 3, 2);
    struct all_reduce_args sum = {.group = &group, .x = x, .scratch = tensor_matrix(numbers + 6, DTYPE_F32, 3, 2)};
    struct reduce_scatter_args part = {.group = &group,
                                       .in = rows,
                                       .out = tensor_rows(&rows, 0, 1),
                                       .scratch = tensor_matrix(numbers + 6, DTYPE_F32, 3, 2)};
    CHECK(op_check(OP_ALL_REDUCE, &sum) == NULL && op_check(OP_REDUCE_SCATTER, &part) == NULL);
    sum.maximum = true;
    part.scratch = tensor_matrix(numbers + 6, DTYPE_F32, 2, 3);
    CHECK(op_check(OP_ALL_REDUCE, &sum) != NULL && op_check(OP_REDUCE_SCATTER, &part) != NULL);
    sum.maximum = false;
    part.scratch = tensor_matrix(numbers + 6, DTYPE_BF16, 3, 2);
    CHECK(op_check(OP_REDUCE_SCATTER, &part) != NULL);
    sum.scratch.cols = part.scratch.cols = 1;
    part.scratch.rows = 3;
    CHECK(op_check(OP_ALL_REDUCE, &sum) != NULL && op_check(OP_REDUCE_SCATTER, &part) != NULL);
}

/* How six ranks lie on nodes, and how a sharding group is divided by them. */
static void test_nodes(struct comm *world)
{
    static const int nodes[][7] = {{0, 0, 0, 0, 0, 0, 6}, {0, 0, 1, 1, 2, 2, 2}, {0, 0, 0, 1, 1, 1, 3},
                                   {0, 1, 0, 1, 0, 1, 1}, {0, 0, 0, 0, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 1}};
    for (int i = 0; i < (int)(sizeof nodes / sizeof *nodes); i++) {
        struct comm *node = comm_split(world, nodes[i][world->rank]);
        CHECK(comm_node_block(world, node) == nodes[i][6]);
        comm_destroy(node);
    }
    for (int ranks = 2; ranks <= 6; ranks += 2) {
        char text[8];
        snprintf(text, sizeof text, "%d", ranks);
        setenv("CISTRON_NODE_RANKS", text, 1);
        struct comm *node = comm_split_node(world);
        CHECK(node->rank == world->rank % ranks && comm_node_block(world, node) == (ranks == 4 ? 1 : ranks));
        comm_destroy(node);
    }
    unsetenv("CISTRON_NODE_RANKS");
    for (int near = 2; near <= 3; near++) {
        const struct grid_shape shape = {.tensor = 1, .context = 1, .near = near};
        const struct grid_numbers sizes = grid_sizes(&shape, world->size);
        struct grid grid;
        CHECK(grid_create(&grid, world, &shape) == ERROR_NONE && grid.near == NULL && grid.far == NULL);
        grid_divide(&grid, &shape);
        CHECK(grid.near->size == near && sizes.near == near && grid.near->rank == world->rank % near);
        CHECK(grid.far->size == 6 / near && sizes.far == 6 / near && grid.far->rank == world->rank / near);
        CHECK(comm_sum_i64(grid.near, world->rank) == near * (world->rank - grid.near->rank) + near * (near - 1) / 2);
        grid_destroy(&grid);
    }
    CHECK(grid_check(&(struct grid_shape){.tensor = 1, .context = 1, .near = 4}, 6) != NULL);
}

static void test_kinds(void)
{
    int shapes = 0;
    for (int ranks = 1; ranks <= 72; ranks++)
        for (int tensor = 1; tensor <= 4; tensor++)
            for (int context = 1; context <= ranks; context++)
                for (int shard = 0; shard <= ranks; shard++) {
                    const struct grid_shape shape = {.tensor = tensor,
                                                     .kv_replicas = tensor % 2 == 0 && shard % 2 == 0 ? 2 : 1,
                                                     .context = context,
                                                     .shard = shard,
                                                     .stages = 1 + (context + shard) % 3};
                    if (grid_check(&shape, ranks) != NULL)
                        continue;
                    check_kinds(&shape, ranks);
                    shapes++;
                }
    CHECK(shapes > 1500);
}

static void test_shapes(struct comm *world)
{
    int fit = 0;
    for (int number = 0; number < 4 * 7 * 7 * 8; number++) {
        const struct grid_shape shape = {.tensor = number % 7,
                                         .context = number / 7 % 7,
                                         .shard = number / 49 % 8 - 1,
                                         .stages = 1 + number / (49 * 8)};
        const int ranks = 6 % shape.stages == 0 ? 6 / shape.stages : 0, model = shape.tensor * shape.context;
        const bool fits = ranks > 0 && model > 0 && ranks % model == 0 && shape.shard >= 0 &&
                          (shape.shard == 0 || ranks / shape.tensor % shape.shard == 0);
        CHECK((grid_check(&shape, 6) == NULL) == fits);
        fit += fits;
        if (fits)
            check_grid(world, &shape);
    }
    CHECK(fit == 34 + 8 + 8);
    struct grid grid;
    CHECK(grid_create(&grid, world, &(struct grid_shape){.tensor = 1, .context = 4}) == ERROR_USER);
    CHECK_STRING(error_message(), "6 ranks cannot be divided into groups that share data");
    error_clear();
    CHECK(grid_create(&grid, world, &(struct grid_shape){.tensor = 2, .context = 1, .shard = 2}) == ERROR_USER);
    CHECK_STRING(error_message(), "6 ranks cannot be divided into groups that share the model's state");
    error_clear();
    CHECK(grid_create(&grid, world, &(struct grid_shape){.tensor = 1, .context = 1, .stages = 4}) == ERROR_USER);
    CHECK_STRING(error_message(), "6 ranks cannot be divided into the stages of a pipeline");
    error_clear();
}

/* A store of a few sequences, made by rank 0. */
static void make_store(struct comm *world, char *folder, char *store, size_t bytes)
{
    if (world->rank == 0) {
        CHECK(mkdtemp(folder) != NULL);
        char fasta[256];
        snprintf(fasta, sizeof fasta, "%s/g.fa", folder);
        FILE *file = fopen(fasta, "w");
        CHECK(file != NULL);
        for (int r = 0; r < 9; r++) {
            fprintf(file, ">record%d\n", r);
            for (int i = 0; i < 40 + 70 * r; i++)
                fputc("ACGTN"[(i * i + 3 * i * r + i / 7) % 5], file);
            fputc('\n', file);
        }
        fclose(file);
    }
    comm_broadcast(world, folder, (int64_t)strlen(folder) + 1, 0);
    snprintf(store, bytes, "%s/g.h5", folder);
    if (world->rank == 0) {
        char fasta[256];
        snprintf(fasta, sizeof fasta, "%s/g.fa", folder);
        const char *inputs[] = {fasta};
        struct prepare_settings settings = {
            .tokenizer = "nucleotide", .output = store, .field = "text", .inputs = inputs, .input_count = 1};
        CHECK(prepare_run(&settings) == ERROR_NONE);
    }
    comm_barrier(world);
}

/* Each node has a copy of its own, here the upper ranks: it is read when its window index is made. One that is not what
 * its checksum says is refused by all, wherever it lies. */
static void test_copies(struct comm *world, const char *folder, const char *store)
{
    struct token_store *opened;
    struct store_windows *windows;
    const struct windows_layout layout = {32, 4, WINDOWS_EACH, false, false};
    char command[1000], copy[300];
    int64_t place = 0;
    snprintf(copy, sizeof copy, "%s/copy/g.h5", folder);
    for (int damaged = 0; damaged < 2; damaged++) {
        if (damaged)
            snprintf(command, sizeof command,
                     "printf TTTTTTTTTTTT | dd of='%s' bs=1 seek=%lld conv=notrunc 2>/dev/null", copy,
                     (long long)place);
        else
            snprintf(command, sizeof command, "mkdir '%s/copy' && cp '%s' '%s'", folder, store, copy);
        CHECK(world->rank != 0 || system(command) == 0);
        comm_barrier(world);
        CHECK(token_store_open(&opened, world->rank < 3 ? store : copy) == ERROR_NONE);
        place = opened->tokens - opened->map->data + 100;
        CHECK(windows_open(&windows, opened, &layout, world) == (damaged ? ERROR_USER : ERROR_NONE));
        CHECK(damaged || windows->index.map != NULL);
        windows_close(windows);
        token_store_close(opened);
    }
}

static void remove_folder(const char *folder)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}
struct question {
    struct comm *comm;
    char missing[256];
    atomic_bool answered;
};

static void *ask(void *self)
{
    struct question *question = self;
    comm_missing(question->comm, question->missing, sizeof question->missing);
    atomic_store(&question->answered, true);
    return NULL;
}

/* A rank waits, as for a device, while a thread of it asks for whom; another one waits too, the third is asleep. */
static void test_missing(struct comm *world)
{
    enum { ASLEEP = 2, OTHERS = 3, SECONDS = 8 };
    struct comm *part = comm_split(world, world->rank / OTHERS);
    struct question question = {.comm = part, .answered = part->rank > 0};
    struct rank_waiting waiting = {0};
    double waited = 0;
    pthread_t thread;
    CHECK(comm_attends());
    if (part->rank == ASLEEP)
        sleep(SECONDS);
    if (part->rank == 0)
        CHECK(pthread_create(&thread, NULL, ask, &question) == 0);
    while (part->rank != ASLEEP && (waited < SECONDS || !atomic_load(&question.answered)))
        comm_attend(waited = waiting_turn(&waiting));
    if (part->rank == 0) {
        char host[128] = "", wanted[256];
        gethostname(host, sizeof host - 1);
        snprintf(wanted, sizeof wanted, "rank %d on %.59s", world->rank / OTHERS * OTHERS + ASLEEP, host);
        CHECK(pthread_join(thread, NULL) == 0);
        if (!CHECK(strcmp(question.missing, wanted) == 0))
            printf("missing: %s\n", question.missing);
    }
    comm_destroy(part);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    struct executor *cpu = cpu_executor_create(1);
    struct stream stream = {cpu, STREAM_COMPUTE, NULL};
    CHECK(world->size == 6);
    CHECK(threads_choose(world, 3) == 3 && omp_get_max_threads() == 3); /* where no number is named too */
    test_placement();
    test_shapes(world);
    test_kinds();
    test_scratch();
    char folder[] = "/tmp/cistron-groups.XXXXXX", store[300];
    make_store(world, folder, store, sizeof store);
    for (int model = 1; model <= 6; model++) {
        struct grid grid;
        int code = grid_create(&grid, world, &(struct grid_shape){.tensor = model, .context = 1});
        CHECK((code == 0) == (6 % model == 0));
        if (code != 0) {
            error_clear();
            continue;
        }
        CHECK(grid.model->size == model && grid.data->size == 6 / model && grid.node->size == 6);
        CHECK(grid.model->rank == world->rank % model && grid.data->rank == world->rank / model);
        int model_members[6], data_members[6];
        for (int r = 0; r < model; r++)
            model_members[r] = world->rank / model * model + r;
        for (int r = 0; r < 6 / model; r++)
            data_members[r] = r * model + world->rank % model;
        struct group *model_group = comm_group_create(grid.model, NULL, "model");
        struct group *data_group = comm_group_create(grid.data, NULL, "data");
        /* the last count needs several turns of a reduction */
        for (int64_t count = 1; count <= 3000000; count = count * 1700 + 1) {
            test_collectives(&stream, model_group, model_members, count);
            test_collectives(&stream, data_group, data_members, count);
        }
        test_copying(cpu, grid.data, data_members);
        comm_group_destroy(model_group);
        comm_group_destroy(data_group);
        grid_destroy(&grid);
    }
    for (int tensor = 1; tensor <= 6; tensor++)
        for (int context = 1; tensor * context <= 6; context++)
            if (6 % (tensor * context) == 0)
                for (int balance = 0; balance < 2; balance++)
                    test_loader(world, tensor, context, balance, store);
    test_copies(world, folder, store);
    /* the code of the lowest rank that failed is everybody's */
    CHECK(comm_agree(world, ERROR_NONE) == ERROR_NONE);
    CHECK(comm_sum_i64(world, world->rank) == 15 && comm_max_i64(world, -world->rank) == 0);
    struct comm_spread spread = comm_spread(world, world->rank);
    CHECK(spread.minimum == 0 && spread.maximum == 5 && fabs(spread.mean - 2.5) < 1e-12);
    test_nodes(world);
    test_missing(world);
    comm_barrier(world);
    if (world->rank == 0)
        remove_folder(folder);
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
