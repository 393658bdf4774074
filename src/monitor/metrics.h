/* The metrics of a run: one row each, with the name, unit and meaning that it has in log.jsonl, TensorBoard, the file
 * for Prometheus and the table on standard output. Every sink walks these rows, and report/history reads a log by them.
 * So a new metric is a member of struct run_numbers, a row, the line that computes it (meter.c), and its line in
 * doc/formats.md, which t_metrics compares with the rows. */
#ifndef MONITOR_METRICS_H
#define MONITOR_METRICS_H

#include "architecture/flops.h"
#include "monitor/nvml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- Numbers ----------------------------------------------------------------------------------------------------- */

/* A run at a row of its table. NaN: not known. All members are double, so that a row of the table can name any. */
struct run_numbers {
    double step, steps_total, steps;    /* done, of the whole run, and since the row before */
    double loss;                        /* of the step, nats per label */
    double mean_loss, perplexity;       /* over the labels of the steps since the row before, and its exponential */
    double learning_rate, grad_norm;    /* of the step */
    double outliers;                    /* of the gradient norm in the run so far */
    double tokens, samples;             /* learnt from so far: positions of rows, and rows */
    double unpadded;                    /* those of `tokens` that are not padding */
    double rate, padded_rate;           /* tokens/s that are not padding; positions/s that were computed: all ranks */
    double rank_rate, padded_rank_rate; /* the two rates divided by the number of ranks */
    double seconds, step_seconds;       /* of the steps since the row before, without validations and checkpoints;
                                           of one of them, mean */
    double data_wait, data_wait_ratio;  /* seconds of them in which rank 0 waited for data, and their share */
    double collectives, collectives_ratio; /* seconds of them that ranks were in collectives, mean over ranks, and
                                              their share; NaN of one rank */
    double memory;                         /* peak resident set of rank 0, bytes */
    double device_memory;                  /* bytes in use on rank 0's GPU, by all programs there */
    double device_memory_mean, device_memory_max; /* over the GPUs of all ranks */
    double device_memory_peak;                    /* the largest device_memory_max of this program's rows */
    double utilisation[FLOPS_CONVENTIONS];        /* of device.peak */
    double validation_loss;                       /* of the last validation */
    double seconds_left;                          /* to the end of the run, estimated */
    double time;                                  /* Unix seconds */
};

/* A GPU, as the lowest of the ranks on it reads it. */
struct shown_gpu {
    int rank;
    const char *host; /* borrowed */
    struct nvml_reading reading;
};

/* What is shown at a row. */
struct shown_row {
    struct run_numbers numbers;
    const struct shown_gpu *gpus; /* [gpu_count], as they were last read; borrowed */
    int gpu_count;
    bool gpus_read; /* for this row */
};

/* -- Metrics of the run ------------------------------------------------------------------------------------------ */

/* A column of the table on standard output. */
struct metric_column {
    int width;                /* 0: no column */
    const char *title, *unit; /* two lines of the header */
    double factor;            /* of the metric, to this unit */
    const char *format;       /* of printf; NULL: a duration */
};

struct run_metric {
    const char *unit, *help; /* help: one sentence */
    size_t offset;           /* in struct run_numbers */
    bool optional;           /* some runs do not have it: left out where it is not finite */
    struct {
        const char *key; /* NULL: not in log.jsonl */
        int digits;      /* significant; 0: an integer */
    } log;
    struct {
        const char *tag; /* NULL: not in TensorBoard */
        double factor;   /* of the metric, to the unit of the tag */
    } board;
    struct {
        int place; /* in the file, from 1; 0: not in the file */
        const char *name, *type;
        bool at_start; /* is known before the first row */
    } prometheus;
    struct metric_column wide, narrow;
};

enum { RUN_METRICS = 32 };
extern const struct run_metric run_metrics[RUN_METRICS];

double run_metric_of(const struct run_metric *metric, const struct run_numbers *numbers);
void run_metric_set(const struct run_metric *metric, struct run_numbers *numbers, double value);
/* Is there something to show? */
bool run_metric_shows(const struct run_metric *metric, const struct run_numbers *numbers);

/* -- Metrics of each GPU ----------------------------------------------------------------------------------------- */

enum gpu_metric_id { GPU_POWER, GPU_SM_CLOCK, GPU_MEMORY_CLOCK, GPU_TEMPERATURE, GPU_ENERGY, GPU_METRICS };

struct gpu_metric {
    const char *key, *tag;          /* log.jsonl: a list, one number a GPU. TensorBoard: of all GPUs together */
    const char *name, *type, *help; /* Prometheus: of each GPU */
    size_t offset;                  /* in struct nvml_reading */
    enum { GPU_SUM, GPU_LEAST, GPU_MOST } together;
};
extern const struct gpu_metric gpu_metrics[GPU_METRICS];

/* NaN: the driver does not say. */
double gpu_metric_of(const struct gpu_metric *metric, const struct shown_gpu *gpu);
/* Of all GPUs together; NaN of none. */
double gpu_metric_together(const struct gpu_metric *metric, const double *values, int64_t count);

#endif
