/* The GEMM of a weight gradient, by our own kernels (gemm_gradient.cu): d [m, n] = a' b, summed in f32 over the k rows
 * of bf16 a [k, m] and b [k, n], which are the tokens of a micro-batch. If d has few tiles, cuBLASLt leaves SMs idle or
 * uses small tiles, which move more bytes per operation; here clusters share the tiles that are left over. The order of
 * all sums depends only on the shape and the device. Clusters get their tiles at the start, so the kernels are
 * unsuitable when collectives use some of the SMs. */
#ifndef CUDA_GEMM_GRADIENT_H
#define CUDA_GEMM_GRADIENT_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/kernel.h"

/* Returns whether the kernels support the arguments: a device of sm_90a, m and n multiples of 256, an f32 d, and no
 * addend but d itself. */
bool cuda_gemm_gradient_fits(const struct gemm_args *args);
/* Returns the bytes of scratch. */
int64_t cuda_gemm_gradient_workspace(const struct cuda_target *target);
/* Computes the GEMM, without sum_a. The arguments must fit. */
void cuda_gemm_gradient(const struct cuda_target *target, const struct gemm_args *args);

/* For tests: clusters > 0 uses these kernels wherever they fit, with at most this number of clusters; 0 restores the
 * choice of the fastest. */
void cuda_gemm_gradient_force(int clusters);
bool cuda_gemm_gradient_forced(void);
/* Returns the number of GEMMs computed by these kernels. */
int64_t cuda_gemm_gradient_launches(void);

#ifdef __cplusplus
}
#endif

#endif
