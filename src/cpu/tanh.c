/* tanh. */
#include "cpu/convert.h"

#include <math.h>

void cpu_tanh_forward(struct cpu *cpu, const struct tanh_forward_args *args)
{
    const struct tensor *x = &args->x, *y = &args->y;
    struct cpu_spans spans = cpu_spans(y->rows, y->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(y))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float x_buffer[CPU_SPAN], y_buffer[CPU_SPAN];
        const float *from = cpu_read(x, s.row, s.col, s.count, x_buffer);
        float *to = cpu_target(y, s.row, s.col, y_buffer);
        for (int64_t k = 0; k < s.count; k++)
            to[k] = tanhf(from[k]);
        cpu_write(y, s.row, s.col, s.count, y_buffer);
    }
}

/* dx may be dy itself. */
CPU_CLONES static void backward(const float *y, const float *dy, float *dx, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

void cpu_tanh_backward(struct cpu *cpu, const struct tanh_backward_args *args)
{
    const struct tensor *y = &args->y, *dy = &args->dy, *dx = &args->dx;
    struct cpu_spans spans = cpu_spans(dx->rows, dx->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(dx))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float y_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], dx_buffer[CPU_SPAN];
        backward(cpu_read(y, s.row, s.col, s.count, y_buffer), cpu_read(dy, s.row, s.col, s.count, dy_buffer),
                 cpu_target(dx, s.row, s.col, dx_buffer), s.count);
        cpu_write(dx, s.row, s.col, s.count, dx_buffer);
    }
}
