#include "cuda/device.cuh"

/* What several streams add at the same time may reach the host in any order: it takes the largest. */
__global__ void progress(unsigned long long *counter, volatile unsigned long long *seen)
{
    *seen = atomicAdd(counter, 1ull) + 1;
    __threadfence_system();
}

void cuda_progress(cudaStream_t stream, uint64_t *counter, uint64_t *seen)
{
    progress<<<1, 1, 0, stream>>>(reinterpret_cast<unsigned long long *>(counter),
                                  reinterpret_cast<unsigned long long *>(seen));
    CUDA_CHECK_LAUNCH("progress");
}
