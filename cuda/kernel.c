#include "cuda/kernel.h"
#include "base/error.h"

void cuda_check(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    error_fatal("CUDA: %s: %s (%s)", what, cudaGetErrorString(status), cudaGetErrorName(status));
}
