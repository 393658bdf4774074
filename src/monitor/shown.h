/* What a run shows at a row: of the steps since the row before, and of all of it so far. NaN: not known. */
#ifndef MONITOR_SHOWN_H
#define MONITOR_SHOWN_H

#include "architecture/flops.h"
#include "monitor/nvml.h"

#include <stdbool.h>
#include <stdint.h>

/* A GPU, as the lowest of the ranks on it reads it. */
struct shown_gpu {
    int rank;
    const char *host; /* borrowed */
    struct nvml_reading reading;
};

struct shown_numbers {
    int64_t step, steps_total, steps; /* done, of the whole run, and since the row before */
    double loss;                      /* of the step, nats per label */
    double mean_loss;                 /* over the labels of the steps since the row before */
    double learning_rate, grad_norm;  /* of the step */
    int64_t outliers;                 /* of the gradient norm in the run so far */
    double seconds;                   /* of the steps, without validations and checkpoints */
    double data_wait;                 /* seconds of them in which rank 0 waited for data */
    double collectives;               /* seconds that ranks were in collectives, mean over them; NaN of one rank */
    double rate;                      /* tokens/s that are no padding, all ranks */
    double padded_rate;               /* positions/s that were computed, padding included, all ranks */
    double utilisation[FLOPS_CONVENTIONS];
    double memory;      /* peak resident set of rank 0, bytes */
    double device;      /* bytes in use on rank 0's GPU, by all that works there */
    double device_mean; /* the same over all ranks' GPUs */
    double device_max;
    double device_peak;           /* the largest device_max of this program's rows */
    int64_t tokens, samples;      /* that the run has learnt from so far: positions of rows, and rows */
    int64_t unpadded;             /* of these tokens, those that are no padding */
    double validation_loss;       /* the last one's */
    const struct shown_gpu *gpus; /* [gpu_count], as they were last read; borrowed */
    int gpu_count;
    bool gpus_read; /* anew for this row */
};

#endif
