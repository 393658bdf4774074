/* Shared by the files of the CPU executor: the executor itself, declarations of all ops, scratch, the division of a
 * matrix into spans, and functions that inline into vectorised loops. */
#ifndef CPU_KERNEL_H
#define CPU_KERNEL_H

#include "base/clones.h"
#include "core/launch.h"

enum {
    CPU_SPAN = 1024,       /* elements processed at a time by element-wise kernels: a few spans fit in the L1 cache */
    CPU_SMALL = 16 * 1024, /* below this number of elements one thread is faster than several */
    CPU_LINE = 64          /* bytes of a cache line, and alignment of scratch */
};

struct cpu {
    struct executor executor; /* first member, so that pointers to it and to struct cpu convert */
    int threads;
    char *workspace; /* scratch, kept between launches; all streams share it, since their launches never overlap */
    int64_t workspace_bytes;
};

/* -- Ops: each runs one op of core/op.h; args is its args struct ------------------------------------------------ */

#define X(NAME, name) void cpu_##name(struct cpu *cpu, const struct name##_args *args);
OP_DEVICE_TABLE(X)
#undef X

/* Ops that need scratch. cpu_NAME_workspace, in the same file as cpu_NAME, returns its bytes. */
#define CPU_WORKSPACE_TABLE(X)                                                                                         \
    X(GEMM, gemm)                                                                                                      \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(RMSNORM_BACKWARD, rmsnorm_backward)                                                                              \
    X(LAYERNORM_BACKWARD, layernorm_backward)                                                                          \
    X(HEAD_NORM_BACKWARD, head_norm_backward)                                                                          \
    X(ATTENTION_FORWARD, attention_forward)                                                                            \
    X(ATTENTION_BACKWARD, attention_backward)                                                                          \
    X(EXPERT_GEMM, expert_gemm)                                                                                        \
    X(EXPERT_GRADIENT, expert_gradient)                                                                                \
    X(SWIGLU_FORWARD, swiglu_forward)                                                                                  \
    X(SWIGLU_BACKWARD, swiglu_backward)                                                                                \
    X(GELU_FORWARD, gelu_forward)                                                                                      \
    X(GELU_BACKWARD, gelu_backward)                                                                                    \
    X(QUANTIZE, quantize)                                                                                              \
    X(QUANTIZATION_STATISTIC, quantization_statistic)                                                                  \
    X(SUM_SQUARES, sum_squares)

#define X(NAME, name) int64_t cpu_##name##_workspace(const struct cpu *cpu, const struct name##_args *args);
CPU_WORKSPACE_TABLE(X)
#undef X

/* cpu_sum_squares with a quantum. */
void cpu_sum_squares_exactly(struct cpu *cpu, const struct sum_squares_args *args);

/* -- Scratch ------------------------------------------------------------------------------------------------------ */

/* Allocates `bytes` of scratch at base + *used, rounded up to whole cache lines, and advances *used. Returns NULL if
 * base is NULL. Each op has one function that lays out its scratch, called with base NULL to count the bytes (the op's
 * workspace function), and again at launch, when the executor has allocated them. */
static inline void *cpu_take(char *base, int64_t *used, int64_t bytes)
{
    int64_t first = *used;
    *used += (bytes + CPU_LINE - 1) / CPU_LINE * CPU_LINE;
    return base == NULL ? NULL : base + first;
}

/* -- Spans: a matrix as pieces of rows, each of at most CPU_SPAN elements, the work items of element-wise ops ---- */

struct cpu_spans {
    int64_t cols, per_row, count; /* count = rows * per_row */
};

struct cpu_span {
    int64_t row, col, count;
};

/* Returns how many of `rows` rows an op writes: those before the last of ends, if ends is present. */
static inline int64_t cpu_written_rows(const struct tensor *ends, int64_t rows)
{
    return tensor_present(ends) ? ((const int32_t *)ends->data)[ends->cols - 1] : rows;
}

static inline struct cpu_spans cpu_spans(int64_t rows, int64_t cols)
{
    int64_t per_row = (cols + CPU_SPAN - 1) / CPU_SPAN;
    return (struct cpu_spans){cols, per_row, rows * per_row};
}

static inline struct cpu_span cpu_span(const struct cpu_spans *spans, int64_t i)
{
    int64_t col = i % spans->per_row * CPU_SPAN, left = spans->cols - col;
    return (struct cpu_span){i / spans->per_row, col, left < CPU_SPAN ? left : CPU_SPAN};
}

/* Returns x as one row if it is contiguous, for fewer and longer spans; else x. */
static inline struct tensor cpu_flat(const struct tensor *x)
{
    return tensor_contiguous(x) ? tensor_vector(x->data, x->dtype, tensor_count(x)) : *x;
}

/* Returns the number of threads for an op on `elements` elements. */
static inline int cpu_threads(const struct cpu *cpu, int64_t elements)
{
    return elements < CPU_SMALL ? 1 : cpu->threads;
}

/* Returns the start of part i of n elements, split into `parts` at multiples of `multiple`; it is also the end of part
 * i - 1. */
static inline int64_t cpu_part(int64_t n, int64_t parts, int64_t i, int64_t multiple)
{
    int64_t multiples = (n + multiple - 1) / multiple, start = multiples * i / parts * multiple;
    return start < n ? start : n;
}

static inline int64_t cpu_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cpu_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* -- Arithmetic for kernels --------------------------------------------------------------------------------------- */

CPU_INLINE uint32_t cpu_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CPU_INLINE float cpu_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns exp(x) to about one unit in the last place, over the whole range (0, denormals, infinity; NaN stays NaN),
 * without a branch. x = n ln 2 + r, |r| <= ln 2 / 2; exp(r) by a polynomial fitted to 3e-9; 2^n as two factors, since n
 * is in -150 .. 128. */
CPU_INLINE float cpu_exp(float x)
{
    const float to_integer = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float clamped = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
    float shifted = clamped * 0x1.715476p0f + to_integer;
    int32_t n = (int32_t)(cpu_bits(shifted) - cpu_bits(to_integer));
    float rounded = shifted - to_integer;
    float r = clamped - rounded * 0x1.62ep-1f; /* ln 2 in two parts; the product with the first is exact */
    r = r - rounded * 0x1.0bfbe8p-15f;
    float p = 0x1.6a2350p-10f;
    p = p * r + 0x1.123a6cp-7f;
    p = p * r + 0x1.5558f4p-5f;
    p = p * r + 0x1.555490p-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t half = n >> 1;
    return p * cpu_float((uint32_t)(half + 127) << 23) * cpu_float((uint32_t)(n - half + 127) << 23);
}

/* 1 / (1 + exp(-x)) and its complement, each to a few units in the last place. */
struct cpu_sigmoid {
    float value, complement;
};

CPU_INLINE struct cpu_sigmoid cpu_sigmoid(float x)
{
    float e = cpu_exp(x < 0.0f ? x : -x);
    float large = 1.0f / (1.0f + e), small = e * large;
    return x < 0.0f ? (struct cpu_sigmoid){small, large} : (struct cpu_sigmoid){large, small};
}

#endif
