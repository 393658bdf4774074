/* The metrics of a run: each has one row with its name, unit and meaning in log.jsonl, TensorBoard, the file for
 * Prometheus and the table on standard output. All sinks iterate over these rows, and report/history.h reads a log by
 * them. A new metric therefore needs a member of struct run_numbers, a row, the line that computes it (meter.c), and
 * its line in doc/formats_logs.md, which t_metrics compares with the rows. */
#ifndef MONITOR_METRICS_H
#define MONITOR_METRICS_H

#include "architecture/flops.h"
#include "monitor/nvml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- Numbers ----------------------------------------------------------------------------------------------------- */

/* The numbers at a row of the table. NaN: not known. All members are double, so that an offset can name a metric. */
struct run_numbers {
    double step, steps_total, steps;    /* steps done, steps of the whole run, steps since the previous row */
    double loss;                        /* loss of the step, nats per label */
    double mean_loss, perplexity;       /* mean over the labels since the previous row, and its exponential */
    double learning_rate, grad_norm;    /* of the step */
    double outliers;                    /* outliers of the gradient norm in the run so far */
    double tokens, samples;             /* trained on so far: tokens with padding, and rows */
    double unpadded;                    /* tokens without padding */
    double rate, padded_rate;           /* tokens/s without padding, and with padding; over all ranks */
    double rank_rate, padded_rank_rate; /* the two rates divided by the number of ranks */
    /* Seconds since the previous row, without validations and checkpoints, and their mean per step. */
    double seconds, step_seconds;
    double data_wait, data_wait_ratio; /* seconds in which rank 0 waited for data, their share */
    /* Seconds in collectives, mean over ranks, and their share of `seconds`; NaN with one rank. */
    double collectives, collectives_ratio;
    double memory;                                /* peak resident set size of rank 0, bytes */
    double device_memory;                         /* bytes in use on rank 0's GPU, by all programs */
    double device_memory_mean, device_memory_max; /* mean and maximum over the GPUs of all ranks */
    double device_memory_peak;                    /* largest device_memory_max of this program's rows */
    double utilisation[FLOPS_CONVENTIONS];        /* fraction of device.peak */
    double validation_loss;                       /* loss of the last validation */
    double effective_time; /* share of the time since the first start that became steps that count */
    double seconds_left;   /* estimated, to the end of the run */
    double time;           /* Unix seconds */
};

/* A reading of a GPU. If several ranks use it, the lowest one reads it. */
struct shown_gpu {
    int rank;
    const char *host; /* borrowed */
    struct nvml_reading reading;
};

/* The data shown at a row. */
struct shown_row {
    struct run_numbers numbers;
    const struct shown_gpu *gpus; /* [gpu_count], the last readings; borrowed */
    int gpu_count;
    bool gpus_read; /* the GPUs were read for this row */
};

/* -- Metrics of the run ------------------------------------------------------------------------------------------ */

/* A column of the table on standard output. */
struct metric_column {
    int width;                /* 0: no column */
    const char *title, *unit; /* two lines of the header */
    double factor;            /* multiplies the metric, to convert it to this unit */
    const char *format;       /* printf format; NULL: a duration */
};

struct run_metric {
    const char *unit, *help; /* help: one sentence */
    size_t offset;           /* offset in struct run_numbers */
    bool optional;           /* some runs do not have it: omitted if it is not finite */
    struct {
        const char *key; /* NULL: not in log.jsonl */
        int digits;      /* significant digits; 0: an integer */
    } log;
    struct {
        const char *tag; /* NULL: not in TensorBoard */
        double factor;   /* multiplies the metric, to convert it to the tag's unit */
    } board;
    struct {
        int place; /* position in the file, from 1; 0: not in the file */
        const char *name, *type;
        bool at_start; /* known before the first row */
    } prometheus;
    struct metric_column wide, narrow;
};

enum { RUN_METRICS = 33 };
extern const struct run_metric run_metrics[RUN_METRICS];

double run_metric_of(const struct run_metric *metric, const struct run_numbers *numbers);
void run_metric_set(const struct run_metric *metric, struct run_numbers *numbers, double value);
/* Returns whether the metric has a value to show. */
bool run_metric_shows(const struct run_metric *metric, const struct run_numbers *numbers);

/* -- Metrics of each GPU ----------------------------------------------------------------------------------------- */

enum gpu_metric_id { GPU_POWER, GPU_SM_CLOCK, GPU_MEMORY_CLOCK, GPU_TEMPERATURE, GPU_ENERGY, GPU_METRICS };

struct gpu_metric {
    const char *key, *tag;          /* log.jsonl: a list with a number for each GPU. TensorBoard: all GPUs together */
    const char *name, *type, *help; /* Prometheus: each GPU */
    size_t offset;                  /* offset in struct nvml_reading */
    enum { GPU_SUM, GPU_LEAST, GPU_MOST } together;
};
extern const struct gpu_metric gpu_metrics[GPU_METRICS];

/* Returns a metric of a GPU; NaN: the driver does not report it. */
double gpu_metric_of(const struct gpu_metric *metric, const struct shown_gpu *gpu);
/* Returns the sum, minimum or maximum over `count` GPUs, as metric->together says; NaN without GPUs. */
double gpu_metric_together(const struct gpu_metric *metric, const double *values, int64_t count);

#endif
