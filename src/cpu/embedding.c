/* embedding. */
#include "cpu/convert.h"

CPU_CLONES static void multiply(const float *x, float scale, float *restrict y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * scale;
}

/* Returns the token's row of a weight or its gradient; -1 if it has none. */
static int64_t row_of(int32_t token, int64_t origin, const struct tensor *weight)
{
    const int64_t row = token - origin;
    return row >= 0 && row < weight->rows ? row : -1;
}

/* y[t] = row v of the weight, times scale. */
static void scaled_row(const struct embedding_forward_args *args, int64_t t, int64_t v, float scale)
{
    const struct tensor *y = &args->y;
    float buffer[CPU_SPAN], y_buffer[CPU_SPAN];
    for (int64_t col = 0; col < y->cols; col += CPU_SPAN) {
        int64_t count = cpu_min(CPU_SPAN, y->cols - col);
        multiply(cpu_read(&args->weight, v, col, count, buffer), scale, cpu_target(y, t, col, y_buffer), count);
        cpu_write(y, t, col, count, y_buffer);
    }
}

void cpu_embedding_forward(struct cpu *cpu, const struct embedding_forward_args *args)
{
    const struct tensor *y = &args->y;
    const int32_t *tokens = args->tokens.data;
    const int64_t rows = cpu_written_rows(&args->ends, y->rows);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(y))) schedule(static)
    for (int64_t t = 0; t < rows; t++) {
        const int64_t v = row_of(tokens[t], args->origin, &args->weight);
        void *to = tensor_at(y, t, 0);
        if (v < 0) {
            memset(to, 0, (size_t)(y->cols * dtype_size(y->dtype)));
            continue;
        }
        const void *from = tensor_at(&args->weight, v, 0);
        if (tensor_present(&args->scale)) {
            scaled_row(args, t, v, ((const float *)args->scale.data)[t]);
        } else if (args->weight.dtype == y->dtype) {
            memcpy(to, from, (size_t)(y->cols * dtype_size(y->dtype)));
        } else if (y->dtype == DTYPE_F32) {
            cpu_widen(from, args->weight.dtype, to, y->cols);
        } else {
            cpu_narrow(from, to, y->dtype, y->cols);
        }
    }
}

CPU_CLONES static void add_scaled(const float *from, float scale, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i] * scale;
}

/* All sums are made in fp32 first if the gradient is not fp32. */
int64_t cpu_embedding_backward_workspace(const struct cpu *cpu, const struct embedding_backward_args *args)
{
    (void)cpu;
    return args->dweight.dtype == DTYPE_F32 ? 0 : tensor_count(&args->dweight) * (int64_t)sizeof(float);
}

/* Sums columns first .. end - 1 of all vocabulary rows: one thread sees every token, in order. sums: fp32, shape of
 * dweight. */
static void backward_columns(const struct embedding_backward_args *args, const struct tensor *sums, int64_t first,
                             int64_t end)
{
    const int32_t *tokens = args->tokens.data;
    const float *scale = tensor_present(&args->scale) ? args->scale.data : NULL;
    const struct tensor *dy = &args->dy, *dweight = &args->dweight;
    for (int64_t v = 0; v < sums->rows; v++)
        if (!args->accumulate)
            memset(tensor_at(sums, v, first), 0, (size_t)(end - first) * sizeof(float));
        else if (dweight->dtype != DTYPE_F32)
            cpu_widen(tensor_at(dweight, v, first), dweight->dtype, tensor_at(sums, v, first), end - first);
    for (int64_t t = 0; t < dy->rows; t++) {
        const int64_t v = row_of(tokens[t], args->origin, dweight);
        for (int64_t col = first; col < end && v >= 0 && tokens[t] != args->padding; col += CPU_SPAN) {
            int64_t count = cpu_min(CPU_SPAN, end - col);
            float buffer[CPU_SPAN];
            const float *from = cpu_read(dy, t, col, count, buffer);
            if (scale != NULL)
                add_scaled(from, scale[t], tensor_at(sums, v, col), count);
            else
                cpu_add_span(from, tensor_at(sums, v, col), count);
        }
    }
    for (int64_t v = 0; v < sums->rows && dweight->dtype != DTYPE_F32; v++)
        cpu_narrow(tensor_at(sums, v, first), tensor_at(dweight, v, first), dweight->dtype, end - first);
}

void cpu_embedding_backward(struct cpu *cpu, const struct embedding_backward_args *args)
{
    enum { LINE = CPU_LINE / sizeof(uint16_t) }; /* so that two threads never write to the same cache line */
    int parts = cpu_threads(cpu, tensor_count(&args->dy) + tensor_count(&args->dweight));
    const struct tensor *to = &args->dweight;
    const struct tensor sums =
        to->dtype == DTYPE_F32 ? *to : tensor_matrix(cpu->workspace, DTYPE_F32, to->rows, to->cols);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int i = 0; i < parts; i++)
        backward_columns(args, &sums, cpu_part(args->dy.cols, parts, i, LINE),
                         cpu_part(args->dy.cols, parts, i + 1, LINE));
}
