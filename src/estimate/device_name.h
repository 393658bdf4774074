/* The name of the device that an executor computes on. */
#ifndef ESTIMATE_DEVICE_NAME_H
#define ESTIMATE_DEVICE_NAME_H

#include "core/executor.h"

/* Returns a name such as "NVIDIA H200, cuBLASLt 130100", or the processor's model if the executor computes on the host;
 * if neither is known, the executor's name. Freed with free(). */
char *device_name(struct executor *executor);

#endif
