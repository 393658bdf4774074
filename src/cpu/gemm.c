#include "cpu/convert.h"
#include "cpu/sgemm.h"

struct scratch {
    float *a, *b, *d; /* f32 copies of the operands that are not f32; else NULL */
};

static int64_t lay_out(const struct gemm_args *args, char *base, struct scratch *scratch)
{
    int64_t used = 0;
    *scratch = (struct scratch){0};
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
    struct scratch scratch;
    return lay_out(args, NULL, &scratch);
}

/* The values of x in f32: x itself, or widened into `copy`. */
static struct tensor as_f32(struct cpu *cpu, const struct tensor *x, float *copy)
{
    if (x->dtype == DTYPE_F32)
        return *x;
    struct tensor wide = tensor_matrix(copy, DTYPE_F32, x->rows, x->cols);
    cpu_cast(cpu, &(struct cast_args){.from = *x, .to = wide});
    return wide;
}

static float scale_of(const struct tensor *scale)
{
    return tensor_present(scale) ? *(const float *)scale->data : 1.0f;
}

void cpu_gemm(struct cpu *cpu, const struct gemm_args *args)
{
    struct scratch scratch;
    lay_out(args, cpu->workspace, &scratch);
    struct tensor a = as_f32(cpu, &args->a, scratch.a), b = as_f32(cpu, &args->b, scratch.b), d = args->d;
    if (d.dtype != DTYPE_F32)
        d = tensor_matrix(scratch.d, DTYPE_F32, d.rows, d.cols);
    int64_t k = args->transpose_a ? a.rows : a.cols;

    /* what is added to the product goes to d first */
    const struct tensor *addend = args->accumulate ? &args->d : tensor_present(&args->c) ? &args->c : NULL;
    if (addend != NULL && addend->data != d.data)
        cpu_cast(cpu, &(struct cast_args){.from = *addend, .to = d});
    else if (addend == NULL && k == 0)
        cpu_fill(cpu, &(struct fill_args){.x = d, .value = 0.0});

    enum { SMALL = 1 << 20 }; /* multiply-adds: some ten microseconds, as long as it takes to wake threads */
    if (d.rows > 0 && d.cols > 0 && k > 0)
        sgemm(tensor_count(&d) * k < SMALL ? 1 : cpu->threads, d.rows, d.cols, k,
              scale_of(&args->scale_a) * scale_of(&args->scale_b),
              (struct sgemm_matrix){a.data, a.stride, args->transpose_a},
              (struct sgemm_matrix){b.data, b.stride, args->transpose_b}, addend != NULL ? 1.0f : 0.0f, d.data,
              d.stride);
    if (args->d.dtype != DTYPE_F32)
        cpu_cast(cpu, &(struct cast_args){.from = d, .to = args->d});
}
