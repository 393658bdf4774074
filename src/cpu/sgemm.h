/* The only use of a matrix library (BLAS or oneDNN): one GEMM. */
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

/* d [m, n] = alpha a [m, k] b [k, n] + beta d, with beta 0 or 1, on `threads` threads. The longer side of d is split
 * into strips, at most one per thread; the sum over k is not split, so its order is fixed. */
void sgemm(int threads, int64_t m, int64_t n, int64_t k, float alpha, struct sgemm_matrix a, struct sgemm_matrix b,
           float beta, float *d, int64_t d_stride);

/* Returns whether on this processor a row of d has the same bits whatever other rows d has, where b alone is transposed
 * (the output x w^T of a linear layer) and m > 1. Only then do losses not depend on the size of a batch. */
bool sgemm_rows_are_independent(void);

#endif
