/* rope, swiglu. */
#include "base/range.h"
#include "cpu/convert.h"
#include "cpu/quantize.h"

#include "base/error.h"

/* -- Rotary positions --------------------------------------------------------------------------------------------- */

/* Rotates `heads` heads of one row by the same angles; sign is 1, or -1 for the inverse. */
CPU_CLONES static void rotate(float *restrict x, int64_t heads, int64_t half, const float *cosine, const float *sine,
                              float sign)
{
    for (int64_t h = 0; h < heads; h++, x += 2 * half)
#pragma omp simd
        for (int64_t i = 0; i < half; i++) {
            float first = x[i], second = x[half + i], s = sign * sine[i];
            x[i] = first * cosine[i] - second * s;
            x[half + i] = second * cosine[i] + first * s;
        }
}

/* As rotate, for interleaved pairs. */
CPU_CLONES static void rotate_interleaved(float *restrict x, int64_t heads, int64_t half, const float *cosine,
                                          const float *sine, float sign)
{
    for (int64_t h = 0; h < heads; h++, x += 2 * half)
#pragma omp simd
        for (int64_t i = 0; i < half; i++) {
            float first = x[2 * i], second = x[2 * i + 1], s = sign * sine[i];
            x[2 * i] = first * cosine[i] - second * s;
            x[2 * i + 1] = second * cosine[i] + first * s;
        }
}

void cpu_rope(struct cpu *cpu, const struct rope_args *args)
{
    const struct tensor *x = &args->x;
    const int32_t *positions = args->positions.data;
    int64_t dim = args->head_dim, half = dim / 2, heads = x->cols / dim;
    if (dim > CPU_SPAN)
        error_fatal("cpu executor: rope takes heads of up to %d elements, not %lld", CPU_SPAN, (long long)dim);
    int64_t together = CPU_SPAN / dim; /* heads that fit the buffer */
    float sign = args->inverse ? -1.0f : 1.0f;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t t = 0; t < x->rows; t++) {
        const float *angles = tensor_at(&args->table, positions[t], 0);
        for (int64_t h = 0; h < heads; h += together) {
            int64_t some = cpu_min(together, heads - h);
            float buffer[CPU_SPAN];
            float *target = cpu_target(x, t, h * dim, buffer);
            cpu_read(x, t, h * dim, some * dim, buffer);
            if (args->interleaved)
                rotate_interleaved(target, some, half, angles, angles + half, sign);
            else
                rotate(target, some, half, angles, angles + half, sign);
            cpu_write(x, t, h * dim, some * dim, buffer);
        }
    }
}

/* -- SwiGLU ------------------------------------------------------------------------------------------------------- */

CPU_CLONES static void swiglu_forward(const float *gate, const float *up, float *restrict y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = gate[i] * cpu_sigmoid(gate[i]).value * up[i];
}

int64_t cpu_swiglu_forward_workspace(const struct cpu *cpu, const struct swiglu_forward_args *args)
{
    (void)cpu;
    return cpu_made_workspace(&args->y, args->x.dtype, args->x.rows, args->x.cols / 2);
}

void cpu_swiglu_forward(struct cpu *cpu, const struct swiglu_forward_args *args)
{
    const struct tensor *x = &args->x, made = cpu_made(cpu, &args->y, x->dtype, x->rows, x->cols / 2), *y = &made;
    struct cpu_spans spans = cpu_spans(cpu_written_rows(&args->ends, y->rows), y->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(y))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float gate_buffer[CPU_SPAN], up_buffer[CPU_SPAN], y_buffer[CPU_SPAN];
        swiglu_forward(cpu_read(x, s.row, s.col, s.count, gate_buffer),
                       cpu_read(x, s.row, y->cols + s.col, s.count, up_buffer), cpu_target(y, s.row, s.col, y_buffer),
                       s.count);
        cpu_write(y, s.row, s.col, s.count, y_buffer);
    }
    cpu_make_quantized(cpu, y, &args->to);
}

/* dx may be x itself. */
CPU_CLONES static void swiglu_backward(const float *gate, const float *up, const float *dy, float *d_gate, float *d_up,
                                       int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = gate[i], u = up[i], d = dy[i];
        struct cpu_sigmoid s = cpu_sigmoid(g);
        d_gate[i] = d * u * s.value * (1.0f + g * s.complement);
        d_up[i] = d * g * s.value;
    }
}

int64_t cpu_swiglu_backward_workspace(const struct cpu *cpu, const struct swiglu_backward_args *args)
{
    const int64_t dx = cpu_made_workspace(&args->dx, args->x.dtype, args->x.rows, args->x.cols);
    const struct swiglu_forward_args forward = {.x = args->x, .to = args->y_to};
    return has_quantized(&args->y_to) ? MAX(dx, cpu_swiglu_forward_workspace(cpu, &forward)) : dx;
}

void cpu_swiglu_backward(struct cpu *cpu, const struct swiglu_backward_args *args)
{
    const struct tensor *x = &args->x, *dy = &args->dy;
    if (has_quantized(&args->y_to)) /* first: dx may be x */
        cpu_swiglu_forward(cpu, &(struct swiglu_forward_args){.x = *x, .to = args->y_to});
    const struct tensor made = cpu_made(cpu, &args->dx, x->dtype, x->rows, x->cols), *dx = &made;
    int64_t width = dy->cols;
    struct cpu_spans spans = cpu_spans(cpu_written_rows(&args->ends, dy->rows), width);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(dy))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float gate[CPU_SPAN], up[CPU_SPAN], dy_buffer[CPU_SPAN], d_gate[CPU_SPAN], d_up[CPU_SPAN];
        swiglu_backward(cpu_read(x, s.row, s.col, s.count, gate), cpu_read(x, s.row, width + s.col, s.count, up),
                        cpu_read(dy, s.row, s.col, s.count, dy_buffer), cpu_target(dx, s.row, s.col, d_gate),
                        cpu_target(dx, s.row, width + s.col, d_up), s.count);
        cpu_write(dx, s.row, s.col, s.count, d_gate);
        cpu_write(dx, s.row, width + s.col, s.count, d_up);
    }
    cpu_make_quantized(cpu, dx, &args->to);
}
