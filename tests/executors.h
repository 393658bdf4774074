/* Makes executors by name, for tests that run on several kinds. */
#ifndef TESTS_EXECUTORS_H
#define TESTS_EXECUTORS_H

#include "check.h"

#include "cpu/cpu.h"
#ifdef CISTRON_CUDA
#include "cuda/attention.h"
#include "cuda/cuda.h"
#include "cuda/gemm_gradient.h"
#endif

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes the executor of a name; skips the test if there is no GPU.
 *
 *   NUMBER     the CPU, with this number of threads
 *   cuda       the first GPU, deterministic, attention with the two-pass backward
 *   mma        as cuda, attention and experts with warp-level mma.sync, which all GPUs have
 *   gradients  as cuda, weight gradients by our own GEMM where it fits
 *   once       not deterministic, attention with the one-pass backward where possible */
static inline struct executor *executor_named(const char *name)
{
    const bool once = strcmp(name, "once") == 0, mma = strcmp(name, "mma") == 0;
    const bool gradients = strcmp(name, "gradients") == 0;
    if (!once && !mma && !gradients && strcmp(name, "cuda") != 0) {
        if (atoi(name) < 1)
            check_unknown_argument(name, "a number of threads, cuda, mma, gradients or once");
        return cpu_executor_create(atoi(name));
    }
#ifdef CISTRON_CUDA
    if (cuda_device_count() > 0) {
        cuda_attention_take(once ? ATTENTION_ONCE : ATTENTION_OWN);
        cuda_warpgroups_allow(!mma);
        cuda_gemm_gradient_force(gradients ? INT_MAX : 0);
        return cuda_executor_create(0, 1, &(struct device_request){.deterministic = !once});
    }
#endif
    printf("skipped: no GPU here\n");
    exit(CHECK_SKIP);
}

/* Returns the number of GEMMs that "gradients" has run with our own kernel; later ones use `clusters` clusters of
 * blocks. */
static inline int64_t executor_gradients(int clusters)
{
#ifdef CISTRON_CUDA
    cuda_gemm_gradient_force(clusters);
    return cuda_gemm_gradient_launches();
#else
    (void)clusters;
    return 0;
#endif
}

/* Sets the scratch for sums of the one-pass attention backward: 1 byte makes it process each kv head alone. */
static inline void executor_limit_attention_sums(int64_t bytes)
{
#ifdef CISTRON_CUDA
    cuda_own_attention_limit_sums(bytes);
#else
    (void)bytes;
#endif
}

/* Sets attention of all executors to the training's choice from now on. */
static inline void executor_attention_as_trained(void)
{
#ifdef CISTRON_CUDA
    cuda_attention_take(ATTENTION_FASTEST);
#endif
}

/* Returns the number of attention backwards so far that computed scores once. */
static inline int64_t executor_launches(void)
{
#ifdef CISTRON_CUDA
    return cuda_attention_launches();
#else
    return 0;
#endif
}

#endif
