/* The CUDA executor: one GPU of one process. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "comm/placement.h"
#include "core/device.h"

/* GPUs that this process sees; 0 where there is no driver. */
int cuda_device_count(void);

/* The UUID of one of them. Failures are fatal. */
struct placement_id cuda_device_id(int device);

/* What it was built with and finds: "CUDA 13.0, NCCL 2.28.9"; static. */
const char *cuda_versions(void);

/* An executor on that GPU, which becomes the process's current one and which so many ranks of the node have; as
 * core/device.h has it. Failures are fatal. Free with class->destroy. */
struct executor *cuda_executor_create(int device, int sharing, const struct device_request *request);

/* On one of the GPUs that this rank sees: each rank of a node has its own, as far as there are enough
 * (comm/placement.h). Collective over request->world; prints where each rank is. ERROR_USER: two ranks would have the
 * same one, and not request->share. */
int cuda_executor_make(struct executor **executor, const struct device_request *request);

#endif
