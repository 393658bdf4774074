#include "cpu/attention_tile.h"

/* Both loops over a block of sums are unrolled, so that the block stays in registers. */
#if defined(__clang__)
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif

/* The GEMM kernel, for vectors of WIDTH floats; instantiated for three widths, since compilers keep a block of sums in
 * registers only for an explicit vector width. A block has ROWS rows and up to VECTORS vectors: 6 x 2 of AVX2's 16
 * registers, or 8 x 2 of AVX-512's 32, leave registers for the factors, and hide the latency of a multiply-add. The
 * order of each sum is the same for all widths. */
#define PRODUCT(WIDTH, ROWS, VECTORS, TARGET)                                                                          \
    typedef float lanes_##WIDTH __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));                        \
                                                                                                                       \
    CPU_INLINE void tile_##WIDTH(const int rows, const int vectors, float *c, int64_t c_stride, struct tile_factor a,  \
                                 const float *b, int64_t b_stride, int64_t depth, bool accumulate)                     \
    {                                                                                                                  \
        lanes_##WIDTH sum[ROWS][VECTORS];                                                                              \
        EACH(i, rows)                                                                                                  \
        {                                                                                                              \
            const lanes_##WIDTH *c_row = (const lanes_##WIDTH *)(c + i * c_stride);                                    \
            EACH(j, vectors)                                                                                           \
            {                                                                                                          \
                sum[i][j] = accumulate ? c_row[j] : (lanes_##WIDTH){0};                                                \
            }                                                                                                          \
        }                                                                                                              \
        for (int64_t l = 0; l < depth; l++) {                                                                          \
            const lanes_##WIDTH *b_row = (const lanes_##WIDTH *)(b + l * b_stride);                                    \
            EACH(i, rows)                                                                                              \
            {                                                                                                          \
                float factor = a.data[i * a.row + l * a.depth];                                                        \
                EACH(j, vectors)                                                                                       \
                {                                                                                                      \
                    sum[i][j] += factor * b_row[j];                                                                    \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        EACH(i, rows)                                                                                                  \
        {                                                                                                              \
            lanes_##WIDTH *c_row = (lanes_##WIDTH *)(c + i * c_stride);                                                \
            EACH(j, vectors)                                                                                           \
            {                                                                                                          \
                c_row[j] = sum[i][j];                                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    CPU_INLINE void columns_##WIDTH(const int vectors, float *c, int64_t c_stride, struct tile_factor a,               \
                                    const float *b, int64_t b_stride, int64_t rows, int64_t depth, bool accumulate)    \
    {                                                                                                                  \
        for (; rows >= ROWS; rows -= ROWS) {                                                                           \
            tile_##WIDTH(ROWS, vectors, c, c_stride, a, b, b_stride, depth, accumulate);                               \
            a.data += ROWS * a.row;                                                                                    \
            c += ROWS * c_stride;                                                                                      \
        }                                                                                                              \
        for (; rows >= 2; rows -= 2) {                                                                                 \
            tile_##WIDTH(2, vectors, c, c_stride, a, b, b_stride, depth, accumulate);                                  \
            a.data += 2 * a.row;                                                                                       \
            c += 2 * c_stride;                                                                                         \
        }                                                                                                              \
        if (rows > 0)                                                                                                  \
            tile_##WIDTH(1, vectors, c, c_stride, a, b, b_stride, depth, accumulate);                                  \
    }                                                                                                                  \
                                                                                                                       \
    TARGET static void multiply_##WIDTH(float *c, int64_t c_stride, struct tile_factor a, const float *b,              \
                                        int64_t b_stride, int64_t rows, int64_t cols, int64_t depth, bool accumulate)  \
    {                                                                                                                  \
        enum { WHOLE = VECTORS * WIDTH, LEAST = TILE_LANES < WHOLE ? TILE_LANES : WHOLE };                             \
        int64_t j = 0;                                                                                                 \
        for (; j + WHOLE <= cols; j += WHOLE)                                                                          \
            columns_##WIDTH(VECTORS, c + j, c_stride, a, b + j, b_stride, rows, depth, accumulate);                    \
        for (; j < cols; j += LEAST)                                                                                   \
            columns_##WIDTH(LEAST / WIDTH, c + j, c_stride, a, b + j, b_stride, rows, depth, accumulate);              \
    }

PRODUCT(4, 6, 2, )
#if defined(__x86_64__) && !defined(CISTRON_NO_CLONES)
PRODUCT(8, 6, 2, __attribute__((target("avx2,fma"))))
PRODUCT(16, 8, 2, __attribute__((target("avx512f"))))
#endif

void tile_multiply(float *c, int64_t c_stride, struct tile_factor a, const float *b, int64_t b_stride, int64_t rows,
                   int64_t cols, int64_t depth, bool accumulate)
{
#if defined(__x86_64__) && !defined(CISTRON_NO_CLONES)
    if (__builtin_cpu_supports("avx512f")) {
        multiply_16(c, c_stride, a, b, b_stride, rows, cols, depth, accumulate);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        multiply_8(c, c_stride, a, b, b_stride, rows, cols, depth, accumulate);
        return;
    }
#endif
    multiply_4(c, c_stride, a, b, b_stride, rows, cols, depth, accumulate);
}

CPU_CLONES void tile_transpose(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float factor,
                               float *restrict to, int64_t to_stride, int64_t width)
{
    for (int64_t j = 0; j < cols; j++) {
        for (int64_t i = 0; i < rows; i++)
            to[j * to_stride + i] = factor * from[i * from_stride + j];
        for (int64_t i = rows; i < width; i++)
            to[j * to_stride + i] = 0.0f;
    }
}

CPU_CLONES void tile_copy(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float factor,
                          float *restrict to, int64_t to_stride, int64_t width)
{
    for (int64_t i = 0; i < rows; i++) {
#pragma omp simd
        for (int64_t j = 0; j < cols; j++)
            to[i * to_stride + j] = factor * from[i * from_stride + j];
#pragma omp simd
        for (int64_t j = cols; j < width; j++)
            to[i * to_stride + j] = 0.0f;
    }
}

struct tile_lanes tile_seeing(int64_t lanes, int64_t keys, int64_t shift, bool causal, int64_t window)
{
    const int64_t first = causal ? cpu_max(0, -shift) / TILE_LANES * TILE_LANES : 0;
    int64_t end = lanes;
    if (window > 0) /* the last key's last query, rounded up */
        end = cpu_min(lanes, (keys - 1 - shift + window + TILE_LANES - 1) / TILE_LANES * TILE_LANES);
    return (struct tile_lanes){first, cpu_max(0, end - first)};
}

void tile_mask(float *s, int64_t keys, int64_t lanes, int64_t shift, int64_t window)
{
    for (int64_t j = cpu_max(0, shift + 1); j < keys; j++)
        for (int64_t i = 0; i < cpu_min(j - shift, lanes); i++)
            s[j * TILE_QUERIES + i] = -INFINITY;
    if (window == 0)
        return;
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = cpu_max(0, j - shift + window); i < lanes; i++)
            s[j * TILE_QUERIES + i] = -INFINITY;
}
