#include "cuda/kernel.h"
#include "base/error.h"

#include <unistd.h>

/* The job scripts read the host from this message, and do not use it again (jobscripts/common.sh). */
void cuda_check(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    char host[256] = "?";
    gethostname(host, sizeof host - 1);
    error_fatal("CUDA on %s: %s: %s (%s)", host, what, cudaGetErrorString(status), cudaGetErrorName(status));
}
