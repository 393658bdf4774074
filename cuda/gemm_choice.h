/* Which of cuBLASLt's algorithms computes which product: found by timing, kept in a file that later runs on the same
 * kind of device read, and sent from rank 0 to the others so that all compute alike. */
#ifndef CUDA_GEMM_CHOICE_H
#define CUDA_GEMM_CHOICE_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

enum { GEMM_WORKSPACE = 64 << 20 /* bytes: NVIDIA's advice for Hopper is 32 MiB and more */ };

/* Whether it reads c or d is left out: the best algorithm is the same. No padding: compared and stored as bytes. */
struct gemm_key {
    int64_t m, n, k;
    int64_t stride_a, stride_b, stride_c, stride_d; /* elements */
    int32_t type_a, type_b, type_c, type_d;         /* enum dtype */
    int32_t transpose;                              /* 1: a, 2: b */
    int32_t bias;                                   /* 0 none, else 1 + its enum dtype */
    int32_t align_a, align_b, align_c, align_d;     /* bytes, powers of two */
};

bool gemm_choice_find(const struct gemm_key *key, cublasLtMatmulAlgo_t *algorithm);
void gemm_choice_keep(const struct gemm_key *key, const cublasLtMatmulAlgo_t *algorithm);

/* All that is kept, as bytes to store or send; owned here, valid until the next change. */
const void *gemm_choice_bytes(int64_t *bytes);
/* Replaces all by such bytes; what is not of this device and library is left out. False: they are none. */
bool gemm_choice_take(const void *from, int64_t bytes);

#endif
