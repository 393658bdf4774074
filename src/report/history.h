/* What a run did, read back from its log.jsonl (monitor/journal.h). Works on a live run too. */
#ifndef REPORT_HISTORY_H
#define REPORT_HISTORY_H

#include "architecture/flops.h"
#include "monitor/metrics.h"
#include "monitor/timers.h"

#include <stdint.h>

/* Numbers that the log does not hold are NaN, texts "". */
struct history_start {
    int64_t step; /* done when the program began */
    int64_t steps_total, ranks, threads, parameters;
    double flops_per_token[FLOPS_CONVENTIONS];
    double peak; /* FLOP/s of all ranks */
    double time; /* unix seconds */
    char *version, *host, *job, *device, *device_name;
};

/* How a program has ended. */
struct history_end {
    int64_t step, starts; /* of all starts, how many stand before it */
    double time;
    char *how, *text; /* "finished", "stopped", "diverged", "failed"; why */
};

struct history_row {
    int64_t step;
    struct run_numbers numbers; /* those that have a key in the log */
    double gpus[GPU_METRICS];   /* of all GPUs together; NaN: not read at this row */
    int64_t first_time, times;  /* where its steps' times stand in step_seconds, and how many */
};

struct history_validation {
    int64_t step;
    double loss, labels; /* nats per label */
    double time;
};

struct history_checkpoint {
    int64_t step;
    char *digest;
};

/* What quantization lost in a layer at a step; NaN: the log does not say it. */
struct history_layer {
    int64_t step;
    int layer;        /* from 1 */
    char linear[16];  /* "qkv": the one of the largest underflow */
    double underflow; /* of gradients: the largest share of the layer's linears */
    double error;     /* relative: the largest of their operands */
};

struct history_note {
    int64_t step;
    double time;
    char *event, *text;
};

/* All arrays are owned, in the order of the file. */
struct run_history {
    struct history_start *starts;
    struct history_row *rows;
    struct history_validation *validations;
    struct history_checkpoint *checkpoints;
    struct history_end *ends;
    struct history_layer *layers;
    struct history_note *notes;     /* all that has a text: starts and ends too */
    struct history_row *last_steps; /* of the last divergence */
    struct timer *timers;           /* of the last program, when it has come to its end; its texts are owned too */
    double *step_seconds;           /* of every step that was logged */
    int64_t start_count, row_count, validation_count, checkpoint_count, end_count, layer_count, note_count, last_count,
        timer_count, step_count;
    double time;                    /* of the newest line */
    int64_t damaged, first_damaged; /* lines, and the first one's number from 1; a half-written last line is none */
};

/* Local. ERROR_ENVIRONMENT when the file cannot be read. Destroy it in any case. */
int history_read(struct run_history *history, const char *path);
void history_destroy(struct run_history *history);

/* Warns of damaged lines, if the log has any. path: of the log. */
void history_warn(const struct run_history *history, const char *path);

/* The validation of the lowest loss, the first of several; NULL: there is none. */
const struct history_validation *history_best(const struct run_history *history);

/* The most memory of all rows, bytes; NaN: no row says it. */
struct history_peaks {
    double memory, device_memory;
};
struct history_peaks history_peaks(const struct run_history *history);

#endif
