/* What is shown of each GPU, by the names that it has in log.jsonl, for TensorBoard and for Prometheus. */
#ifndef MONITOR_GPU_NUMBERS_H
#define MONITOR_GPU_NUMBERS_H

#include "monitor/shown.h"

#include <stddef.h>

enum { GPU_NUMBERS = 5 };

struct gpu_number {
    const char *key, *tag, *metric, *type, *help; /* of the log, TensorBoard; of Prometheus with type and help */
    size_t offset;                                /* in struct nvml_reading */
    enum { GPU_SUM, GPU_LEAST, GPU_MOST } shows;  /* of all GPUs together, for TensorBoard */
};
extern const struct gpu_number gpu_numbers[GPU_NUMBERS];

/* NaN: the driver does not tell. */
double gpu_number_of(const struct gpu_number *number, const struct shown_gpu *gpu);
/* Of all GPUs that are shown, of which there is one at least. */
double gpu_number_together(const struct gpu_number *number, const struct shown_numbers *shown);

#endif
