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

/* The sum of exp(x - largest) over a row. */
struct row_sum {
    float largest;
    double sum;
};

static struct row_sum sum_row(const struct tensor *logits, int64_t t)
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
    return (struct row_sum){maximum, sum};
}

/* total += {sum of losses, number of labels}, in the order of tokens. */
static void add_losses(double *total, const struct tensor *loss, const struct tensor *labels)
{
    const float *losses = loss->data;
    const int32_t *label = labels->data;
    for (int64_t t = 0; t < labels->cols; t++)
        if (label[t] >= 0) {
            total[0] += (double)losses[t];
            total[1] += 1.0;
        }
}

struct row_loss {
    float loss, lse;
};

static struct row_loss loss_of(const struct tensor *logits, int64_t t, int32_t label)
{
    if (label < 0)
        return (struct row_loss){0};
    float buffer[1];
    const struct row_sum row = sum_row(logits, t);
    const double lse = (double)row.largest + log(row.sum);
    return (struct row_loss){(float)(lse - (double)*cpu_read(logits, t, label, 1, buffer)), (float)lse};
}

void cpu_xent_stat(struct cpu *cpu, const struct xent_stat_args *args)
{
    const int32_t *labels = args->labels.data;
    float *loss = args->loss.data, *lse = args->lse.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->logits))) schedule(static)
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const struct row_loss row = loss_of(&args->logits, t, labels[t]);
        loss[t] = row.loss;
        lse[t] = row.lse;
    }
    add_losses(args->total.data, &args->loss, &args->labels);
}

void cpu_xent_part(struct cpu *cpu, const struct xent_part_args *args)
{
    const struct tensor *logits = &args->logits, *to = &args->statistics;
    const int32_t *labels = args->labels.data;
    float *largest = tensor_at(to, XENT_LARGEST, 0), *sum = tensor_at(to, XENT_SUM, 0);
    float *target = tensor_at(to, XENT_TARGET, 0);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(logits))) schedule(static)
    for (int64_t t = 0; t < logits->rows; t++) {
        const int64_t label = labels[t] - args->origin;
        float buffer[1];
        largest[t] = sum[t] = target[t] = 0.0f;
        if (labels[t] < 0)
            continue;
        const struct row_sum row = sum_row(logits, t);
        largest[t] = row.largest;
        sum[t] = (float)row.sum;
        if (label >= 0 && label < logits->cols)
            target[t] = *cpu_read(logits, t, label, 1, buffer);
    }
}

/* Returns part p's statistic of a token. */
static float statistic(const struct tensor *statistics, int64_t p, enum xent_statistic which, int64_t t)
{
    return *(const float *)tensor_at(statistics, p * XENT_STATISTICS + (int64_t)which, t);
}

void cpu_xent_merge(struct cpu *cpu, const struct xent_merge_args *args)
{
    const struct tensor *parts = &args->statistics;
    const int64_t count = parts->rows / XENT_STATISTICS;
    const int32_t *labels = args->labels.data;
    float *loss = args->loss.data, *lse = args->lse.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(parts))) schedule(static)
    for (int64_t t = 0; t < parts->cols; t++) {
        loss[t] = lse[t] = 0.0f;
        if (labels[t] < 0)
            continue;
        float largest = statistic(parts, 0, XENT_LARGEST, t);
        double sum = 0.0, target = 0.0;
        for (int64_t p = 1; p < count; p++)
            largest = fmaxf(largest, statistic(parts, p, XENT_LARGEST, t));
        for (int64_t p = 0; p < count; p++) {
            sum += (double)statistic(parts, p, XENT_SUM, t) *
                   exp((double)statistic(parts, p, XENT_LARGEST, t) - (double)largest);
            target += (double)statistic(parts, p, XENT_TARGET, t);
        }
        const double value = (double)largest + log(sum);
        lse[t] = (float)value;
        loss[t] = (float)(value - target);
    }
    add_losses(args->total.data, &args->loss, &args->labels);
}

CPU_CLONES static void softmax(float *x, float lse, float factor, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = factor * cpu_exp(x[i] - lse);
}

/* Computes the gradient in part of a row. place: the label's column in the row, possibly outside of it. */
static void differentiate(const struct tensor *logits, const struct cpu_span *s, int32_t label, int64_t place,
                          float lse, float z_loss)
{
    if (label < 0) {
        memset(tensor_at(logits, s->row, s->col), 0, (size_t)(s->count * dtype_size(logits->dtype)));
        return;
    }
    float buffer[CPU_SPAN];
    float *x = cpu_target(logits, s->row, s->col, buffer);
    cpu_read(logits, s->row, s->col, s->count, buffer);
    softmax(x, lse, 1.0f + 2.0f * z_loss * lse, s->count);
    if (place >= s->col && place < s->col + s->count)
        x[place - s->col] -= 1.0f;
    cpu_write(logits, s->row, s->col, s->count, buffer);
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
        differentiate(logits, &s, labels[s.row], labels[s.row] - args->origin, lse[s.row], args->z_loss);
    }
}

void cpu_xent_both(struct cpu *cpu, const struct xent_both_args *args)
{
    const struct tensor *logits = &args->logits;
    const int32_t *labels = args->labels.data;
    float *loss = args->loss.data;
    struct cpu_spans spans = cpu_spans(logits->rows, logits->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(logits))) schedule(static)
    for (int64_t t = 0; t < logits->rows; t++) {
        const struct row_loss row = loss_of(logits, t, labels[t]);
        loss[t] = row.loss;
        for (int64_t i = 0; i < spans.per_row; i++) {
            struct cpu_span s = cpu_span(&spans, t * spans.per_row + i);
            differentiate(logits, &s, labels[t], labels[t], row.lse, args->z_loss);
        }
    }
    add_losses(args->total.data, &args->loss, &args->labels);
}
