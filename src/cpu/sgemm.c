#include "cpu/sgemm.h"
#include "cpu/kernel.h"

#include "base/error.h"

#include <omp.h>

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

#else

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
    enum { STRIP = 16 };                /* rows or columns; a multiple of it splits few register tiles of any library */
    int before = omp_get_max_threads(); /* a library that uses OpenMP reads this number, outside parallel regions too */
    omp_set_num_threads(1);
    keep_library_single();
    bool by_rows = m >= n;
    int64_t length = by_rows ? m : n;
    int parts = (int)cpu_min(threads, (length + STRIP - 1) / STRIP);
    if (parts <= 1) {
        multiply(m, n, k, alpha, a, b, beta, d, d_stride);
    } else {
#pragma omp parallel for num_threads(parts) schedule(static)
        for (int i = 0; i < parts; i++) {
            int64_t first = cpu_part(length, parts, i, STRIP), count = cpu_part(length, parts, i + 1, STRIP) - first;
            struct sgemm_matrix a_strip = a, b_strip = b;
            if (by_rows) {
                a_strip.data += a.transpose ? first : first * a.stride;
                multiply(count, n, k, alpha, a_strip, b, beta, d + first * d_stride, d_stride);
            } else {
                b_strip.data += b.transpose ? first * b.stride : first;
                multiply(m, count, k, alpha, a, b_strip, beta, d + first, d_stride);
            }
        }
    }
    omp_set_num_threads(before);
}
