#include "cuda/warpgroup.cuh"
#include "cuda/kernel.h"

enum { MARK = 8192 };

/* Uses MARK bytes of shared memory if compiled for devices with wgmma, which shows what code the device runs. */
__global__ static void has_warpgroups(int *never)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ volatile char mark[MARK];
    mark[threadIdx.x] = 0;
    if (never != nullptr)
        *never = mark[blockDim.x - 1 - threadIdx.x];
#endif
}

static bool are_allowed = true;

void cuda_warpgroups_allow(bool allowed)
{
    are_allowed = allowed;
}

bool warpgroups_run()
{
    static const bool run = [] {
        struct cudaFuncAttributes attributes;
        CUDA_CHECK(cudaFuncGetAttributes(&attributes, has_warpgroups));
        return attributes.sharedSizeBytes >= MARK;
    }();
    return run && are_allowed;
}
