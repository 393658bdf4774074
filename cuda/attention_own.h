/* The kernels of attention backward. */
#ifndef CUDA_ATTENTION_OWN_H
#define CUDA_ATTENTION_OWN_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/kernel.h"

/* Kernels: attention_backward.cu, and for bf16 on sm_90 attention_backward_*.cu. They support every shape and type, and
 * are deterministic. They accumulate only in f32 gradients.
 * once: uses the kernel that computes scores once (attention_backward_once.cu) if one supports the arguments. It needs
 * more scratch, and the order of its sums for dq varies. */
void cuda_own_attention_backward(const struct cuda_target *target, const struct attention_backward_args *args,
                                 bool once);
bool cuda_own_attention_backward_has_once(const struct attention_backward_args *args);
/* Returns whether the results of the `once` kernel do not depend on the order of blocks or on other segments: at most
 * two blocks add to a row of dq. (attention_backward_once.cu) */
bool cuda_own_attention_backward_once_repeats(const struct attention_backward_args *args);
/* For arguments with positions: returns whether the backward applies the inverse rope to dq and dk. Otherwise the
 * caller has to. */
bool cuda_own_attention_backward_turns(const struct attention_backward_args *args);
int64_t cuda_own_attention_backward_workspace(const struct cuda_target *target,
                                              const struct attention_backward_args *args, bool once);

/* Sets the scratch in bytes of the `once` kernel's sums, for tests: with less, more launches process the heads. */
void cuda_own_attention_limit_sums(int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
