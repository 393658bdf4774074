/* Launches one op: a matrix product on the CPU executor.
 *
 * An executor runs ops on streams. All work goes through launch(), here by the macro LAUNCH, so that the same call
 * trains on CPUs and GPUs, is planned without memory, and is checked against an oracle. core/op.h lists all ops with
 * their formulas and shapes. Tensors are views: a pointer, a dtype, rows, columns and a stride; they own no memory. */
#include "core/launch.h"
#include "cpu/cpu.h"

#include <stdio.h>

enum { TOKENS = 2, INPUTS = 3, OUTPUTS = 2 };

int main(void)
{
    /* The executor uses up to 2 threads. STREAM_COMPUTE is the stream on which models run their units. */
    struct executor *executor = cpu_executor_create(2);
    struct stream stream = {executor, STREAM_COMPUTE, NULL};

    float x[TOKENS][INPUTS] = {{1, 2, 3}, {4, 5, 6}};
    float weight[OUTPUTS][INPUTS] = {{1, 0, 0}, {0, 1, 1}}; /* a linear layer stores [outputs, inputs] */
    float bias[OUTPUTS] = {10, 20};
    float y[TOKENS][OUTPUTS];

    /* y = x weight^T + bias. Fields that are not named are absent. */
    struct gemm_args args = {.a = tensor_matrix(x, DTYPE_F32, TOKENS, INPUTS),
                             .b = tensor_matrix(weight, DTYPE_F32, OUTPUTS, INPUTS),
                             .transpose_b = true,
                             .bias = tensor_vector(bias, DTYPE_F32, OUTPUTS),
                             .d = tensor_matrix(y, DTYPE_F32, TOKENS, OUTPUTS)};
    launch(&stream, OP_GEMM, &args);

    /* One table describes the op to executors and to all other code. */
    printf("%s: %d flops\n", op_info(OP_GEMM)->name, (int)op_flops(OP_GEMM, &args));

    /* A second op, by the macro. It runs after the first, since launches on one stream run in order. */
    LAUNCH(&stream, ADD, add, .from = args.d, .to = args.d);
    stream_synchronize(&stream); /* the host may read results only after this */
    for (int t = 0; t < TOKENS; t++)
        printf("%g %g\n", (double)y[t][0], (double)y[t][1]);

    /* Mistakes are found before an executor sees them: 3 columns do not fit 2 rows. */
    args.transpose_b = false;
    printf("mistake: %s\n", op_check(OP_GEMM, &args));
    executor->class->destroy(executor);
    return 0;
}
