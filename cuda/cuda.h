/* The CUDA executor: one GPU of one process. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "core/device.h"

/* GPUs that this process sees; 0 where there is no driver. */
int cuda_device_count(void);

/* What it was built with and finds: "CUDA 13.0, NCCL 2.28.9"; static. */
const char *cuda_versions(void);

/* An executor on that GPU, which becomes the process's current one; as core/device.h has it. Failures are fatal. Free
 * with class->destroy. */
struct executor *cuda_executor_create(int device, const struct device_request *request);

/* On the GPU of this rank's number in its node. Collective over request->world; prints where each rank is. ERROR_USER:
 * fewer GPUs than ranks, and not request->share. */
int cuda_executor_make(struct executor **executor, const struct device_request *request);

#endif
