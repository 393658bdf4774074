/* The CUDA executor: one GPU of one process. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "core/launch.h"

/* GPUs that this process sees; 0 where there is no driver. */
int cuda_device_count(void);

/* "NVIDIA H200, 139.8 GiB": owned by the caller, freed with free(). ERROR codes: NULL where the device is not there. */
char *cuda_device_describe(int device);

/* Free device memory in bytes. */
int64_t cuda_device_free(int device);

/* An executor on that GPU, which becomes the process's current one. deterministic: results depend on the arguments
 * alone. Failures are fatal. Free with class->destroy. */
struct executor *cuda_executor_create(int device, bool deterministic);

#endif
