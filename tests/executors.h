/* Executors by name, for tests that run on several kinds. */
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

/* "cuda": the first GPU, deterministic, attention's backward in two passes; "mma": the same, attention by the products
 * of single warps that every GPU has; "gradients": the same, gradients of weights by our own products where they fit;
 * "once" and "cudnn": not deterministic, and attention is that of the own backward that computes scores once, or
 * cuDNN's, where it takes it; a test without a GPU, or a build without cuDNN, is skipped. Else the CPU's with so many
 * threads. */
static inline struct executor *executor_named(const char *name)
{
    const bool cudnn = strcmp(name, "cudnn") == 0, once = strcmp(name, "once") == 0, mma = strcmp(name, "mma") == 0;
    const bool gradients = strcmp(name, "gradients") == 0;
    if (!cudnn && !once && !mma && !gradients && strcmp(name, "cuda") != 0) {
        if (atoi(name) < 1)
            check_unknown_argument(name, "a number of threads, cuda, mma, gradients, once or cudnn");
        return cpu_executor_create(atoi(name));
    }
#ifdef CISTRON_CUDA
    if (cuda_device_count() > 0 && (!cudnn || cuda_has_cudnn())) {
        cuda_attention_take(cudnn ? ATTENTION_CUDNN : once ? ATTENTION_ONCE : ATTENTION_OWN);
        cuda_own_attention_by_warpgroups(!mma);
        cuda_gemm_gradient_take(gradients ? INT_MAX : 0);
        return cuda_executor_create(0, 1, &(struct device_request){.deterministic = !cudnn && !once});
    }
#endif
    printf("skipped: no GPU here%s\n", cudnn ? ", or no cuDNN" : "");
    exit(CHECK_SKIP);
}

/* How many products "gradients" has made by itself; from now on by so many clusters of blocks. */
static inline int64_t executor_gradients(int clusters)
{
#ifdef CISTRON_CUDA
    cuda_gemm_gradient_take(clusters);
    return cuda_gemm_gradient_launches();
#else
    (void)clusters;
    return 0;
#endif
}

/* From now on attention of any executor here is as a training has it. */
static inline void executor_attention_as_trained(void)
{
#ifdef CISTRON_CUDA
    cuda_attention_take(ATTENTION_FASTEST);
#endif
}

/* Launches of attention that what "once" or "cudnn" name has served. */
static inline int64_t executor_launches(bool cudnn)
{
#ifdef CISTRON_CUDA
    return cuda_attention_launches(cudnn ? ATTENTION_CUDNN : ATTENTION_ONCE);
#else
    (void)cudnn;
    return 0;
#endif
}

#endif
