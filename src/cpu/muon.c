/* affine, momentum, muon: the ops of the optimizer Muon, with gemm and sum_squares. */
#include "cpu/convert.h"

#include <math.h>

/* -- Affine ------------------------------------------------------------------------------------------------------- */

CPU_CLONES static void multiply(const float *from, float *to, float factor, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = factor * from[i];
}

void cpu_affine(struct cpu *cpu, const struct affine_args *args)
{
    const double squares = tensor_present(&args->squares) ? *(const double *)args->squares.data : 1.0;
    const double norm = sqrt(squares), divisor = tensor_present(&args->squares) ? fmax(norm, args->eps) : 1.0;
    const float factor = (float)(args->factor / divisor), diagonal = (float)args->diagonal;
    const struct cpu_spans spans = cpu_spans(args->to.rows, args->to.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->to))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        const struct cpu_span s = cpu_span(&spans, i);
        float from_buffer[CPU_SPAN], to_buffer[CPU_SPAN], *to = cpu_target(&args->to, s.row, s.col, to_buffer);
        multiply(cpu_read(&args->from, s.row, s.col, s.count, from_buffer), to, factor, s.count);
        if (diagonal != 0.0f && s.row >= s.col && s.row < s.col + s.count)
            to[s.row - s.col] += diagonal;
        cpu_write(&args->to, s.row, s.col, s.count, to_buffer);
    }
}

/* -- Momentum ------------------------------------------------------------------------------------------------------ */

/* The constants of one step, each rounded to f32 once. */
struct momentum_constants {
    float scale, momentum, rest;
    bool nesterov;
};

CPU_CLONES static void momentum(const float *gradient, float *restrict m, float *restrict update,
                                struct momentum_constants c, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float fresh = c.rest * (gradient[i] * c.scale), kept = c.momentum * m[i] + fresh;
        m[i] = kept;
        update[i] = c.nesterov ? c.momentum * kept + fresh : kept;
    }
}

void cpu_momentum(struct cpu *cpu, const struct momentum_args *args)
{
    const struct momentum_constants constants = {.scale = *(const float *)args->scale.data,
                                                 .momentum = (float)args->momentum,
                                                 .rest = (float)(1.0 - args->momentum),
                                                 .nesterov = args->nesterov};
    const struct cpu_spans spans = cpu_spans(1, args->m.cols);
    if (isnan(constants.scale)) {
        cpu_fill(cpu, &(struct fill_args){.x = args->update, .value = 0});
        return;
    }
#pragma omp parallel for num_threads(cpu_threads(cpu, args->m.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        const struct cpu_span s = cpu_span(&spans, i);
        float g_buffer[CPU_SPAN], m_buffer[CPU_SPAN], u_buffer[CPU_SPAN];
        cpu_read(&args->m, 0, s.col, s.count, m_buffer);
        momentum(cpu_read(&args->gradient, 0, s.col, s.count, g_buffer), cpu_target(&args->m, 0, s.col, m_buffer),
                 cpu_target(&args->update, 0, s.col, u_buffer), constants, s.count);
        cpu_write(&args->m, 0, s.col, s.count, m_buffer);
        cpu_write(&args->update, 0, s.col, s.count, u_buffer);
    }
}

/* -- Step -----------------------------------------------------------------------------------------------------------
 */

CPU_CLONES static void step(float *restrict weight, const float *update, float decay, float rate, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        weight[i] = weight[i] * decay - rate * update[i];
}

void cpu_muon(struct cpu *cpu, const struct muon_args *args)
{
    const double lr = (double)*(const float *)args->rate.data * args->lr_factor;
    const float decay = (float)(1.0 - lr * args->weight_decay), rate = (float)(lr * args->adjustment);
    const bool halves = tensor_present(&args->low);
    const struct cpu_spans spans = cpu_spans(1, args->weight.cols);
    if (isnan(*(const float *)args->scale.data))
        return;
#pragma omp parallel for num_threads(cpu_threads(cpu, args->weight.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        const struct cpu_span s = cpu_span(&spans, i);
        void *high = tensor_at(&args->weight, 0, s.col), *low = halves ? tensor_at(&args->low, 0, s.col) : NULL;
        float w_buffer[CPU_SPAN], u_buffer[CPU_SPAN];
        if (halves)
            cpu_join_span(high, low, w_buffer, s.count);
        else
            cpu_read(&args->weight, 0, s.col, s.count, w_buffer);
        step(cpu_target(&args->weight, 0, s.col, w_buffer), cpu_read(&args->update, 0, s.col, s.count, u_buffer), decay,
             rate, s.count);
        if (halves)
            cpu_split_span(w_buffer, high, low, s.count);
        else
            cpu_write(&args->weight, 0, s.col, s.count, w_buffer);
    }
}
