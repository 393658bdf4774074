/* Attention, done by the fastest of several implementations: own kernels (cuda/attention_own.h) or cuDNN's. */
#ifndef CUDA_ATTENTION_H
#define CUDA_ATTENTION_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/attention_own.h"

/* Before any launch: builds the library's kernel for these arguments; the workspace functions count its scratch from
 * then on. Addresses are not touched. */
void cuda_attention_forward_plan(const struct cuda_target *target, const struct attention_forward_args *args);
void cuda_attention_backward_plan(const struct cuda_target *target, const struct attention_backward_args *args);

/* Forgets which implementation is fastest for each shape; its next use reads the tuned kernels again. */
void cuda_attention_reconsider(void);

/* For tests and benchmarks: uses this implementation wherever it supports the shape, instead of the fastest one. ONCE:
 * own kernels, with the backward that computes scores once. */
enum attention_taken { ATTENTION_FASTEST, ATTENTION_OWN, ATTENTION_ONCE, ATTENTION_CUDNN };
void cuda_attention_take(enum attention_taken taken);
/* Returns the number of launches of this implementation; OWN is not counted. */
int64_t cuda_attention_launches(enum attention_taken implementation);
/* Whether it is in this build. */
bool cuda_has_cudnn(void);

#ifdef __cplusplus
}
#endif

#endif
