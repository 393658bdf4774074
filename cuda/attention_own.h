/* Attention by own kernels. */
#ifndef CUDA_ATTENTION_OWN_H
#define CUDA_ATTENTION_OWN_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/kernel.h"

/* Own kernels (attention_forward.cu, attention_backward.cu, and of bf16 on sm_90 attention_*_warpgroup.cu): every shape
 * and type, deterministic. They add to gradients in f32 alone.
 * `once`: by a kernel that computes scores once (attention_backward_once.cu) where there is one. It has more scratch,
 * and sums dq in any order. */
void cuda_own_attention_forward(const struct cuda_target *target, const struct attention_forward_args *args);
void cuda_own_attention_backward(const struct cuda_target *target, const struct attention_backward_args *args,
                                 bool once);
bool cuda_own_attention_backward_has_once(const struct attention_backward_args *args);
/* Whether that one's results are the same in whatever order blocks come, and whatever other segments there are: no more
 * than two blocks add to a row of dq. (attention_backward_once.cu) */
bool cuda_own_attention_backward_once_repeats(const struct attention_backward_args *args);
/* Of arguments with positions: whether the backward turns dq and dk back itself. If not, that is left to do. */
bool cuda_own_attention_backward_turns(const struct attention_backward_args *args);
int64_t cuda_own_attention_forward_workspace(const struct cuda_target *target,
                                             const struct attention_forward_args *args);
int64_t cuda_own_attention_backward_workspace(const struct cuda_target *target,
                                              const struct attention_backward_args *args, bool once);

/* Whether own kernels may use the products of warpgroups where the device has them (on; for tests). */
void cuda_own_attention_by_warpgroups(bool taken);

#ifdef __cplusplus
}
#endif

#endif
