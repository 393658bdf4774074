/* Known faults of NCCL versions. Plain C, so that tests/t_nccl_versions.c checks the ranges without NCCL. */
#ifndef CUDA_NCCL_VERSIONS_H
#define CUDA_NCCL_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Versions in NCCL's numbering: 22809 is 2.28.9. */
enum {
    NCCL_COPIES = 22800,          /* first with collectives by copy engines */
    NCCL_MULTICAST_HANGS = 22804, /* first whose copy-engine collectives of two ranks may hang with NVLS on */
    NCCL_MULTICAST_RUNS = 23102,  /* first with that fault fixed (NVIDIA/nccl issue 2241) */
};

/* How a run uses NCCL. */
struct nccl_use {
    bool copies;       /* gathers and sums by copy engines */
    bool disable_nvls; /* set NCCL_NVLS_ENABLE=0 */
};

/* Returns how to use NCCL. nvls and windows: NCCL_NVLS_ENABLE and NCCL_WIN_ENABLE of the environment, NULL if unset.
 * The user's settings win: with NVLS demanded, a version that may hang does not use copies. */
static inline struct nccl_use nccl_use_of(int version, const char *nvls, const char *windows)
{
    const bool hangs = version >= NCCL_MULTICAST_HANGS && version < NCCL_MULTICAST_RUNS;
    const bool wanted = version >= NCCL_COPIES && (windows == NULL || strcmp(windows, "0") != 0);
    const bool demanded = nvls != NULL && strcmp(nvls, "0") != 0;
    return (struct nccl_use){.copies = wanted && !(hangs && demanded), .disable_nvls = wanted && hangs && nvls == NULL};
}

#endif
