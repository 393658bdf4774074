/* Splits a linear layer over MPI ranks: mpirun -n 2 examples/two_ranks
 *
 * Each rank owns a part of the weight's input columns (tensor parallelism) and multiplies its part of x by it. The sum
 * over ranks is the whole product. A collective is an op like any other: it is launched on a stream, with a group that
 * names the ranks. In the program MPI is behind struct comm; only comm/mpi.c and main.c include mpi.h. */
#include "comm/comm.h"
#include "core/launch.h"
#include "cpu/cpu.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 4, INPUTS = 64, OUTPUTS = 3 };

/* Elements of the whole tensors. They depend on the place in the tensor alone, never on the rank: so the result is the
 * same on any number of ranks. */
static float x_at(int64_t token, int64_t input)
{
    return (float)((token + 1) * (input % 5));
}

static float weight_at(int64_t output, int64_t input)
{
    return (float)((output + 1) * (input % 3) - 1);
}

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    struct comm *world = comm_open_mpi(); /* collective, as is every function of a comm and of a group */
    struct group *group = comm_group_create(world, NULL, "tensor");
    struct executor *executor = cpu_executor_create(1);
    struct stream compute = {executor, STREAM_COMPUTE, NULL}, exchange = {executor, STREAM_EXCHANGE, NULL};
    if (INPUTS % world->size != 0) {
        fprintf(stderr, "two_ranks: %d inputs do not divide over %d ranks\n", INPUTS, world->size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    /* This rank's part: columns first .. first + inputs - 1. */
    const int64_t inputs = INPUTS / world->size, first = world->rank * inputs;
    float *x = malloc(sizeof(float) * TOKENS * (size_t)inputs);
    float *weight = malloc(sizeof(float) * OUTPUTS * (size_t)inputs);
    float y[TOKENS][OUTPUTS];
    for (int64_t i = 0; i < inputs; i++) {
        for (int64_t t = 0; t < TOKENS; t++)
            x[t * inputs + i] = x_at(t, first + i);
        for (int64_t o = 0; o < OUTPUTS; o++)
            weight[o * inputs + i] = weight_at(o, first + i);
    }

    struct tensor sum = tensor_matrix(y, DTYPE_F32, TOKENS, OUTPUTS);
    LAUNCH(&compute, GEMM, gemm, .a = tensor_matrix(x, DTYPE_F32, TOKENS, inputs),
           .b = tensor_matrix(weight, DTYPE_F32, OUTPUTS, inputs), .transpose_b = true, .d = sum);

    /* The collective runs on another stream, so that a GPU could compute meanwhile. Only events order two streams: the
     * exchange waits for the product, and whoever reads the sum on STREAM_COMPUTE would wait for the exchange. */
    struct event ready = {0};
    event_record(&ready, &compute);
    event_wait(&ready, &exchange);
    LAUNCH(&exchange, ALL_REDUCE, all_reduce, .group = group, .x = sum);
    stream_synchronize(&exchange);

    int64_t wrong = 0;
    for (int64_t t = 0; t < TOKENS; t++)
        for (int64_t o = 0; o < OUTPUTS; o++) {
            float whole = 0;
            for (int64_t i = 0; i < INPUTS; i++)
                whole += x_at(t, i) * weight_at(o, i);
            wrong += y[t][o] != whole; /* small integers: their sums are exact in any order */
        }
    wrong = comm_sum_i64(world, wrong);
    if (world->rank == 0)
        printf("%d ranks, %d inputs each: %d elements differ from one rank's\n", world->size, (int)inputs, (int)wrong);

    free(x);
    free(weight);
    executor->class->destroy(executor);
    comm_group_destroy(group);
    comm_destroy(world);
    MPI_Finalize();
    return wrong > 0;
}
