/* Attention by cuDNN, through its front end: builds and runs a kernel for one shape. No other file uses the library. */
#ifndef CUDA_CUDNN_ATTENTION_H
#define CUDA_CUDNN_ATTENTION_H

#ifdef __cplusplus
extern "C" {
#endif

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* How segments lie in rows. Packed ones anywhere; that of slot s of regular ones begins at row s * longest; full ones
 * are regular, with `longest` rows each: the library need not be told of lengths, and is faster. */
enum attention_layout { ATTENTION_PACKED, ATTENTION_REGULAR, ATTENTION_FULL };

/* What the library's kernel depends on, for bf16 segments whose keys are where their queries are. Compared and stored
 * as bytes: no padding. */
struct attention_key {
    int64_t rows, slots, longest;                   /* no segment has more rows than `longest` */
    int64_t stride_q, stride_k, stride_v, stride_o; /* elements; gradients have those of what they belong to */
    float scale;
    int32_t heads, kv_heads, head_dim;
    int32_t causal, layout, backward; /* enum attention_layout */
    int32_t turned;                   /* the library does not turn gradients back, which is timed with it */
};

/* Addresses on the device, aligned to 16 bytes. */
struct cudnn_attention_addresses {
    void *q, *k, *v, *o;
    void *d_o, *dq, *dk, *dv; /* of the backward */
    /* the log-sum-exp of tokens by heads; of regular and full segments [slot][head][row in the slot] */
    float *statistics; /* written by the forward, read by the backward */
    int32_t *lengths;  /* [slots]; not of full segments */
    int64_t *q_start, *k_start, *v_start, *o_start, *statistics_start; /* elements [slots + 1]; of packed segments */
    void *workspace;
};

struct cudnn_attention;

#ifdef CISTRON_CUDNN
/* Builds the library's kernel for a key, in 0.05 to 1 s; it lives as long as the process. NULL, with the reason in
 * `why`: there is none whose workspace is at most so many bytes. */
struct cudnn_attention *cudnn_attention_build(const struct attention_key *key, int64_t most_workspace, char *why,
                                              size_t why_bytes);
int64_t cudnn_attention_workspace(const struct cudnn_attention *attention);
/* May be captured in a CUDA graph. Fatal on failure. */
void cudnn_attention_run(const struct cudnn_attention *attention, cudaStream_t stream,
                         const struct cudnn_attention_addresses *at);
/* As 91900 for 9.19.0; 0: not in this build. */
int64_t cudnn_attention_version(void);
#else
static inline struct cudnn_attention *cudnn_attention_build(const struct attention_key *key, int64_t most_workspace,
                                                            char *why, size_t why_bytes)
{
    (void)key, (void)most_workspace, (void)why, (void)why_bytes;
    return NULL;
}
static inline int64_t cudnn_attention_workspace(const struct cudnn_attention *attention)
{
    (void)attention;
    return 0;
}
static inline void cudnn_attention_run(const struct cudnn_attention *attention, cudaStream_t stream,
                                       const struct cudnn_attention_addresses *at)
{
    (void)attention, (void)stream, (void)at;
}
static inline int64_t cudnn_attention_version(void)
{
    return 0;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
