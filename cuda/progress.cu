#include "cuda/device.cuh"

/* If several streams increment a counter concurrently, values may reach the host out of order; the host uses the
 * largest. */
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
