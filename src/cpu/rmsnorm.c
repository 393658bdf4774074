/* rmsnorm. */
#include "cpu/norm.h"

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
            squares += (double)cpu_sum_of_squares(cpu_read(x, t, col, count, x_buffer), count);
        }
        rstd[t] = (float)(1.0 / sqrt(squares / (double)x->cols + (double)args->eps));
        for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
            int64_t count = cpu_min(CPU_SPAN, x->cols - col);
            cpu_scale_by_weight(cpu_read(x, t, col, count, x_buffer),
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

/* residual may be NULL, or dx itself. */
static void backward_row(const void *op_args, int64_t t, float *const *sums)
{
    const struct rmsnorm_backward_args *args = op_args;
    const struct tensor *x = &args->x, *dx = &args->dx;
    float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], residual_buffer[CPU_SPAN];
    float dx_buffer[CPU_SPAN], rstd = ((const float *)args->rstd.data)[t];
    double dot = 0.0;
    for (int64_t col = 0; tensor_present(dx) && col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        dot += (double)cpu_sum_of_products(cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer),
                                           cpu_read(&args->dy, t, col, count, dy_buffer),
                                           cpu_read(x, t, col, count, x_buffer), count);
    }
    float factor = (float)((double)rstd * (double)rstd * dot / (double)x->cols);
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        const float *x_span = cpu_read(x, t, col, count, x_buffer);
        const float *dy_span = cpu_read(&args->dy, t, col, count, dy_buffer);
        if (sums[0] != NULL)
            cpu_add_weight_gradient(dy_span, x_span, rstd, sums[0] + col, count);
        if (tensor_present(dx)) {
            const float *residual = NULL;
            if (tensor_present(&args->residual))
                residual = cpu_read(&args->residual, t, col, count, residual_buffer);
            cpu_input_gradient(cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer), dy_span, x_span,
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
