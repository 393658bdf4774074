/* layernorm. The mean is summed in double, and deviations are squared after it is subtracted, so inputs whose mean is
 * far larger than their deviation lose no accuracy. */
#include "cpu/norm.h"
#include "cpu/sum.h"

CPU_CLONES static double sum_of(const float *x, int64_t count)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum;
}

CPU_CLONES static float sum_of_squares(const float *x, float mean, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

CPU_CLONES static void normalise(const float *x, float mean, float rstd, const float *weight, const float *bias,
                                 float *restrict y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
}

static void forward_row(const struct layernorm_forward_args *args, int64_t t, float *mean, float *rstd)
{
    static const float zeros[CPU_SPAN];
    const struct tensor *x = &args->x, *y = &args->y;
    float x_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], bias_buffer[CPU_SPAN], y_buffer[CPU_SPAN];
    double sum = 0.0, squares = 0.0;
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        sum += sum_of(cpu_read(x, t, col, count, x_buffer), count);
    }
    *mean = (float)(sum / (double)x->cols);
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        squares += (double)sum_of_squares(cpu_read(x, t, col, count, x_buffer), *mean, count);
    }
    *rstd = (float)(1.0 / sqrt(squares / (double)x->cols + (double)args->eps));
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        const float *bias = tensor_present(&args->bias) ? cpu_read(&args->bias, 0, col, count, bias_buffer) : zeros;
        normalise(cpu_read(x, t, col, count, x_buffer), *mean, *rstd,
                  cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer), bias,
                  cpu_target(y, t, col, y_buffer), count);
        cpu_write(y, t, col, count, y_buffer);
    }
}

void cpu_layernorm_forward(struct cpu *cpu, const struct layernorm_forward_args *args)
{
    float *mean = args->mean.data, *rstd = args->rstd.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->x))) schedule(static)
    for (int64_t t = 0; t < args->x.rows; t++)
        forward_row(args, t, mean + t, rstd + t);
}

/* -- Backward ----------------------------------------------------------------------------------------------------- */

int64_t cpu_layernorm_backward_workspace(const struct cpu *cpu, const struct layernorm_backward_args *args)
{
    (void)cpu;
    return cpu_norm_workspace(&args->x, tensor_present(&args->dweight) + tensor_present(&args->dbias));
}

struct sums {
    float gradient, product; /* sums of w dy, and of w dy (x - mean) */
};

CPU_CLONES static struct sums sums_of(const float *weight, const float *dy, const float *x, float mean, int64_t count)
{
    float gradient = 0.0f, product = 0.0f;
#pragma omp simd reduction(+ : gradient, product)
    for (int64_t i = 0; i < count; i++) {
        float d = weight[i] * dy[i];
        gradient += d;
        product += d * (x[i] - mean);
    }
    return (struct sums){gradient, product};
}

/* dbias may be NULL. */
CPU_CLONES static void add_parameter_gradients(const float *dy, const float *x, float mean, float rstd,
                                               float *restrict dweight, float *restrict dbias, int64_t count)
{
    if (dbias == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dweight[i] += dy[i] * ((x[i] - mean) * rstd);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        dweight[i] += dy[i] * ((x[i] - mean) * rstd);
        dbias[i] += dy[i];
    }
}

/* Numbers common to all elements of a row. */
struct layernorm_row {
    float mean, rstd;
    float shift, factor; /* mean(w dy), and rstd^2 mean(w dy (x - mean)) */
};

/* residual may be NULL, or dx itself. */
CPU_CLONES static void input_gradient(const float *weight, const float *dy, const float *x, struct layernorm_row row,
                                      const float *residual, float *dx, int64_t count)
{
    if (residual == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] = row.rstd * (weight[i] * dy[i] - row.shift - (x[i] - row.mean) * row.factor);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            dx[i] = residual[i] + row.rstd * (weight[i] * dy[i] - row.shift - (x[i] - row.mean) * row.factor);
    }
}

static struct layernorm_row row_of(const struct layernorm_backward_args *args, int64_t t)
{
    float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], weight_buffer[CPU_SPAN];
    struct layernorm_row row = {.mean = ((const float *)args->mean.data)[t],
                                .rstd = ((const float *)args->rstd.data)[t]};
    double gradient = 0.0, product = 0.0, cols = (double)args->x.cols;
    for (int64_t col = 0; tensor_present(&args->dx) && col < args->x.cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, args->x.cols - col);
        struct sums sums = sums_of(cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer),
                                   cpu_read(&args->dy, t, col, count, dy_buffer),
                                   cpu_read(&args->x, t, col, count, x_buffer), row.mean, count);
        gradient += (double)sums.gradient;
        product += (double)sums.product;
    }
    row.shift = (float)(gradient / cols);
    row.factor = (float)((double)row.rstd * (double)row.rstd * product / cols);
    return row;
}

static void backward_row(const void *op_args, int64_t t, float *const *sums)
{
    const struct layernorm_backward_args *args = op_args;
    const struct tensor *x = &args->x, *dx = &args->dx;
    float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], weight_buffer[CPU_SPAN], residual_buffer[CPU_SPAN];
    float dx_buffer[CPU_SPAN];
    struct layernorm_row row = row_of(args, t);
    for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        const float *x_span = cpu_read(x, t, col, count, x_buffer);
        const float *dy_span = cpu_read(&args->dy, t, col, count, dy_buffer);
        if (sums[0] != NULL)
            add_parameter_gradients(dy_span, x_span, row.mean, row.rstd, sums[0] + col,
                                    sums[1] != NULL ? sums[1] + col : NULL, count);
        if (tensor_present(dx)) {
            const float *residual = NULL;
            if (tensor_present(&args->residual))
                residual = cpu_read(&args->residual, t, col, count, residual_buffer);
            input_gradient(cpu_read_gain(&args->weight, args->one_plus, col, count, weight_buffer), dy_span, x_span,
                           row, residual, cpu_target(dx, t, col, dx_buffer), count);
            cpu_write(dx, t, col, count, dx_buffer);
        }
    }
}

void cpu_layernorm_backward(struct cpu *cpu, const struct layernorm_backward_args *args)
{
    cpu_norm_backward(cpu, &(struct cpu_norm_backward){
                               .x = &args->x,
                               .gradients = {tensor_present(&args->dweight) ? &args->dweight : NULL,
                                             tensor_present(&args->dbias) ? &args->dbias : NULL},
                               .accumulate = args->accumulate,
                               .row = backward_row,
                               .args = args,
                           });
    if (tensor_present(&args->sum))
        cpu_sum(cpu, &args->dx, true, &args->sum, args->accumulate_sum);
}
