/* gelu. */
#include "base/range.h"
#include "cpu/convert.h"
#include "cpu/quantize.h"
#include "cpu/sum.h"

/* y = x share; dy/dx = share + x slope. */
struct gelu {
    float share, slope;
};

/* Beyond this x, share is 0 or 1 and slope 0 in f32, and nothing below overflows. NaN stays NaN. */
CPU_INLINE float gelu_clamp(float x)
{
    const float far = 16.0f;
    return x < -far ? -far : (x > far ? far : x);
}

/* The normal distribution and its density. For t = |x|, Phi(-t) = exp(-t^2 / 2) r(t), with a rational function r fitted
 * to a relative error of 7e-9 on 0 .. 16. Its coefficients are positive, so nothing cancels, also in the tails.
 * Rounding t^2 equals an error of half a rounding in x. */
CPU_INLINE struct gelu gelu_erf(float x)
{
    float t = fabsf(gelu_clamp(x)), e = cpu_exp(-0.5f * (t * t));
    float p = 0x1.14b3dcp-8f, q = 0x1.5acac4p-7f;
    p = p * t + 0x1.52ac26p-5f;
    p = p * t + 0x1.7b8e20p-3f;
    p = p * t + 0x1.c3b22ep-2f;
    p = p * t + 0.5f;
    q = q * t + 0x1.a87c54p-4f;
    q = q * t + 0x1.e666e6p-2f;
    q = q * t + 0x1.361012p+0f;
    q = q * t + 0x1.ae1b48p+0f;
    q = q * t + 1.0f;
    float tail = e * (p / q);
    return (struct gelu){x < 0.0f ? tail : 1.0f - tail, 0x1.988454p-2f * e}; /* 1 / sqrt(2 pi) */
}

/* (1 + tanh(u)) / 2 = sigmoid(2 u), and 2 u = x (k + 0.044715 k x^2) with k = 2 sqrt(2 / pi). */
CPU_INLINE struct gelu gelu_tanh(float x)
{
    const float k = 0x1.988454p+0f, cubic = 0x1.2444f2p-4f;
    float c = gelu_clamp(x), square = c * c;
    struct cpu_sigmoid s = cpu_sigmoid(c * (k + cubic * square));
    return (struct gelu){s.value, s.value * s.complement * (k + 3.0f * cubic * square)};
}

CPU_CLONES static void forward(bool tanh_form, const float *x, float *restrict y, int64_t count)
{
    if (tanh_form) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = x[i] * gelu_tanh(x[i]).share;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = x[i] * gelu_erf(x[i]).share;
    }
}

int64_t cpu_gelu_forward_workspace(const struct cpu *cpu, const struct gelu_forward_args *args)
{
    (void)cpu;
    return cpu_made_workspace(&args->y, args->x.dtype, args->x.rows, args->x.cols);
}

void cpu_gelu_forward(struct cpu *cpu, const struct gelu_forward_args *args)
{
    const struct tensor *x = &args->x, made = cpu_made(cpu, &args->y, x->dtype, x->rows, x->cols), *y = &made;
    struct cpu_spans spans = cpu_spans(y->rows, y->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(y))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float x_buffer[CPU_SPAN], y_buffer[CPU_SPAN];
        forward(args->tanh_form, cpu_read(x, s.row, s.col, s.count, x_buffer), cpu_target(y, s.row, s.col, y_buffer),
                s.count);
        cpu_write(y, s.row, s.col, s.count, y_buffer);
    }
    cpu_make_quantized(cpu, y, &args->to);
}

/* dx may be dy itself. */
CPU_CLONES static void backward(bool tanh_form, const float *x, const float *dy, float *dx, int64_t count)
{
    if (tanh_form) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            struct gelu gelu = gelu_tanh(x[i]);
            dx[i] = dy[i] * (gelu.share + x[i] * gelu.slope);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            struct gelu gelu = gelu_erf(x[i]);
            dx[i] = dy[i] * (gelu.share + x[i] * gelu.slope);
        }
    }
}

int64_t cpu_gelu_backward_workspace(const struct cpu *cpu, const struct gelu_backward_args *args)
{
    const int64_t dx = cpu_made_workspace(&args->dx, args->x.dtype, args->x.rows, args->x.cols);
    const struct gelu_forward_args forward = {.x = args->x, .to = args->y_to};
    return has_quantized(&args->y_to) ? MAX(dx, cpu_gelu_forward_workspace(cpu, &forward)) : dx;
}

void cpu_gelu_backward(struct cpu *cpu, const struct gelu_backward_args *args)
{
    const struct tensor *x = &args->x, *dy = &args->dy;
    if (has_quantized(&args->y_to))
        cpu_gelu_forward(cpu, &(struct gelu_forward_args){.x = *x, .to = args->y_to, .tanh_form = args->tanh_form});
    const struct tensor made = cpu_made(cpu, &args->dx, x->dtype, x->rows, x->cols), *dx = &made;
    struct cpu_spans spans = cpu_spans(dx->rows, dx->cols);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(dx))) schedule(static)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float x_buffer[CPU_SPAN], dy_buffer[CPU_SPAN], dx_buffer[CPU_SPAN];
        backward(args->tanh_form, cpu_read(x, s.row, s.col, s.count, x_buffer),
                 cpu_read(dy, s.row, s.col, s.count, dy_buffer), cpu_target(dx, s.row, s.col, dx_buffer), s.count);
        cpu_write(dx, s.row, s.col, s.count, dx_buffer);
    }
    if (tensor_present(&args->sum))
        cpu_sum(cpu, dx, true, &args->sum, args->accumulate);
    cpu_make_quantized(cpu, dx, &args->to);
}
