/* quantize: to e4m3 with one scale for the tensor. */
#include "cpu/convert.h"

/* NaN counts as the largest, so that a bad tensor gives a bad scale instead of passing for a good one. */
CPU_CLONES static uint32_t largest_magnitude(const float *x, int64_t count)
{
    uint32_t result = 0; /* bits of a float without its sign order as the float does */
#pragma omp simd reduction(max : result)
    for (int64_t i = 0; i < count; i++) {
        uint32_t magnitude = cpu_bits(x[i]) & 0x7fffffffu;
        result = magnitude > result ? magnitude : result;
    }
    return result;
}

CPU_CLONES static void divide(const float *x, float scale, float *restrict y, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] / scale;
}

static float scale_of(struct cpu *cpu, const struct tensor *x)
{
    struct cpu_spans spans = cpu_spans(x->rows, x->cols);
    uint32_t largest = 0;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static) reduction(max : largest)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float buffer[CPU_SPAN];
        uint32_t candidate = largest_magnitude(cpu_read(x, s.row, s.col, s.count, buffer), s.count);
        largest = candidate > largest ? candidate : largest;
    }
    return largest == 0 ? 1.0f : cpu_float(largest) / 448.0f;
}

/* The square tile at (first_row, first_col): into both copies while it is in cache. */
enum { TILE = 64 };

static void quantize_tile(const struct quantize_args *args, int64_t first_row, int64_t first_col, float scale)
{
    const struct tensor *x = &args->x;
    int64_t rows = cpu_min(TILE, x->rows - first_row), cols = cpu_min(TILE, x->cols - first_col);
    uint8_t quantized[TILE][TILE];
    for (int64_t i = 0; i < rows; i++) {
        float buffer[TILE], scaled[TILE];
        divide(cpu_read(x, first_row + i, first_col, cols, buffer), scale, scaled, cols);
        cpu_narrow(scaled, quantized[i], DTYPE_E4M3, cols);
        if (tensor_present(&args->to.row))
            memcpy(tensor_at(&args->to.row, first_row + i, first_col), quantized[i], (size_t)cols);
    }
    for (int64_t j = 0; tensor_present(&args->to.column) && j < cols; j++) {
        uint8_t *column = tensor_at(&args->to.column, first_col + j, first_row);
        for (int64_t i = 0; i < rows; i++)
            column[i] = quantized[i][j];
    }
}

void cpu_quantize(struct cpu *cpu, const struct quantize_args *args)
{
    const struct tensor *x = &args->x;
    float scale = scale_of(cpu, x);
    if (tensor_present(&args->to.row_scale))
        *(float *)args->to.row_scale.data = scale;
    if (tensor_present(&args->to.column_scale))
        *(float *)args->to.column_scale.data = scale;
    int64_t across = (x->cols + TILE - 1) / TILE, down = (x->rows + TILE - 1) / TILE;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t i = 0; i < across * down; i++)
        quantize_tile(args, i / across * TILE, i % across * TILE, scale);
}

void cpu_quantization_statistic(struct cpu *cpu, const struct quantization_statistic_args *args)
{
    (void)cpu, (void)args;
}

void cpu_delayed_scale(struct cpu *cpu, const struct delayed_scale_args *args)
{
    (void)cpu, (void)args;
}
