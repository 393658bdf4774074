/* Losses of fine-tuning heads: mean squared error, weights of classes. Rows are few and short, so threads share rows.
 */
#include "cpu/convert.h"

/* Returns the loss of row t, and writes its gradient if there is one. */
static float squared_error(const struct mse_args *args, int64_t t, int64_t target)
{
    const struct tensor *from = &args->predictions, *gradient = &args->gradient;
    const float share = 1.0f / (float)from->cols;
    double sum = 0.0;
    for (int64_t col = 0; col < from->cols; col += CPU_SPAN) {
        const int64_t count = cpu_min(CPU_SPAN, from->cols - col);
        float buffer[CPU_SPAN], out[CPU_SPAN];
        const float *x = cpu_read(from, t, col, count, buffer), *y = tensor_at(&args->targets, target, col);
        for (int64_t i = 0; i < count; i++) {
            const float difference = x[i] - y[i];
            sum += (double)difference * (double)difference;
            out[i] = 2.0f * share * difference;
        }
        if (tensor_present(gradient))
            cpu_narrow(out, tensor_at(gradient, t, col), gradient->dtype, count);
    }
    return (float)(sum / (double)from->cols);
}

static void clear_row(const struct tensor *x, int64_t t)
{
    if (tensor_present(x))
        memset(tensor_at(x, t, 0), 0, (size_t)(x->cols * dtype_size(x->dtype)));
}

void cpu_mse(struct cpu *cpu, const struct mse_args *args)
{
    const int32_t *labels = args->labels.data;
    float *loss = args->loss.data;
    double *total = args->total.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->predictions))) schedule(static)
    for (int64_t t = 0; t < args->predictions.rows; t++) {
        loss[t] = labels[t] >= 0 ? squared_error(args, t, labels[t]) : 0.0f;
        if (labels[t] < 0)
            clear_row(&args->gradient, t);
    }
    for (int64_t t = 0; t < args->labels.cols; t++)
        if (labels[t] >= 0) {
            total[0] += (double)loss[t];
            total[1] += 1.0;
        }
}

static void scale_row(const struct tensor *x, int64_t t, float factor)
{
    for (int64_t col = 0; tensor_present(x) && col < x->cols; col += CPU_SPAN) {
        const int64_t count = cpu_min(CPU_SPAN, x->cols - col);
        float buffer[CPU_SPAN], out[CPU_SPAN];
        const float *from = cpu_read(x, t, col, count, buffer);
        for (int64_t i = 0; i < count; i++)
            out[i] = factor * from[i];
        cpu_narrow(out, tensor_at(x, t, col), x->dtype, count);
    }
}

void cpu_class_weight(struct cpu *cpu, const struct class_weight_args *args)
{
    const int32_t *labels = args->labels.data;
    const float *weights = args->weights.data;
    float *loss = args->loss.data;
    double *total = args->total.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, args->labels.cols * args->weights.cols)) schedule(static)
    for (int64_t t = 0; t < args->labels.cols; t++)
        if (labels[t] >= 0) {
            loss[t] *= weights[labels[t]];
            scale_row(&args->gradient, t, weights[labels[t]]);
        }
    for (int64_t t = 0; t < args->labels.cols; t++)
        if (labels[t] >= 0) {
            total[0] += (double)loss[t];
            total[1] += (double)weights[labels[t]];
        }
}
