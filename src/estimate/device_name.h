/* What computes, by name. */
#ifndef ESTIMATE_DEVICE_NAME_H
#define ESTIMATE_DEVICE_NAME_H

#include "core/executor.h"

/* "NVIDIA H200, cuBLASLt 130100", or the processor's model where the executor computes on the host; without any of
 * these the executor's name. Freed with free(). */
char *device_name(struct executor *executor);

#endif
