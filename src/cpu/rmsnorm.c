/* rmsnorm. */
#include "cpu/norm.h"

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
            scale_by_weight(cpu_read(x, t, col, count, x_buffer),
                            cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer), rstd[t],
                            cpu_target(y, t, col, y_buffer), count);
            cpu_write(y, t, col, count, y_buffer);
        }
    }
}

/* -- Backward ----------------------------------------------------------------------------------------------------- */

int64_t cpu_rmsnorm_backward_workspace(const struct cpu *cpu, const struct rmsnorm_backward_args *args)
{
    (void)cpu;
    return cpu_norm_workspace(&args->x, tensor_present(&args->dweight));
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

static void backward_row(const void *op_args, int64_t t, float *const *sums)
{
    const struct rmsnorm_backward_args *args = op_args;
    const struct tensor *x = &args->x, *dx = &args->dx;
    float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], residual_buffer[CPU_SPAN];
    float dx_buffer[CPU_SPAN], rstd = ((const float *)args->rstd.data)[t];
    double dot = 0.0;
    for (int64_t col = 0; tensor_present(dx) && col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        dot += (double)sum_of_products(cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer),
                                       cpu_read(&args->dy, t, col, count, dy_buffer),
                                       cpu_read(x, t, col, count, x_buffer), count);
    }
    float factor = (float)((double)rstd * (double)rstd * dot / (double)x->cols);
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        const float *x_span = cpu_read(x, t, col, count, x_buffer);
        const float *dy_span = cpu_read(&args->dy, t, col, count, dy_buffer);
        if (sums[0] != NULL)
            add_weight_gradient(dy_span, x_span, rstd, sums[0] + col, count);
        if (tensor_present(dx)) {
            const float *residual = NULL;
            if (tensor_present(&args->residual))
                residual = cpu_read(&args->residual, t, col, count, residual_buffer);
            input_gradient(cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer), dy_span, x_span,
                           rstd, factor, residual, cpu_target(dx, t, col, dx_buffer), count);
            cpu_write(dx, t, col, count, dx_buffer);
        }
    }
}

void cpu_rmsnorm_backward(struct cpu *cpu, const struct rmsnorm_backward_args *args)
{
    cpu_norm_backward(cpu, &(struct cpu_norm_backward){
                               .x = &args->x,
                               .gradients = {tensor_present(&args->dweight) ? &args->dweight : NULL},
                               .accumulate = args->accumulate,
                               .row = backward_row,
                               .args = args,
                           });
}
