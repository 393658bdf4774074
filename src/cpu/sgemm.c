#include "cpu/sgemm.h"
#include "cpu/kernel.h"

#include "base/error.h"
#include "base/memory.h"

#include <omp.h>
#include <string.h>

#if defined(CISTRON_GEMM_DNNL)
#include <oneapi/dnnl/dnnl.h>
#elif defined(CISTRON_GEMM_CBLAS)
#include <cblas.h>
#else
#error "configure chooses a library for matrix products: CISTRON_GEMM_DNNL or CISTRON_GEMM_CBLAS"
#endif

#if defined(CISTRON_GEMM_DNNL)

static void multiply(int64_t m, int64_t n, int64_t k, float alpha, struct sgemm_matrix a, struct sgemm_matrix b,
                     float beta, float *d, int64_t d_stride)
{
    dnnl_status_t status = dnnl_sgemm(a.transpose ? 'T' : 'N', b.transpose ? 'T' : 'N', m, n, k, alpha, a.data,
                                      a.stride, b.data, b.stride, beta, d, d_stride);
    if (status != dnnl_success)
        error_fatal("dnnl_sgemm failed with status %d for m %lld, n %lld, k %lld", (int)status, (long long)m,
                    (long long)n, (long long)k);
}

/* oneDNN's kernels for AVX and AVX2 (measured with 2.6) round a row of d alike wherever it lies only within whole tiles
 * of TILE rows, and only among at most 256 rows: for more they have another algorithm. Its kernels for AVX-512 were not
 * measured. */
bool sgemm_rows_are_independent(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return isa == dnnl_cpu_isa_avx || isa == dnnl_cpu_isa_avx2 || isa == dnnl_cpu_isa_avx2_vnni;
}

#else

bool sgemm_rows_are_independent(void)
{
    return false;
}

/* The library counts rows, columns and strides in 32 bits. */
static int checked(int64_t size)
{
    if (size > INT32_MAX)
        error_fatal("cblas_sgemm: a matrix of %lld rows or columns: at most %d", (long long)size, INT32_MAX);
    return (int)size;
}

static void multiply(int64_t m, int64_t n, int64_t k, float alpha, struct sgemm_matrix a, struct sgemm_matrix b,
                     float beta, float *d, int64_t d_stride)
{
    cblas_sgemm(CblasRowMajor, a.transpose ? CblasTrans : CblasNoTrans, b.transpose ? CblasTrans : CblasNoTrans,
                checked(m), checked(n), checked(k), alpha, a.data, checked(a.stride), b.data, checked(b.stride), beta,
                d, checked(d_stride));
}

#endif

enum {
    TILE = 12, /* rows */
    STRIP = 16 /* rows or columns; a multiple of it splits few register tiles of any library */
};

/* As multiply(), for matrices that are stored row after row (b: column after column), in blocks that fit the library's
 * algorithm for few rows. The last m % TILE rows become a tile of their own, filled with zeros: at most TILE - 1 rows
 * more are computed. */
static void multiply_tiles(int64_t m, int64_t n, int64_t k, float alpha, struct sgemm_matrix a, struct sgemm_matrix b,
                           float beta, float *d, int64_t d_stride)
{
    enum { ROWS = 10 * TILE, COLUMNS = 256 };
    int64_t rest = m % TILE, whole = m - rest;
    for (int64_t col = 0, width; col < n; col += width) {
        width = n - col < COLUMNS + STRIP ? n - col : COLUMNS;
        for (int64_t row = 0; row < whole; row += ROWS) {
            struct sgemm_matrix rows = a, columns = b;
            rows.data += row * a.stride;
            columns.data += col * b.stride;
            multiply(cpu_min(ROWS, whole - row), width, k, alpha, rows, columns, beta, d + row * d_stride + col,
                     d_stride);
        }
    }
    if (rest == 0)
        return;

    float *tile = memory_allocate(TILE * (k + n) * sizeof *tile), *d_tile = tile + TILE * k;
    for (int64_t i = 0; i < rest; i++) {
        memcpy(tile + i * k, a.data + (whole + i) * a.stride, k * sizeof *tile);
        memcpy(d_tile + i * n, d + (whole + i) * d_stride, n * sizeof *tile);
    }
    multiply_tiles(TILE, n, k, alpha, (struct sgemm_matrix){.data = tile, .stride = k}, b, beta, d_tile, n);
    for (int64_t i = 0; i < rest; i++)
        memcpy(d + (whole + i) * d_stride, d_tile + i * n, n * sizeof *tile);
    memory_free(tile);
}

#if defined(CISTRON_GEMM_CBLAS) && defined(__GNUC__)
/* OpenBLAS may have its own threads; other CBLAS libraries lack these functions. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

static void keep_library_single(void)
{
    if (openblas_set_num_threads != NULL && openblas_get_num_threads != NULL && openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
}
#else
static void keep_library_single(void)
{
}
#endif

void sgemm(int threads, int64_t m, int64_t n, int64_t k, float alpha, struct sgemm_matrix a, struct sgemm_matrix b,
           float beta, float *d, int64_t d_stride)
{
    int before = omp_get_max_threads(); /* a library that uses OpenMP reads this number, outside parallel regions too */
    omp_set_num_threads(1);
    keep_library_single();
    bool by_rows = m >= n, in_tiles = m > 1 && b.transpose && !a.transpose && sgemm_rows_are_independent();
    void (*multiply_strip)(int64_t, int64_t, int64_t, float, struct sgemm_matrix, struct sgemm_matrix, float, float *,
                           int64_t) = in_tiles ? multiply_tiles : multiply;
    int64_t length = by_rows ? m : n, strip = by_rows && in_tiles ? TILE : STRIP;
    int64_t whole = length - length % strip; /* the last strip has the rest: a column alone is rounded differently */
    int parts = (int)cpu_min(threads, whole / strip);
    if (parts <= 1) {
        multiply_strip(m, n, k, alpha, a, b, beta, d, d_stride);
    } else {
#pragma omp parallel for num_threads(parts) schedule(static)
        for (int i = 0; i < parts; i++) {
            int64_t first = cpu_part(whole, parts, i, strip);
            int64_t count = (i + 1 < parts ? cpu_part(whole, parts, i + 1, strip) : length) - first;
            struct sgemm_matrix a_strip = a, b_strip = b;
            if (by_rows) {
                a_strip.data += a.transpose ? first : first * a.stride;
                multiply_strip(count, n, k, alpha, a_strip, b, beta, d + first * d_stride, d_stride);
            } else {
                b_strip.data += b.transpose ? first * b.stride : first;
                multiply_strip(m, count, k, alpha, a, b_strip, beta, d + first, d_stride);
            }
        }
    }
    omp_set_num_threads(before);
}
