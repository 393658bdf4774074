/* rmsnorm. */
#include "cpu/convert.h"

CPU_CLONES static float sum_of_squares(const float *x, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

CPU_CLONES static void scale_by_weight(const float *x, const float *weight, float rstd, float *restrict y,
                                       int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * rstd * weight[i];
}

void cpu_rmsnorm_forward(struct cpu *cpu, const struct rmsnorm_forward_args *args)
{
    const struct tensor *x = &args->x, *y = &args->y;
    float *rstd = args->rstd.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t t = 0; t < x->rows; t++) {
        float x_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], y_buffer[CPU_SPAN];
        double squares = 0.0;
        for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
            int64_t count = cpu_min(CPU_SPAN, x->cols - col);
            squares += (double)sum_of_squares(cpu_read(x, t, col, count, x_buffer), count);
        }
        rstd[t] = (float)(1.0 / sqrt(squares / (double)x->cols + (double)args->eps));
        for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
            int64_t count = cpu_min(CPU_SPAN, x->cols - col);
            scale_by_weight(cpu_read(x, t, col, count, x_buffer), cpu_read(&args->weight, 0, col, count, weight_buffer),
                            rstd[t], cpu_target(y, t, col, y_buffer), count);
            cpu_write(y, t, col, count, y_buffer);
        }
    }
}

/* -- Backward ----------------------------------------------------------------------------------------------------- */

/* The weight's gradient is summed over blocks of this many rows, then over the blocks: an order that depends on the
 * shape alone. */
enum { BLOCK_ROWS = 64 };

static int64_t blocks_of(const struct tensor *x)
{
    return (x->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

int64_t cpu_rmsnorm_backward_workspace(const struct cpu *cpu, const struct rmsnorm_backward_args *args)
{
    (void)cpu;
    return tensor_present(&args->dweight) ? blocks_of(&args->x) * args->x.cols * (int64_t)sizeof(float) : 0;
}

CPU_CLONES static float sum_of_products(const float *weight, const float *dy, const float *x, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += weight[i] * dy[i] * x[i];
    return sum;
}

CPU_CLONES static void add_weight_gradient(const float *dy, const float *x, float rstd, float *restrict dweight,
                                           int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        dweight[i] += dy[i] * (x[i] * rstd);
}

/* residual may be NULL, or dx itself. */
CPU_CLONES static void input_gradient(const float *weight, const float *dy, const float *x, float rstd, float factor,
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

static void backward_row(const struct rmsnorm_backward_args *args, int64_t t, float *dweight)
{
    const struct tensor *x = &args->x, *dx = &args->dx;
    float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], residual_buffer[CPU_SPAN];
    float dx_buffer[CPU_SPAN], rstd = ((const float *)args->rstd.data)[t];
    double dot = 0.0;
    for (int64_t col = 0; tensor_present(dx) && col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        dot += (double)sum_of_products(cpu_read(&args->weight, 0, col, count, weight_buffer),
                                       cpu_read(&args->dy, t, col, count, dy_buffer),
                                       cpu_read(x, t, col, count, x_buffer), count);
    }
    float factor = (float)((double)rstd * (double)rstd * dot / (double)x->cols);
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        const float *x_span = cpu_read(x, t, col, count, x_buffer);
        const float *dy_span = cpu_read(&args->dy, t, col, count, dy_buffer);
        if (dweight != NULL)
            add_weight_gradient(dy_span, x_span, rstd, dweight + col, count);
        if (tensor_present(dx)) {
            const float *residual = NULL;
            if (tensor_present(&args->residual))
                residual = cpu_read(&args->residual, t, col, count, residual_buffer);
            input_gradient(cpu_read(&args->weight, 0, col, count, weight_buffer), dy_span, x_span, rstd, factor,
                           residual, cpu_target(dx, t, col, dx_buffer), count);
            cpu_write(dx, t, col, count, dx_buffer);
        }
    }
}

/* Columns first .. end - 1 of the blocks' sums, block by block. */
static void sum_blocks(const struct rmsnorm_backward_args *args, const float *partial, int64_t first, int64_t end)
{
    float *dweight = args->dweight.data;
    if (!args->accumulate)
        memset(dweight + first, 0, (size_t)(end - first) * sizeof *dweight);
    for (int64_t block = 0; block < blocks_of(&args->x); block++)
        cpu_add(partial + block * args->x.cols + first, dweight + first, end - first);
}

void cpu_rmsnorm_backward(struct cpu *cpu, const struct rmsnorm_backward_args *args)
{
    int64_t blocks = blocks_of(&args->x), cols = args->x.cols;
    float *partial = (float *)cpu->workspace;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->x))) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        float *dweight = tensor_present(&args->dweight) ? partial + block * cols : NULL;
        if (dweight != NULL)
            memset(dweight, 0, (size_t)cols * sizeof *dweight);
        for (int64_t t = block * BLOCK_ROWS; t < cpu_min(args->x.rows, (block + 1) * BLOCK_ROWS); t++)
            backward_row(args, t, dweight);
    }
    if (!tensor_present(&args->dweight))
        return;
    int parts = cpu_threads(cpu, blocks * cols);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int i = 0; i < parts; i++)
        sum_blocks(args, partial, cpu_part(cols, parts, i, CPU_LINE), cpu_part(cols, parts, i + 1, CPU_LINE));
}
