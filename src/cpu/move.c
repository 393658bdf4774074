/* copy, scatter, transpose, split, join, fill, add, multiply. */
#include "cpu/convert.h"

/* bytes that a thread moves at a time, several pages */
enum { PIECE = 64 * 1024 };

void cpu_copy(struct cpu *cpu, const struct copy_args *args)
{
    struct tensor from = args->from, to = args->to;
    if (tensor_contiguous(&from) && tensor_contiguous(&to))
        from = cpu_flat(&from), to = cpu_flat(&to);
    int64_t bytes = from.cols * dtype_size(from.dtype), pieces = (bytes + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&from))) schedule(static)
    for (int64_t i = 0; i < from.rows * pieces; i++) {
        int64_t row = i / pieces, first = i % pieces * PIECE;
        memcpy((char *)tensor_at(&to, row, 0) + first, (char *)tensor_at(&from, row, 0) + first,
               (size_t)cpu_min(PIECE, bytes - first));
    }
}

void cpu_scatter(struct cpu *cpu, const struct scatter_args *args)
{
    const struct tensor *from = &args->from;
    const int32_t *rows = args->rows.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(from))) schedule(static)
    for (int64_t t = 0; t < from->rows; t++)
        memcpy(tensor_at(&args->to, rows[t], 0), tensor_at(from, t, 0), (size_t)(from->cols * dtype_size(from->dtype)));
}

/* Transposes squares of 64 x 64 bytes, so that each cache line is read and written once. */
void cpu_transpose(struct cpu *cpu, const struct transpose_args *args)
{
    const struct tensor *from = &args->from, *to = &args->to;
    const int64_t across = (from->cols + CPU_LINE - 1) / CPU_LINE, down = (from->rows + CPU_LINE - 1) / CPU_LINE;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(from))) schedule(static)
    for (int64_t i = 0; i < across * down; i++) {
        const int64_t row = i / across * CPU_LINE, col = i % across * CPU_LINE;
        const int64_t rows = cpu_min(CPU_LINE, from->rows - row), cols = cpu_min(CPU_LINE, from->cols - col);
        for (int64_t c = 0; c < cols; c++) {
            const uint8_t *source = tensor_at(from, row, col + c);
            uint8_t *target = tensor_at(to, col + c, row);
            for (int64_t r = 0; r < rows; r++)
                target[r] = source[r * from->stride];
        }
    }
}

void cpu_split(struct cpu *cpu, const struct split_args *args)
{
    struct cpu_spans spans = cpu_spans(1, args->from.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, args->from.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        int16_t *low = tensor_present(&args->low) ? tensor_at(&args->low, 0, s.col) : NULL;
        cpu_split_span(tensor_at(&args->from, 0, s.col), tensor_at(&args->high, 0, s.col), low, s.count);
    }
}

void cpu_join(struct cpu *cpu, const struct join_args *args)
{
    struct cpu_spans spans = cpu_spans(1, args->to.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, args->to.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        const void *high = tensor_at(&args->high, 0, s.col);
        float *to = tensor_at(&args->to, 0, s.col);
        if (tensor_present(&args->low))
            cpu_join_span(high, tensor_at(&args->low, 0, s.col), to, s.count);
        else
            cpu_widen(high, DTYPE_BF16, to, s.count);
    }
}

/* Fills `to` with an element, by doubling. */
static void repeat(char *to, const void *element, int64_t size, int64_t bytes)
{
    memcpy(to, element, (size_t)size);
    for (int64_t done = size; done < bytes; done *= 2)
        memcpy(to + done, to, (size_t)cpu_min(done, bytes - done));
}

void cpu_fill(struct cpu *cpu, const struct fill_args *args)
{
    char element[8];
    float value = (float)args->value;
    if (args->x.dtype == DTYPE_F64)
        memcpy(element, &args->value, sizeof args->value);
    else
        cpu_narrow(&value, element, args->x.dtype, 1);
    struct tensor x = cpu_flat(&args->x);
    struct cpu_spans spans = cpu_spans(x.rows, x.cols);
    int64_t size = dtype_size(x.dtype);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&x))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        repeat(tensor_at(&x, s.row, s.col), element, size, s.count * size);
    }
}

void cpu_add(struct cpu *cpu, const struct add_args *args)
{
    struct tensor from = args->from, to = args->to;
    if (tensor_contiguous(&from) && tensor_contiguous(&to))
        from = cpu_flat(&from), to = cpu_flat(&to);
    struct cpu_spans spans = cpu_spans(to.rows, to.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&to))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float from_buffer[CPU_SPAN], to_buffer[CPU_SPAN], *sum = cpu_target(&to, s.row, s.col, to_buffer);
        cpu_read(&to, s.row, s.col, s.count, to_buffer);
        cpu_add_span(cpu_read(&from, s.row, s.col, s.count, from_buffer), sum, s.count);
        cpu_write(&to, s.row, s.col, s.count, to_buffer);
    }
}

void cpu_multiply(struct cpu *cpu, const struct multiply_args *args)
{
    const struct tensor x = cpu_flat(&args->x);
    const struct cpu_spans spans = cpu_spans(x.rows, x.cols);
    const float factor = (float)args->factor;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&x))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float buffer[CPU_SPAN], *values = cpu_target(&x, s.row, s.col, buffer);
        cpu_read(&x, s.row, s.col, s.count, buffer);
        for (int64_t j = 0; j < s.count; j++)
            values[j] *= factor;
        cpu_write(&x, s.row, s.col, s.count, buffer);
    }
}
