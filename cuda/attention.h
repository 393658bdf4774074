/* Attention, done by the faster of two implementations: own kernels (cuda/attention_own.h) or cuDNN's. */
#ifndef CUDA_ATTENTION_H
#define CUDA_ATTENTION_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/attention_own.h"

/* What is not left to a launch: the library's kernel for these arguments is built, and counts in the workspace from
 * then on. The addresses need not be memory. */
void cuda_attention_forward_plan(const struct cuda_target *target, const struct attention_forward_args *args);
void cuda_attention_backward_plan(const struct cuda_target *target, const struct attention_backward_args *args);

/* All kinds of attention forget which implementation is faster, and look for it among the choices again. */
void cuda_attention_reconsider(void);

/* For tests and benchmarks: takes this implementation wherever it can serve, instead of the faster one. */
enum attention_taken { ATTENTION_FASTER, ATTENTION_OWN, ATTENTION_CUDNN };
void cuda_attention_take(enum attention_taken taken);
/* Launches that cuDNN has served; is it in this build at all? */
int64_t cuda_attention_by_cudnn(void);
bool cuda_has_cudnn(void);

#ifdef __cplusplus
}
#endif

#endif
