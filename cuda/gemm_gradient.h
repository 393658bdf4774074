/* The product that makes a weight's gradient, by kernels of our own beside cuBLASLt's (gemm_gradient.cu): d [m, n] = a'
 * b, summed in f32 over k rows of bf16 a [k, m] and b [k, n], which are the tokens of a micro-batch. A d of few tiles
 * leaves cuBLASLt with multiprocessors that have none, or with small tiles, which move more bytes for each product;
 * here clusters share tiles that are left over. The order of all sums depends on the shape and the device alone.
 * Clusters have their tiles from the start: not for where collectives take multiprocessors from some of them. */
#ifndef CUDA_GEMM_GRADIENT_H
#define CUDA_GEMM_GRADIENT_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/kernel.h"

/* Can it be done here? On a device of sm_90a, with m and n multiples of 256, an f32 d, and nothing added but d itself.
 */
bool cuda_gemm_gradient_fits(const struct gemm_args *args);
/* Bytes of scratch. */
int64_t cuda_gemm_gradient_workspace(const struct cuda_target *target);
/* The product alone, without sum_a; it must fit. */
void cuda_gemm_gradient(const struct cuda_target *target, const struct gemm_args *args);

/* For tests: takes these kernels wherever they fit, instead of the fastest way, and lets so many clusters of blocks
 * work where the device has them; 0: the fastest again. */
void cuda_gemm_gradient_take(int clusters);
bool cuda_gemm_gradient_taken(void);
/* How many products they have made. */
int64_t cuda_gemm_gradient_launches(void);

#ifdef __cplusplus
}
#endif

#endif
