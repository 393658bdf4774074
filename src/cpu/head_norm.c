/* head_norm. A head has at most CPU_SPAN elements (model.head_dim). */
#include "cpu/norm.h"

#include "base/error.h"

static void check_head(int64_t head_dim)
{
    if (head_dim > CPU_SPAN)
        error_fatal("cpu executor: head_norm takes heads of up to %d elements, not %lld", CPU_SPAN,
                    (long long)head_dim);
}

void cpu_head_norm_forward(struct cpu *cpu, const struct head_norm_forward_args *args)
{
    const struct tensor *x = &args->x, *y = &args->y;
    const int64_t dim = args->head_dim;
    check_head(dim);
    float weight_buffer[CPU_SPAN];
    const float *weight = cpu_read_gain(&args->weight, args->one_plus, 0, dim, weight_buffer);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t t = 0; t < x->rows; t++) {
        float x_buffer[CPU_SPAN], y_buffer[CPU_SPAN];
        for (int64_t head = 0; head < args->rstd.rows; head++) {
            const float *values = cpu_read(x, t, head * dim, dim, x_buffer);
            const float rstd =
                (float)(1.0 / sqrt((double)cpu_sum_of_squares(values, dim) / (double)dim + (double)args->eps));
            *(float *)tensor_at(&args->rstd, head, t) = rstd;
            cpu_scale_by_weight(values, weight, rstd, cpu_target(y, t, head * dim, y_buffer), dim);
            cpu_write(y, t, head * dim, dim, y_buffer);
        }
    }
}

/* -- Backward ----------------------------------------------------------------------------------------------------- */

/* The first head of all rows: its shape is that of the sums of weight gradients. */
static struct tensor first_head(const struct head_norm_backward_args *args)
{
    return tensor_columns(&args->x, 0, args->head_dim);
}

int64_t cpu_head_norm_backward_workspace(const struct cpu *cpu, const struct head_norm_backward_args *args)
{
    (void)cpu;
    const struct tensor head = first_head(args);
    return cpu_norm_workspace(&head, tensor_present(&args->dweight));
}

static void backward_row(const void *op_args, int64_t t, float *const *sums)
{
    const struct head_norm_backward_args *args = op_args;
    const int64_t dim = args->head_dim;
    float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], dx_buffer[CPU_SPAN];
    const float *weight = cpu_read_gain(&args->weight, args->one_plus, 0, dim, weight_buffer);
    for (int64_t head = 0; head < args->rstd.rows; head++) {
        const float *x = cpu_read(&args->x, t, head * dim, dim, x_buffer);
        const float *dy = cpu_read(&args->dy, t, head * dim, dim, dy_buffer);
        const float rstd = *(const float *)tensor_at(&args->rstd, head, t);
        if (sums[0] != NULL)
            cpu_add_weight_gradient(dy, x, rstd, sums[0], dim);
        if (!tensor_present(&args->dx))
            continue;
        const double dot = (double)cpu_sum_of_products(weight, dy, x, dim);
        cpu_input_gradient(weight, dy, x, rstd, (float)((double)rstd * (double)rstd * dot / (double)dim), NULL,
                           cpu_target(&args->dx, t, head * dim, dx_buffer), dim);
        cpu_write(&args->dx, t, head * dim, dim, dx_buffer);
    }
}

void cpu_head_norm_backward(struct cpu *cpu, const struct head_norm_backward_args *args)
{
    const struct tensor head = first_head(args);
    check_head(args->head_dim);
    cpu_norm_backward(cpu, &(struct cpu_norm_backward){
                               .x = &head,
                               .gradients = {tensor_present(&args->dweight) ? &args->dweight : NULL},
                               .accumulate = args->accumulate,
                               .row = backward_row,
                               .args = args,
                           });
}
