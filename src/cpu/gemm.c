#include "cpu/convert.h"
#include "cpu/sgemm.h"
#include "cpu/sum.h"

struct gemm_scratch {
    float *a, *b, *d; /* f32 copies of the operands that are not f32; else NULL */
};

static int64_t lay_out(const struct gemm_args *args, char *base, struct gemm_scratch *scratch)
{
    int64_t used = 0;
    *scratch = (struct gemm_scratch){0};
    if (args->a.dtype != DTYPE_F32)
        scratch->a = cpu_take(base, &used, tensor_count(&args->a) * (int64_t)sizeof(float));
    if (args->b.dtype != DTYPE_F32)
        scratch->b = cpu_take(base, &used, tensor_count(&args->b) * (int64_t)sizeof(float));
    if (args->d.dtype != DTYPE_F32)
        scratch->d = cpu_take(base, &used, tensor_count(&args->d) * (int64_t)sizeof(float));
    return used;
}

int64_t cpu_gemm_workspace(const struct cpu *cpu, const struct gemm_args *args)
{
    (void)cpu;
    struct gemm_scratch scratch;
    return lay_out(args, NULL, &scratch);
}

CPU_CLONES static void multiply(float *restrict x, float factor, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* Multiplies a row of elements by its scales, which have the shapes of struct quantized_operands. */
static void scale_row(float *x, const struct tensor *scale, enum scaling scaling, int64_t row, int64_t cols)
{
    if (scaling == SCALING_ROW)
        multiply(x, *(const float *)tensor_at(scale, 0, row), cols);
    for (int64_t col = 0; scaling != SCALING_ROW && col < cols; col += QUANTIZATION_BLOCK) {
        int64_t block = col / QUANTIZATION_BLOCK;
        const float *factor =
            scaling == SCALING_1X128 ? tensor_at(scale, block, row) : tensor_at(scale, row / QUANTIZATION_BLOCK, block);
        multiply(x + col, *factor, cpu_min(QUANTIZATION_BLOCK, cols - col));
    }
}

/* Returns whether there is at most one scale, which multiplies the result; else elements are multiplied by their
 * scales. */
static bool is_one(const struct tensor *scale)
{
    return !tensor_present(scale) || tensor_count(scale) == 1;
}

static float scale_of(const struct tensor *scale)
{
    return tensor_present(scale) && is_one(scale) ? *(const float *)scale->data : 1.0f;
}

/* Returns the values of x in f32, without a single scale: x itself, or converted into `copy`. */
static struct tensor as_f32(struct cpu *cpu, const struct tensor *x, const struct tensor *scale, enum scaling scaling,
                            float *copy)
{
    if (x->dtype == DTYPE_F32)
        return *x;
    struct tensor wide = tensor_matrix(copy, DTYPE_F32, x->rows, x->cols);
    if (is_one(scale)) {
        cpu_cast(cpu, *x, wide);
        return wide;
    }
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t row = 0; row < x->rows; row++) {
        cpu_widen(tensor_at(x, row, 0), x->dtype, tensor_at(&wide, row, 0), x->cols);
        scale_row(tensor_at(&wide, row, 0), scale, scaling, row, x->cols);
    }
    return wide;
}

/* -- The product --------------------------------------------------------------------------------------------------- */

CPU_CLONES static void add_bias(const float *addend, const float *bias, float *d, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        d[i] = addend[i] + bias[i];
}

/* d = bias in every row + the addend (NULL: 0), which may be d itself. */
static void start_from_bias(struct cpu *cpu, const struct tensor *bias, const struct tensor *addend,
                            const struct tensor *d)
{
    struct cpu_spans spans = cpu_spans(d->rows, d->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(d))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float bias_buffer[CPU_SPAN], addend_buffer[CPU_SPAN], *target = tensor_at(d, s.row, s.col);
        if (addend == NULL)
            cpu_widen(tensor_at(bias, 0, s.col), bias->dtype, target, s.count);
        else
            add_bias(cpu_read(addend, s.row, s.col, s.count, addend_buffer),
                     cpu_read(bias, 0, s.col, s.count, bias_buffer), target, s.count);
    }
}

/* Writes everything that is added to the product to d. Returns false if there is nothing. */
static bool start(struct cpu *cpu, const struct gemm_args *args, const struct tensor *d)
{
    const struct tensor *addend = args->accumulate ? &args->d : tensor_present(&args->c) ? &args->c : NULL;
    if (tensor_present(&args->bias))
        start_from_bias(cpu, &args->bias, addend, d);
    else if (addend != NULL && addend->data != d->data)
        cpu_cast(cpu, *addend, *d);
    return addend != NULL || tensor_present(&args->bias);
}

void cpu_gemm(struct cpu *cpu, const struct gemm_args *args)
{
    struct gemm_scratch scratch;
    lay_out(args, cpu->workspace, &scratch);
    struct tensor a = as_f32(cpu, &args->a, &args->scale_a, args->scaling_a, scratch.a);
    struct tensor b = as_f32(cpu, &args->b, &args->scale_b, args->scaling_b, scratch.b), d = args->d;
    if (d.dtype != DTYPE_F32)
        d = tensor_matrix(scratch.d, DTYPE_F32, d.rows, d.cols);
    int64_t k = args->transpose_a ? a.rows : a.cols;

    if (tensor_present(&args->sum_a))
        cpu_sum(cpu, &a, args->transpose_a, &args->sum_a, args->accumulate);
    bool add = start(cpu, args, &d);
    if (!add && k == 0)
        cpu_fill(cpu, &(struct fill_args){.x = d, .value = 0.0});

    enum { SMALL = 1 << 20 }; /* multiply-adds, about ten microseconds: as long as waking threads takes */
    if (d.rows > 0 && d.cols > 0 && k > 0)
        sgemm(tensor_count(&d) * k < SMALL ? 1 : cpu->threads, d.rows, d.cols, k,
              scale_of(&args->scale_a) * scale_of(&args->scale_b),
              (struct sgemm_matrix){a.data, a.stride, args->transpose_a},
              (struct sgemm_matrix){b.data, b.stride, args->transpose_b}, add ? 1.0f : 0.0f, d.data, d.stride);
    if (args->d.dtype != DTYPE_F32)
        cpu_cast(cpu, d, args->d);
}
