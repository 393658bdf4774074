/* The CUDA executor: one GPU of one process. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "comm/placement.h"
#include "core/device.h"

/* Returns the number of GPUs that this process sees; 0 without a driver. */
int cuda_device_count(void);

/* Returns the GPU's UUID. Failures are fatal. */
struct placement_id cuda_device_id(int device);

/* Returns the versions built with and found, such as "CUDA 13.0, NCCL 2.28.9"; a static string. */
const char *cuda_versions(void);

/* Makes an executor on GPU `device`, which becomes the process's current device (core/device.h). sharing: the number of
 * ranks of this node that use the GPU. Failures are fatal. Free it with class->destroy. */
struct executor *cuda_executor_create(int device, int sharing, const struct device_request *request);

/* Makes an executor on one of the GPUs that this rank sees. The ranks of a node get different GPUs as long as there are
 * enough (comm/placement.h). Collective over request->world; prints the placement of the ranks. ERROR_USER: two ranks
 * would use the same GPU, and request->share is false. */
int cuda_executor_make(struct executor **executor, const struct device_request *request);

#endif
