#include "cpu/norm.h"

CPU_CLONES float cpu_sum_of_squares(const float *x, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

CPU_CLONES void cpu_scale_by_weight(const float *x, const float *weight, float rstd, float *restrict y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * rstd * weight[i];
}

CPU_CLONES float cpu_sum_of_products(const float *weight, const float *dy, const float *x, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += weight[i] * dy[i] * x[i];
    return sum;
}

CPU_CLONES void cpu_add_weight_gradient(const float *dy, const float *x, float rstd, float *restrict dweight,
                                        int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        dweight[i] += dy[i] * (x[i] * rstd);
}

CPU_CLONES void cpu_input_gradient(const float *weight, const float *dy, const float *x, float rstd, float factor,
                                   const float *residual, float *dx, int64_t count)
{
    if (residual == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] = rstd * (weight[i] * dy[i] - x[i] * factor);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] = residual[i] + rstd * (weight[i] * dy[i] - x[i] * factor);
    }
}

enum { BLOCK_ROWS = 64 };

static int64_t blocks_of(const struct tensor *x)
{
    return (x->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

const float *cpu_read_gain(const struct tensor *weight, bool one_plus, int64_t col, int64_t count, float *buffer)
{
    const float *read = cpu_read(weight, 0, col, count, buffer);
    if (!one_plus)
        return read;
    for (int64_t i = 0; i < count; i++)
        buffer[i] = 1.0f + read[i];
    return buffer;
}

int64_t cpu_norm_workspace(const struct tensor *x, int gradients)
{
    return gradients * blocks_of(x) * x->cols * (int64_t)sizeof(float);
}

/* Sums columns first .. end - 1 of the blocks' sums, block by block. */
static void sum_blocks(const float *partial, int64_t blocks, const struct tensor *gradient, bool accumulate,
                       int64_t first, int64_t end)
{
    float *sum = gradient->data;
    if (!accumulate)
        memset(sum + first, 0, (size_t)(end - first) * sizeof *sum);
    for (int64_t block = 0; block < blocks; block++)
        cpu_add_span(partial + block * gradient->cols + first, sum + first, end - first);
}

void cpu_norm_backward(struct cpu *cpu, const struct cpu_norm_backward *norm)
{
    int64_t rows = norm->x->rows, cols = norm->x->cols, blocks = blocks_of(norm->x);
    float *partial = (float *)cpu->workspace; /* [parameters, blocks, cols] */
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(norm->x))) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        float *sums[CPU_NORM_PARAMETERS] = {NULL};
        for (int p = 0; p < CPU_NORM_PARAMETERS && norm->gradients[p] != NULL; p++) {
            sums[p] = partial + (p * blocks + block) * cols;
            memset(sums[p], 0, (size_t)cols * sizeof *sums[p]);
        }
        for (int64_t t = block * BLOCK_ROWS; t < cpu_min(rows, (block + 1) * BLOCK_ROWS); t++)
            norm->row(norm->args, t, sums);
    }
    int parts = cpu_threads(cpu, blocks * cols);
    for (int p = 0; p < CPU_NORM_PARAMETERS && norm->gradients[p] != NULL; p++) {
#pragma omp parallel for num_threads(parts) schedule(static)
        for (int i = 0; i < parts; i++)
            sum_blocks(partial + p * blocks * cols, blocks, norm->gradients[p], norm->accumulate,
                       cpu_part(cols, parts, i, CPU_LINE), cpu_part(cols, parts, i + 1, CPU_LINE));
    }
}
