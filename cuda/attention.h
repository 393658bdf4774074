/* Attention backward by the fastest of its kernels (cuda/attention_own.h). */
#ifndef CUDA_ATTENTION_H
#define CUDA_ATTENTION_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/attention_own.h"

/* Before any launch: from then on cuda_attention_backward_workspace counts the scratch of all kernels that may be
 * chosen for these arguments. Addresses are not touched. */
void cuda_attention_backward_plan(const struct cuda_target *target, const struct attention_backward_args *args);

/* Forgets which implementation is fastest for each shape; its next use reads the tuned kernels again. */
void cuda_attention_reconsider(void);

/* For tests and benchmarks: uses two passes (OWN), or computes scores once where the arguments allow it, instead of the
 * faster way. */
enum attention_taken { ATTENTION_FASTEST, ATTENTION_OWN, ATTENTION_ONCE };
void cuda_attention_take(enum attention_taken taken);
/* Returns the number of backwards so far that computed scores once. */
int64_t cuda_attention_launches(void);

#ifdef __cplusplus
}
#endif

#endif
