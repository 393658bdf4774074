/* exact_add, exact_read, and sum_squares with a quantum. */
#include "cpu/convert.h"

#include <math.h>

#define EXACT_ADD_SPAN(name, type)                                                                                     \
    CPU_CLONES static void name(const type *from, double *to, int64_t count, const struct exact_add_args *args)        \
    {                                                                                                                  \
        const double quantum = args->quantum, inverse = 1 / quantum, most = args->most,                                \
                     old = args->accumulate ? 1 : 0;                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const double x = (double)from[i], rounded = fabs(x) <= most ? rint(x * inverse) * quantum : (double)NAN;   \
            to[i] = old != 0 ? to[i] + rounded : rounded;                                                              \
        }                                                                                                              \
    }
EXACT_ADD_SPAN(add_f32, float)
EXACT_ADD_SPAN(add_f64, double)

void cpu_exact_add(struct cpu *cpu, const struct exact_add_args *args)
{
    struct cpu_spans spans = cpu_spans(1, args->to.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, args->to.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        const void *from = tensor_at(&args->from, 0, s.col);
        double *to = tensor_at(&args->to, 0, s.col);
        if (args->from.dtype == DTYPE_F64)
            add_f64(from, to, s.count, args);
        else
            add_f32(from, to, s.count, args);
    }
}

CPU_CLONES static void read_span(const double *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)from[i];
}

void cpu_exact_read(struct cpu *cpu, const struct exact_read_args *args)
{
    struct cpu_spans spans = cpu_spans(1, args->to.cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, args->to.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        read_span(tensor_at(&args->from, 0, s.col), tensor_at(&args->to, 0, s.col), s.count);
    }
}

/* Splits the sum and adds its parts: each part is a multiple of its quantum, and the rest after it is exact. */
static void add_parts(double sum, double quantum, double parts[SQUARES_PARTS])
{
    for (int p = 0; p < SQUARES_PARTS; p++) {
        const double part = rint(sum / quantum) * quantum;
        parts[p] += part;
        sum -= part;
        quantum *= SQUARES_STEP;
    }
}

/* Sums in an order that does not depend on the width of the machine's vectors. */
CPU_CLONES static double sum_of_block(const float *x)
{
    enum { LANES = 8 };
    double lane[LANES] = {0}, sum = 0.0;
    for (int i = 0; i < SQUARES_BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

_Static_assert(CPU_SPAN % SQUARES_BLOCK == 0, "spans are whole blocks");

void cpu_sum_squares_exactly(struct cpu *cpu, const struct sum_squares_args *args)
{
    struct cpu_spans spans = cpu_spans(1, args->x.cols);
    double(*partial)[SQUARES_PARTS] = (double(*)[SQUARES_PARTS])cpu->workspace, *sum = args->sum.data;
#pragma omp parallel for num_threads(cpu_threads(cpu, args->x.cols)) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        const float *x = tensor_at(&args->x, 0, s.col);
        memset(partial[i], 0, sizeof partial[i]);
        for (int64_t first = 0; first < s.count; first += SQUARES_BLOCK)
            add_parts(sum_of_block(x + first), args->quantum, partial[i]);
    }
    memset(sum, 0, SQUARES_PARTS * sizeof *sum);
    for (int64_t i = 0; i < spans.count; i++)
        for (int p = 0; p < SQUARES_PARTS; p++)
            sum[p] += partial[i][p];
}
