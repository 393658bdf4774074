#include "cpu/convert.h"

/* The weights of the two parts, and the log-sum-exp of both. */
struct weights {
    float old, part, lse;
};

static struct weights weigh(float old, float part)
{
    if (old == -INFINITY && part == -INFINITY)
        return (struct weights){0.0f, 0.0f, -INFINITY};
    float largest = old > part ? old : part, a = expf(old - largest), b = expf(part - largest), sum = a + b;
    return (struct weights){a / sum, b / sum, largest + logf(sum)};
}

CPU_CLONES static void mix(float *restrict o, const float *part, float old_weight, float part_weight, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        o[i] = old_weight * o[i] + part_weight * part[i];
}

/* Merges elements col .. col + count - 1 of a row, of one head. A part without weight is not read. */
static void merge_span(const struct attention_merge_args *args, const struct weights *w, int64_t row, int64_t col,
                       int64_t count)
{
    float buffer[CPU_SPAN], *o = tensor_at(&args->o, row, col);
    if (w->old == 0.0f)
        memset(o, 0, (size_t)count * sizeof *o);
    if (w->part != 0.0f)
        mix(o, cpu_read(&args->part_o, row, col, count, buffer), w->old, w->part, count);
    if (tensor_present(&args->to))
        cpu_narrow(o, tensor_at(&args->to, row, col), args->to.dtype, count);
}

void cpu_attention_merge(struct cpu *cpu, const struct attention_merge_args *args)
{
    const int64_t dim = args->head_dim;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->o))) schedule(static)
    for (int64_t row = 0; row < args->o.rows; row++)
        for (int64_t head = 0; head < args->heads; head++) {
            float *lse = tensor_at(&args->lse, head, row);
            const struct weights w =
                weigh(args->first ? -INFINITY : *lse, *(const float *)tensor_at(&args->part_lse, head, row));
            *lse = w.lse;
            for (int64_t first = 0; first < dim; first += CPU_SPAN)
                merge_span(args, &w, row, head * dim + first, cpu_min(CPU_SPAN, dim - first));
        }
}
