/* Declarations that the files of the CUDA executor share. Kernels and their launchers are CUDA C++ (.cu) and know only
 * core/op.h; the executor, the GEMMs and the collectives are C. */
#ifndef CUDA_KERNEL_H
#define CUDA_KERNEL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "core/tuned_kernels.h"
#include "core/op.h"

#include <cuda_runtime_api.h>

enum { CUDA_WIDEST_HEAD = 128 /* of attention heads */ };

/* Allows or forbids kernels with wgmma where the device supports them (allowed by default; for tests). (warpgroup.cu) */
void cuda_warpgroups_allow(bool allowed);

/* Device memory in which launchers keep data for later launches of the same stream: attention's work lists
 * (cuda/attention_work.cu). */
enum { CUDA_KEPT = 1 << 20 };
struct cuda_kept {
    char *at;        /* [CUDA_KEPT] bytes: forward, then backward */
    int tiles[2][2]; /* [forward, backward][side]: rows of an item in the kept lists */
};

/* Number of counters per stream. Every kernel finds them at 0 and leaves them at 0. */
enum { CUDA_COUNTERS = 256 };

/* The parts of the executor that a launcher needs. */
struct cuda_target {
    cudaStream_t stream;
    char *workspace; /* scratch of this stream */
    int *counters;   /* [CUDA_COUNTERS], of this stream */
    int multiprocessors;
    bool deterministic;
    bool alone;                /* one rank: no collective uses SMs concurrently */
    bool tuning_pass;          /* as in struct executor: launchers may run a kernel several times to time it */
    struct tuning_share share; /* the keys that this rank times */
    void *blas;                /* cublasLtHandle_t */
    struct cuda_kept *kept;    /* kept data of STREAM_COMPUTE; NULL: nothing is kept */
};

/* Fatal unless status is success; the message names `what`. */
void cuda_check(cudaError_t status, const char *what);
#define CUDA_CHECK(call) cuda_check((call), #call)
/* Checks a kernel's launch. */
#define CUDA_CHECK_LAUNCH(name) cuda_check(cudaGetLastError(), name)

/* cuda_NAME launches op NAME of core/op.h. args is read before the call returns. */
#define X(NAME, name) void cuda_##name(const struct cuda_target *target, const struct name##_args *args);
OP_DEVICE_TABLE(X)
#undef X

/* Ops that need scratch. cuda_NAME_workspace returns the bytes that cuda_NAME needs; it reads only
 * target->multiprocessors. */
#define CUDA_WORKSPACE_TABLE(X)                                                                                        \
    X(GEMM, gemm)                                                                                                      \
    X(EMBEDDING_BACKWARD, embedding_backward)                                                                          \
    X(RMSNORM_BACKWARD, rmsnorm_backward)                                                                              \
    X(LAYERNORM_BACKWARD, layernorm_backward)                                                                          \
    X(HEAD_NORM_BACKWARD, head_norm_backward)                                                                          \
    X(EXPERT_ORDER, expert_order)                                                                                      \
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

/* cuda_sum_squares for args->quantum > 0 (exact sums, core/op.h), on `blocks` thread blocks. (exact.cu) */
void cuda_sum_squares_exactly(const struct cuda_target *target, const struct sum_squares_args *args, int64_t blocks);

/* sum[c] (+)= sum over rows of x, f [T, C], for the bias gradient of a GEMM; (+)= adds if `accumulate`, otherwise
 * assigns. The order of sums depends only on the shape. scratch: cuda_column_sum_workspace bytes, aligned to 16.
 * (column_sum.cu) */
void cuda_column_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, bool accumulate,
                     char *scratch);
int64_t cuda_column_sum_workspace(const struct cuda_target *target, struct tensor x);

/* sum[r] (+)= sum of the elements of row r of x. */
void cuda_row_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, bool accumulate);

/* Writes a GEMM's factors on the device: factors[0] = scale_a * scale_b (NULL = 1), of the matrix product, and
 * factors[1] = addend, of the matrix added. (product.cu) */
void cuda_product_factors(const struct cuda_target *target, const float *scale_a, const float *scale_b, float addend,
                          float *factors);
/* Adds an f32 bias to each row of an f32 d. */
void cuda_add_bias(const struct cuda_target *target, struct tensor bias, struct tensor d);

/* sum [1, n] = sum over the rows of parts, f [at least 2, n], added in f32 in row order, with `own` [1, n] in place of
 * row `rank`, which is not read. sum may be own. */
void cuda_rank_sum(const struct cuda_target *target, struct tensor parts, int rank, struct tensor own,
                   struct tensor sum);

/* When the stream reaches this point, the device increments *counter (device memory) and stores its value in *seen
 * (host memory). It can be captured in a CUDA graph. */
void cuda_progress(cudaStream_t stream, uint64_t *counter, uint64_t *seen);

/* Forgets the algorithm of each GEMM; its next use reads the tuned kernels again (cuda/tuned_kernels.h). */
void cuda_gemm_reconsider(void);

#ifdef __cplusplus
}
#endif

#endif
