/* What the files of the CUDA executor share. Kernels and their launchers are CUDA C++ (.cu) and know core/op.h alone;
 * the executor, the matrix products and the collectives are C. */
#ifndef CUDA_KERNEL_H
#define CUDA_KERNEL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "core/choice.h"
#include "core/op.h"

#include <cuda_runtime_api.h>

enum { CUDA_WIDEST_HEAD = 128 /* of attention */ };

/* What launchers keep on the device from one launch to a later one of the same stream (cuda/attention_work.cu). */
enum { CUDA_KEPT = 1 << 20 };
struct cuda_kept {
    char *at;        /* CUDA_KEPT bytes: forward, then backward */
    int tiles[2][2]; /* rows of an item in the lists there: of forward and backward, by side */
};

/* Counters of a stream, which every kernel finds at 0 and leaves at 0. */
enum { CUDA_COUNTERS = 256 };

/* What a launcher needs of the executor. */
struct cuda_target {
    cudaStream_t stream;
    char *workspace; /* of this stream */
    int *counters;   /* of this stream, [CUDA_COUNTERS] */
    int multiprocessors;
    bool deterministic;
    bool alone;                /* one rank: no collective takes multiprocessors meanwhile */
    bool rehearsal;            /* as in struct executor: launchers may run a kernel several times, to time it */
    struct choice_share share; /* and which keys they do it for */
    void *blas;                /* cublasLtHandle_t */
    struct cuda_kept *kept;    /* of STREAM_COMPUTE; NULL: nothing is kept */
};

/* Fatal, naming what failed, unless status is success. */
void cuda_check(cudaError_t status, const char *what);
#define CUDA_CHECK(call) cuda_check((call), #call)
/* After a kernel's launch. */
#define CUDA_CHECK_LAUNCH(name) cuda_check(cudaGetLastError(), name)

/* Each launches one op of core/op.h; args is its args struct, read before the call returns. */
#define X(NAME, name) void cuda_##name(const struct cuda_target *target, const struct name##_args *args);
OP_DEVICE_TABLE(X)
#undef X

/* Ops that need scratch: cuda_NAME_workspace, beside cuda_NAME, says how many bytes. Of the target it reads
 * multiprocessors alone. */
#define CUDA_WORKSPACE_TABLE(X)                                                                                        \
    X(GEMM, gemm)                                                                                                      \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(RMSNORM_BACKWARD, rmsnorm_backward)                                                                              \
    X(LAYERNORM_BACKWARD, layernorm_backward)                                                                          \
    X(GELU_BACKWARD, gelu_backward)                                                                                    \
    X(ATTENTION_FORWARD, attention_forward)                                                                            \
    X(ATTENTION_BACKWARD, attention_backward)                                                                          \
    X(XENT_STAT, xent_stat)                                                                                            \
    X(XENT_BOTH, xent_both)                                                                                            \
    X(XENT_MERGE, xent_merge)                                                                                          \
    X(QUANTIZE, quantize)                                                                                              \
    X(QUANTIZATION_STATISTIC, quantization_statistic)                                                                  \
    X(SUM_SQUARES, sum_squares)

#define X(NAME, name) int64_t cuda_##name##_workspace(const struct cuda_target *target, const struct name##_args *args);
CUDA_WORKSPACE_TABLE(X)
#undef X

/* cuda_sum_squares where there is a unit, on so many blocks. (exact.cu) */
void cuda_sum_squares_exactly(const struct cuda_target *target, const struct sum_squares_args *args, int64_t blocks);

/* sum[c] (+)= sum over rows of x, f [T, C], in an order that depends on the shape alone: the bias gradient beside a
 * product. Scratch as cuda_column_sum_workspace says, aligned to 16 bytes. (column_sum.cu) */
void cuda_column_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, bool accumulate,
                     char *scratch);
int64_t cuda_column_sum_workspace(const struct cuda_target *target, struct tensor x);

/* The same over columns: sum[r] is that of row r of x. */
void cuda_row_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, bool accumulate);

/* factors[0] = scale_a * scale_b, NULL = 1; factors[1] = addend: those of a product and of what is added to it.
 * (product.cu) */
void cuda_product_factors(const struct cuda_target *target, const float *scale_a, const float *scale_b, float addend,
                          float *factors);
/* Adds an f32 bias to each row of an f32 d. */
void cuda_add_bias(const struct cuda_target *target, struct tensor bias, struct tensor d);

/* sum = the rows of parts, f [at least 2, n], added in f32 in their order; sum [1, n] shares nothing with them. */
void cuda_rank_sum(const struct cuda_target *target, struct tensor parts, struct tensor sum);

/* When the stream comes here, the device does ++*counter (in its memory) and stores the value in *seen (in host
 * memory). May be recorded. */
void cuda_progress(cudaStream_t stream, uint64_t *counter, uint64_t *seen);

/* Forgets the algorithm of each product; the next use looks among the choices again (cuda/choice.h). */
void cuda_gemm_reconsider(void);

#ifdef __cplusplus
}
#endif

#endif
