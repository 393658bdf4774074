/* sum_squares, gradient_scale, adamw. */
#include "cpu/convert.h"

#include <math.h>

/* -- Sum of squares ----------------------------------------------------------------------------------------------- */

int64_t cpu_sum_squares_workspace(const struct cpu *cpu, const struct sum_squares_args *args)
{
    (void)cpu;
    struct tensor x = cpu_flat(&args->x);
    return cpu_spans(x.rows, x.cols).count * args->sum.cols * (int64_t)sizeof(double);
}

CPU_CLONES static double sum_of_squares(const float *x, int64_t count)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

void cpu_sum_squares(struct cpu *cpu, const struct sum_squares_args *args)
{
    if (args->quantum > 0) {
        cpu_sum_squares_exactly(cpu, args);
        return;
    }
    struct tensor x = cpu_flat(&args->x);
    struct cpu_spans spans = cpu_spans(x.rows, x.cols);
    double *partial = (double *)cpu->workspace, sum = 0.0;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&x))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float buffer[CPU_SPAN];
        partial[i] = sum_of_squares(cpu_read(&x, s.row, s.col, s.count, buffer), s.count);
    }
    for (int64_t i = 0; i < spans.count; i++)
        sum += partial[i];
    *(double *)args->sum.data = sum;
}

/* -- Gradient scale ----------------------------------------------------------------------------------------------- */

void cpu_gradient_scale(struct cpu *cpu, const struct gradient_scale_args *args)
{
    (void)cpu;
    const double *squares = args->squares.data;
    const double *total = args->total.data;
    double sum = 0.0, count = total[1], norm = 0.0, scale = 0.0;
    for (int64_t i = 0; i < args->squares.cols; i++)
        sum += squares[i];
    if (count > 0.0) {
        norm = sqrt(sum) / count;
        double clip = args->max_norm > 0.0f ? (double)args->max_norm / (norm + 1e-6) : 1.0;
        scale = (clip > 1.0 ? 1.0 : clip) / count;
    }
    if (!isfinite((float)norm) || !isfinite(total[0])) /* the norm as stored (f32), by which the run decides too */
        scale = NAN;
    *(float *)args->norm.data = (float)norm;
    *(float *)args->scale.data = (float)scale;
    double *updates = args->updates.data;
    float *corrections = args->corrections.data;
    *updates += isnan(scale) ? 0 : 1;
    corrections[0] = (float)(1 - pow(args->beta1, *updates));
    corrections[1] = (float)(1 - pow(args->beta2, *updates));
}

/* -- AdamW -------------------------------------------------------------------------------------------------------- */

/* The constants of one step, each rounded to f32 once. */
struct adamw_constants {
    float scale, decay, beta1, rest1, beta2, rest2, step, root, eps;
};

CPU_CLONES static void adamw(float *restrict weight, const float *gradient, float *restrict m, float *restrict v,
                             struct adamw_constants c, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * c.scale;
        float first = c.beta1 * m[i] + c.rest1 * g, second = c.beta2 * v[i] + c.rest2 * (g * g);
        m[i] = first;
        v[i] = second;
        weight[i] = weight[i] * c.decay - c.step * first / (sqrtf(second) * c.root + c.eps);
    }
}

void cpu_adamw(struct cpu *cpu, const struct adamw_args *args)
{
    const float *step = args->step.data;
    if (isnan(*(const float *)args->scale.data))
        return;
    double lr = (double)step[ADAMW_LR] * (double)args->lr_factor, beta1 = args->beta1, beta2 = args->beta2;
    struct adamw_constants constants = {
        .scale = *(const float *)args->scale.data,
        .decay = (float)(1.0 - lr * (double)args->weight_decay),
        .beta1 = (float)beta1,
        .rest1 = (float)(1.0 - beta1),
        .beta2 = (float)beta2,
        .rest2 = (float)(1.0 - beta2),
        .step = (float)(lr / (double)step[ADAMW_CORRECTION_1]),
        .root = (float)(1.0 / sqrt((double)step[ADAMW_CORRECTION_2])),
        .eps = (float)args->eps,
    };
    const bool halves = tensor_present(&args->low);
    struct cpu_spans spans = cpu_spans(1, args->weight.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, args->weight.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        void *high = tensor_at(&args->weight, 0, s.col), *low = halves ? tensor_at(&args->low, 0, s.col) : NULL;
        float w_buffer[CPU_SPAN], g_buffer[CPU_SPAN], m_buffer[CPU_SPAN], v_buffer[CPU_SPAN];
        if (halves)
            cpu_join_span(high, low, w_buffer, s.count);
        else
            cpu_read(&args->weight, 0, s.col, s.count, w_buffer);
        cpu_read(&args->m, 0, s.col, s.count, m_buffer);
        cpu_read(&args->v, 0, s.col, s.count, v_buffer);
        adamw(cpu_target(&args->weight, 0, s.col, w_buffer), cpu_read(&args->gradient, 0, s.col, s.count, g_buffer),
              cpu_target(&args->m, 0, s.col, m_buffer), cpu_target(&args->v, 0, s.col, v_buffer), constants, s.count);
        if (halves)
            cpu_split_span(w_buffer, high, low, s.count);
        else
            cpu_write(&args->weight, 0, s.col, s.count, w_buffer);
        cpu_write(&args->m, 0, s.col, s.count, m_buffer);
        cpu_write(&args->v, 0, s.col, s.count, v_buffer);
    }
}
