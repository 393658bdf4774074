/* Collectives and splits on groups of 2 and 3 inside a world of 6. Run on 6 ranks. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/grid.h"
#include "core/launch.h"
#include "cpu/cpu.h"

#include <mpi.h>
#include <stdlib.h>

static float value(int rank, int64_t i)
{
    return (float)((rank + 1) * 0.1 + (double)(i % 977) * 1e-3);
}

/* All four collectives on one group, against sums made here in rank order. */
static void test_collectives(struct stream *stream, struct group *group, const int *members, int64_t count)
{
    int size = group->size, world_rank = members[group->rank];
    float *data = memory_allocate(count * size * 4), *out = memory_allocate(count * size * 4);

    for (int64_t i = 0; i < count; i++)
        data[i] = value(world_rank, i);
    LAUNCH(stream, ALL_REDUCE, all_reduce, .group = group, .x = tensor_vector(data, DTYPE_F32, count));
    int wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        float sum = value(members[0], i);
        for (int r = 1; r < size; r++)
            sum += value(members[r], i);
        wrong += data[i] != sum;
    }
    CHECK(wrong == 0);

    for (int64_t i = 0; i < count * size; i++)
        data[i] = value(world_rank, i);
    LAUNCH(stream, REDUCE_SCATTER, reduce_scatter, .group = group, .in = tensor_matrix(data, DTYPE_F32, size, count),
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
    LAUNCH(stream, ALL_GATHER, all_gather, .group = group, .in = tensor_vector(data, DTYPE_F32, count),
           .out = tensor_matrix(out, DTYPE_F32, size, count));
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < count; i++)
            wrong += out[r * count + i] != value(members[r], i);
    CHECK(wrong == 0);

    LAUNCH(stream, BROADCAST, broadcast, .group = group, .x = tensor_vector(data, DTYPE_F32, count), .root = size - 1);
    for (int64_t i = 0; i < count; i++)
        wrong += data[i] != value(members[size - 1], i);
    CHECK(wrong == 0);

    double total[2] = {world_rank + 0.5, 1};
    LAUNCH(stream, ALL_REDUCE, all_reduce, .group = group, .x = tensor_vector(total, DTYPE_F64, 2));
    CHECK(total[1] == size);
    memory_free(data);
    memory_free(out);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    struct executor *cpu = cpu_executor_create(1);
    struct stream stream = {cpu, STREAM_COMPUTE, NULL};
    CHECK(world->size == 6);
    for (int model = 1; model <= 6; model++) {
        struct grid grid;
        int code = grid_create(&grid, world, model);
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
        struct group *model_group = comm_group_create(grid.model, "model");
        struct group *data_group = comm_group_create(grid.data, "data");
        /* the last count needs several turns of a reduction */
        for (int64_t count = 1; count <= 3000000; count = count * 1700 + 1) {
            test_collectives(&stream, model_group, model_members, count);
            test_collectives(&stream, data_group, data_members, count);
        }
        comm_group_destroy(model_group);
        comm_group_destroy(data_group);
        grid_destroy(&grid);
    }
    /* the code of the lowest rank that failed is everybody's */
    CHECK(comm_agree(world, ERROR_NONE) == ERROR_NONE);
    CHECK(comm_sum_i64(world, world->rank) == 15 && comm_max_i64(world, -world->rank) == 0);
    struct comm_spread spread = comm_spread(world, world->rank);
    CHECK(spread.minimum == 0 && spread.maximum == 5 && fabs(spread.mean - 2.5) < 1e-12);
    cpu->class->destroy(cpu);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
