/* What a run did, read back from its log.jsonl (train/journal.h). Works on a live run too. */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include "model/flops.h"

#include <stdint.h>

/* Numbers that the log does not hold are NaN, texts "". */
struct history_start {
    int64_t step; /* done when the program began */
    int64_t steps_total, ranks, threads, parameters;
    double peak; /* FLOP/s of all ranks */
    double time; /* unix seconds */
    char *version, *host, *job;
};

struct history_row {
    int64_t step;
    double loss, mean_loss; /* nats: of this step; over the labels since the last row */
    double learning_rate, grad_norm, tokens_per_second;
    double seconds, data_wait; /* since the last row */
    double memory;             /* peak, bytes */
    double utilisation[FLOPS_CONVENTIONS];
    double time;
};

struct history_validation {
    int64_t step;
    double loss, labels; /* nats per label */
};

struct history_checkpoint {
    int64_t step;
    char *digest;
};

struct history_note {
    int64_t step;
    char *event, *text;
};

struct history_timer {
    char *name, *kind; /* "part", "op", "all" */
    int64_t calls;
    double minimum, mean, maximum; /* seconds over ranks */
};

/* All arrays are owned, in the order of the file. */
struct history {
    struct history_start *starts;
    struct history_row *rows;
    struct history_validation *validations;
    struct history_checkpoint *checkpoints;
    struct history_note *notes;
    struct history_timer *timers; /* of the last program, when it has come to its end */
    double *step_seconds;         /* of every step that was logged */
    int64_t start_count, row_count, validation_count, checkpoint_count, note_count, timer_count, step_count;
    int64_t damaged, first_damaged; /* lines, and the first one's number from 1; a half-written last line is none */
};

/* Local. ERROR_ENVIRONMENT when the file cannot be read. Destroy it in any case. */
int history_read(struct history *history, const char *path);
void history_destroy(struct history *history);

#endif
