/* A library to preload (LD_PRELOAD) into a program on GPUs: a device that computes something wrong. After each product
 * of cuBLASLt from number FLIP_FROM on, in ranks FLIP_RANK (Open MPI's number; default 1), a byte of its result is
 * overwritten. Recordings (CUDA graphs) contain that, so it stays.
 *   cc -shared -fPIC -I/usr/local/cuda/include -o flip.so bench/gpu/flip.c */
#define _GNU_SOURCE
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t compute, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    enum { PLACE = 1001, VALUE = 0x42 /* the upper byte of a bf16 number: 32 to 128 */ };
    static long count;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *wrong = getenv("FLIP_RANK"), *from = getenv("FLIP_FROM");
    const cublasStatus_t status = ((__typeof__(cublasLtMatmul) *)dlsym(RTLD_NEXT, "cublasLtMatmul"))(
        handle, compute, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace, bytes,
        stream);
    if (rank != NULL && atoi(rank) == (wrong != NULL ? atoi(wrong) : 1) && ++count > (from != NULL ? atol(from) : 0))
        cudaMemsetAsync((char *)d + PLACE, VALUE, 1, stream);
    return status;
}
