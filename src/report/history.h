/* Reads back what a run did from its log.jsonl (monitor/event_log.h). The run may still be running. */
#ifndef REPORT_HISTORY_H
#define REPORT_HISTORY_H

#include "architecture/flops.h"
#include "monitor/validation.h"
#include "monitor/metrics.h"
#include "monitor/time_account.h"
#include "monitor/timers.h"

#include <stdint.h>

/* A start of a program. In all structs here, numbers that the log does not have are NaN, texts "". */
struct history_start {
    int64_t step; /* steps done when the program began */
    int64_t steps_total, ranks, threads, parameters;
    double flops_per_token[FLOPS_CONVENTIONS];
    double peak; /* FLOP/s of all ranks */
    double time; /* unix seconds */
    char *version, *host, *job, *device, *device_name;
};

/* The end of a program. */
struct history_end {
    int64_t step, starts; /* starts: number of starts in the log before this line */
    double time;
    char *how, *text; /* how: "finished", "stopped", "diverged" or "failed"; text: why */
};

struct history_row {
    int64_t step;
    struct run_numbers numbers; /* metrics that have a key in the log */
    double gpus[GPU_METRICS];   /* over all GPUs; NaN: not measured at this row */
    int64_t first_time, times;  /* its steps' times: index in step_seconds, and number */
};

struct history_validation {
    int64_t step;
    double loss, labels; /* loss: nats per label */
    double time;
    double metrics[VALIDATION_METRICS]; /* NaN: the log does not have it */
};

struct history_checkpoint {
    int64_t step;
    char *digest;
};

/* Quantization errors of a layer at a step; NaN: not in the log. */
struct history_layer {
    int64_t step;
    int layer;        /* from 1 */
    char linear[16];  /* the linear layer with the largest underflow, such as "qkv" */
    double underflow; /* share of gradient elements that underflow: the largest of the layer's linear layers */
    double error;     /* relative error: the largest of the layer's operands */
};

struct history_note {
    int64_t step;
    double time;
    char *event, *text;
};

/* The whole log. All arrays are owned, in the order of the file. */
struct run_history {
    struct history_start *starts;
    struct history_row *rows;
    struct history_validation *validations;
    struct history_checkpoint *checkpoints;
    struct history_end *ends;
    struct history_layer *layers;
    struct history_note *notes;     /* all lines with a text, including ends */
    struct history_row *last_steps; /* rows of the last divergence */
    struct time_account account;    /* where the time went since the first start */
    struct timer *timers;           /* of the last program, if it has ended; the texts are owned too */
    double *step_seconds;           /* of all logged steps */
    int64_t start_count, row_count, validation_count, checkpoint_count, end_count, layer_count, note_count, last_count,
        timer_count, step_count;
    double time;                    /* of the newest line */
    int64_t damaged, first_damaged; /* damaged lines, and the first one's number from 1; not an incomplete last line */
};

/* Reads a log; call history_destroy also after an error. ERROR_ENVIRONMENT: the file cannot be read. Local. */
int history_read(struct run_history *history, const char *path);
void history_destroy(struct run_history *history);

/* Warns about damaged lines, if there are any. path: of the log. */
void history_warn(const struct run_history *history, const char *path);

/* Returns the validation with the lowest loss, the first of several; NULL: there is none. */
const struct history_validation *history_best(const struct run_history *history);

/* The largest memory of all rows, bytes; NaN: no row has it. */
struct history_peaks {
    double memory, device_memory;
};
struct history_peaks history_peaks(const struct run_history *history);

#endif
