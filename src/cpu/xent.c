/* Cross-entropy. */
#include "cpu/convert.h"

CPU_CLONES static float largest(const float *x, int64_t count)
{
    float result = x[0];
#pragma omp simd reduction(max : result)
    for (int64_t i = 0; i < count; i++)
        result = x[i] > result ? x[i] : result;
    return result;
}

CPU_CLONES static float sum_of_exps(const float *x, float offset, int64_t count)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += cpu_exp(x[i] - offset);
    return sum;
}

static double log_sum_exp(const struct tensor *logits, int64_t t)
{
    float buffer[CPU_SPAN], maximum = -INFINITY;
    double sum = 0.0;
    for (int64_t col = 0; col < logits->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, logits->cols - col);
        float candidate = largest(cpu_read(logits, t, col, count, buffer), count);
        maximum = candidate > maximum ? candidate : maximum;
    }
    for (int64_t col = 0; col < logits->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, logits->cols - col);
        sum += (double)sum_of_exps(cpu_read(logits, t, col, count, buffer), maximum, count);
    }
    return (double)maximum + log(sum);
}

void cpu_xent_stat(struct cpu *cpu, const struct xent_stat_args *args)
{
    const struct tensor *logits = &args->logits;
    const int32_t *labels = args->labels.data;
    float *loss = args->loss.data, *lse = args->lse.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(logits))) schedule(static)
    for (int64_t t = 0; t < logits->rows; t++) {
        if (labels[t] < 0) {
            loss[t] = lse[t] = 0.0f;
            continue;
        }
        float buffer[1];
        double value = log_sum_exp(logits, t);
        lse[t] = (float)value;
        loss[t] = (float)(value - (double)*cpu_read(logits, t, labels[t], 1, buffer));
    }
    double *total = args->total.data;
    for (int64_t t = 0; t < logits->rows; t++)
        if (labels[t] >= 0) {
            total[0] += (double)loss[t];
            total[1] += 1.0;
        }
}

CPU_CLONES static void softmax(float *x, float lse, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = cpu_exp(x[i] - lse);
}

void cpu_xent_grad(struct cpu *cpu, const struct xent_grad_args *args)
{
    const struct tensor *logits = &args->logits;
    const int32_t *labels = args->labels.data;
    const float *lse = args->lse.data;
    struct cpu_spans spans = cpu_spans(logits->rows, logits->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(logits))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        int64_t label = labels[s.row];
        if (label < 0) {
            memset(tensor_at(logits, s.row, s.col), 0, (size_t)(s.count * dtype_size(logits->dtype)));
            continue;
        }
        float buffer[CPU_SPAN];
        float *x = cpu_target(logits, s.row, s.col, buffer);
        cpu_read(logits, s.row, s.col, s.count, buffer);
        softmax(x, lse[s.row], s.count);
        if (label >= s.col && label < s.col + s.count)
            x[label - s.col] -= 1.0f;
        cpu_write(logits, s.row, s.col, s.count, buffer);
    }
}
