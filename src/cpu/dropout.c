/* dropout. */
#include "core/dropout.h"
#include "cpu/convert.h"

/* One row's columns from `column` on. y may be x. */
CPU_CLONES static void drop(const float *x, float *y, int64_t count, const struct dropout_mask *mask, int32_t token,
                            int64_t column, float factor, bool accumulate)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const float kept = dropout_keeps(mask, token, column + i) ? x[i] * factor : 0.0f;
        y[i] = accumulate ? y[i] + kept : kept;
    }
}

void cpu_dropout(struct cpu *cpu, const struct dropout_args *args)
{
    const struct tensor *x = &args->x, *y = &args->y;
    const int32_t *keys = args->keys.data;
    const struct dropout_mask mask = dropout_mask_of(args->probability, args->salt);
    const float factor = (float)(1 / (1 - args->probability));
    const struct cpu_spans spans = cpu_spans(y->rows, y->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(y))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float x_buffer[CPU_SPAN], y_buffer[CPU_SPAN], *to = cpu_target(y, s.row, s.col, y_buffer);
        if (args->accumulate)
            cpu_read(y, s.row, s.col, s.count, y_buffer);
        drop(cpu_read(x, s.row, s.col, s.count, x_buffer), to, s.count, &mask, keys[s.row], args->origin + s.col,
             factor, args->accumulate);
        cpu_write(y, s.row, s.col, s.count, y_buffer);
    }
}
