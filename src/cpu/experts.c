/* The experts of a mixture: GEMMs over each expert's rows, and the weighted sum of a token's experts. */
#include "cpu/convert.h"

/* -- GEMMs --------------------------------------------------------------------------------------------------------- */

/* The rows of an expert. */
struct expert_rows {
    int64_t first, count;
};

static struct expert_rows rows_of(const struct tensor *ends, int64_t expert)
{
    const int32_t *end = ends->data;
    const int64_t first = expert > 0 ? end[expert - 1] : 0;
    return (struct expert_rows){first, end[expert] - first};
}

/* Returns the part of a matrix of all experts that is one expert's. */
static struct tensor part_of(const struct tensor *x, int64_t experts, int64_t expert)
{
    return tensor_rows(x, x->rows / experts * expert, x->rows / experts);
}

static struct gemm_args forward_of(const struct expert_gemm_args *args, int64_t expert, struct expert_rows rows)
{
    return (struct gemm_args){.a = tensor_rows(&args->a, rows.first, rows.count),
                              .b = part_of(&args->b, args->ends.cols, expert),
                              .d = tensor_rows(&args->d, rows.first, rows.count),
                              .transpose_b = args->transpose_b};
}

static struct gemm_args gradient_of(const struct expert_gradient_args *args, int64_t expert, struct expert_rows rows)
{
    return (struct gemm_args){.a = tensor_rows(&args->dy, rows.first, rows.count),
                              .b = tensor_rows(&args->x, rows.first, rows.count),
                              .d = part_of(&args->dweight, args->ends.cols, expert),
                              .transpose_a = true,
                              .accumulate = args->accumulate};
}

/* For the case that one expert has all rows. */
int64_t cpu_expert_gemm_workspace(const struct cpu *cpu, const struct expert_gemm_args *args)
{
    const struct gemm_args gemm = forward_of(args, 0, (struct expert_rows){0, args->a.rows});
    return cpu_gemm_workspace(cpu, &gemm);
}

int64_t cpu_expert_gradient_workspace(const struct cpu *cpu, const struct expert_gradient_args *args)
{
    const struct gemm_args gemm = gradient_of(args, 0, (struct expert_rows){0, args->x.rows});
    return cpu_gemm_workspace(cpu, &gemm);
}

void cpu_expert_gemm(struct cpu *cpu, const struct expert_gemm_args *args)
{
    for (int64_t e = 0; e < args->ends.cols; e++) {
        const struct expert_rows rows = rows_of(&args->ends, e);
        const struct gemm_args gemm = forward_of(args, e, rows);
        if (rows.count > 0)
            cpu_gemm(cpu, &gemm);
    }
}

void cpu_expert_gradient(struct cpu *cpu, const struct expert_gradient_args *args)
{
    for (int64_t e = 0; e < args->ends.cols; e++) {
        const struct gemm_args gemm = gradient_of(args, e, rows_of(&args->ends, e));
        cpu_gemm(cpu, &gemm);
    }
}

/* -- The sum of a token's experts ---------------------------------------------------------------------------------- */

CPU_CLONES static void add_weighted(const float *from, float weight, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] += weight * from[i];
}

static int64_t place_of(const struct tensor *places, int64_t t, int64_t c)
{
    return *(const int32_t *)tensor_at(places, t, c);
}

void cpu_combine_forward(struct cpu *cpu, const struct combine_forward_args *args)
{
    const struct tensor *y = &args->y;
    const struct cpu_spans spans = cpu_spans(y->rows, y->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->x))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        const struct cpu_span s = cpu_span(&spans, i);
        float sum[CPU_SPAN], buffer[CPU_SPAN];
        if (tensor_present(&args->addend))
            cpu_widen(tensor_at(&args->addend, s.row, s.col), args->addend.dtype, sum, s.count);
        else
            memset(sum, 0, sizeof sum);
        for (int64_t c = 0; c < args->places.cols; c++) {
            const int64_t place = place_of(&args->places, s.row, c);
            const float weight =
                tensor_present(&args->weights) ? *(const float *)tensor_at(&args->weights, s.row, c) : 1.0f;
            if (place >= 0)
                add_weighted(cpu_read(&args->x, place, s.col, s.count, buffer), weight, sum, s.count);
        }
        cpu_narrow(sum, tensor_at(y, s.row, s.col), y->dtype, s.count);
    }
}

/* Returns dy . x, and writes dx = weight dy, of one span. */
CPU_CLONES static float backward_span(const float *dy, const float *x, float weight, float *restrict dx, int64_t count)
{
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < count; i++) {
        dot += dy[i] * x[i];
        dx[i] = weight * dy[i];
    }
    return dot;
}

void cpu_combine_backward(struct cpu *cpu, const struct combine_backward_args *args)
{
    const int64_t count = args->places.cols, hidden = args->dy.cols;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->x))) schedule(static)
    for (int64_t pair = 0; pair < args->dy.rows * count; pair++) {
        const int64_t t = pair / count, c = pair % count, place = place_of(&args->places, t, c);
        const float weight = *(const float *)tensor_at(&args->weights, t, c);
        double dot = 0.0;
        for (int64_t col = 0; col < hidden && place >= 0; col += CPU_SPAN) {
            const int64_t span = cpu_min(CPU_SPAN, hidden - col);
            float dy_buffer[CPU_SPAN], x_buffer[CPU_SPAN], dx_buffer[CPU_SPAN];
            dot += backward_span(cpu_read(&args->dy, t, col, span, dy_buffer),
                                 cpu_read(&args->x, place, col, span, x_buffer), weight,
                                 cpu_target(&args->dx, place, col, dx_buffer), span);
            cpu_write(&args->dx, place, col, span, dx_buffer);
        }
        *(float *)tensor_at(&args->d_weights, t, c) = (float)dot;
    }
}
