/* The one call of a matrix library. */
#ifndef CPU_SGEMM_H
#define CPU_SGEMM_H

#include <stdbool.h>
#include <stdint.h>

/* A row-major f32 matrix, or its transpose. */
struct sgemm_matrix {
    const float *data;
    int64_t stride; /* elements from one stored row to the next */
    bool transpose;
};

/* d [m, n] = alpha a [m, k] b [k, n] + beta d, with beta 0 or 1, on `threads` threads: d is cut into strips of its
 * longer side, one for each, so the sum over k keeps its order. */
void sgemm(int threads, int64_t m, int64_t n, int64_t k, float alpha, struct sgemm_matrix a, struct sgemm_matrix b,
           float beta, float *d, int64_t d_stride);

#endif
