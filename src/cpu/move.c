/* copy, cast, fill. */
#include "cpu/convert.h"

/* Threads move pieces of this many bytes, several pages each. */
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

void cpu_cast(struct cpu *cpu, const struct cast_args *args)
{
    if (args->from.dtype == args->to.dtype) {
        cpu_copy(cpu, &(struct copy_args){args->from, args->to});
        return;
    }
    struct tensor from = args->from, to = args->to;
    if (tensor_contiguous(&from) && tensor_contiguous(&to))
        from = cpu_flat(&from), to = cpu_flat(&to);
    struct cpu_spans spans = cpu_spans(from.rows, from.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&from))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        const void *source = tensor_at(&from, s.row, s.col);
        void *target = tensor_at(&to, s.row, s.col);
        float buffer[CPU_SPAN];
        if (to.dtype == DTYPE_F32) {
            cpu_widen(source, from.dtype, target, s.count);
        } else if (from.dtype == DTYPE_F64) {
            cpu_round_to_odd(source, buffer, s.count);
            cpu_narrow(buffer, target, to.dtype, s.count);
        } else {
            cpu_narrow(cpu_read(&from, s.row, s.col, s.count, buffer), target, to.dtype, s.count);
        }
    }
}

/* One element's bytes, repeated by doubling. */
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
