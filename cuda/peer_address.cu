/* The addresses at which a rank reaches the memory of the other ranks of its node: NCCL tells a kernel. */
#include "cuda/kernel.h"
#include "cuda/peer_copies.h"

#if NCCL_VERSION_CODE >= 22800

#include <nccl_device.h>

__global__ void find_addresses(ncclWindow_t window, int size, char **addresses)
{
    for (int rank = threadIdx.x; rank < size; rank += blockDim.x)
        addresses[rank] = static_cast<char *>(ncclGetLsaPointer(window, 0, rank));
}

bool peer_addresses(ncclComm_t nccl, void *window, int size, char **addresses)
{
    /* Without mapped memory (NCCL_WIN_ENABLE=0, NCCL_CUMEM_ENABLE=0, no peer access), NCCL 2.28 may return a handle of
     * its own in host memory instead of a window. */
    cudaPointerAttributes attributes;
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, window));
    if (attributes.type != cudaMemoryTypeDevice || ncclTeamLsa(nccl).nRanks != size)
        return false;
    char **found;
    CUDA_CHECK(cudaMalloc(&found, size * sizeof *found));
    find_addresses<<<1, 32>>>(static_cast<ncclWindow_t>(window), size, found);
    CUDA_CHECK_LAUNCH("find_addresses");
    CUDA_CHECK(cudaMemcpy(addresses, found, size * sizeof *found, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(found));
    return true;
}

#else

bool peer_addresses(ncclComm_t, void *, int, char **)
{
    return false;
}

#endif
