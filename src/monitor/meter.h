/* What a run shows while it goes: the table on standard output, the lines of log.jsonl, TensorBoard's event files, the
 * timers. Rank 0 writes; some calls are collective because they sum over ranks. */
#ifndef MONITOR_METER_H
#define MONITOR_METER_H

#include "comm/comm.h"
#include "core/profile.h"
#include "deck/deck.h"
#include "architecture/flops.h"
#include "monitor/journal.h"
#include "monitor/prometheus.h"
#include "monitor/run_table.h"
#include "monitor/statistics.h"
#include "monitor/tensorboard.h"
#include "monitor/watch.h"

/* Where a rank's time goes: parts of its loop, and what passes beside the loop. */
enum meter_timer {
    METER_STEP,
    METER_DATA, /* what a step waits for its rows; METER_STEP leaves it out */
    METER_VALIDATION,
    METER_CHECKPOINT, /* what a run waits for one */
    METER_PARTS,
    METER_LOAD = METER_PARTS, /* before the first step */
    METER_WRITE,              /* by a checkpoint's thread */
    METER_TIMERS
};

struct meter_settings {
    const char *folder;                        /* of the run: holds log.jsonl, tensorboard/; borrowed */
    int64_t step, steps_total;                 /* done when this program began, and of the whole run */
    int64_t outliers;                          /* of the gradient norm until then */
    bool validates;                            /* a validation of `step` is still to be made */
    bool tensorboard;                          /* write event files */
    const char *prometheus;                    /* the file for Prometheus, as prometheus_open has it; borrowed */
    double peak;                               /* FLOP/s of all ranks together; 0 = unknown */
    double flops_per_token[FLOPS_CONVENTIONS]; /* of training */
    int64_t parameters;
    int64_t row_tokens;          /* positions of a row */
    int64_t planned;             /* bytes that rank 0 has planned of its device's memory */
    int part;                    /* of the model, that this rank has: its stage */
    int threads;                 /* of a rank */
    struct executor *executor;   /* of this rank's device; borrowed */
    bool resumed;                /* the run goes on from a checkpoint, */
    double load_seconds;         /* of reading it */
    int64_t load_bytes;          /* of its file */
    struct deck_changes changed; /* with these keys changed since; borrowed */
};

/* One step, as the engine tells it. */
struct meter_row {
    int64_t step;
    double loss, learning_rate, grad_norm; /* of this step */
    int64_t outliers;                      /* of the gradient norm in the run so far (state/gradient_norms.h) */
    int64_t tokens;                        /* that the run has learnt from so far, padding included */
    int64_t unpadded;                      /* of them, those that are no padding: this rank's part */
    double seconds;   /* from the end of the step before to its end, without validations and checkpoints */
    double data_wait; /* seconds that the host waited for its rows */
};

/* What a rank has computed in a step, of rows that it is the first to have. */
struct meter_work {
    int64_t real, positions; /* tokens that are no padding; those and padding, of rows without any token too */
};

enum { METER_LAST = 16 /* steps that a report of a divergence shows */ };

struct run_meter {
    struct comm *world;
    struct meter_settings settings;
    struct run_journal journal; /* rank 0's log.jsonl */
    struct tensorboard board;
    struct prometheus prometheus;
    struct rank_watch watch;
    struct shown_row shown; /* the last row */
    struct run_table table;
    int64_t step;                      /* the latest that a line tells of */
    int64_t steps;                     /* counted since the start of this program */
    bool begun;                        /* a line "start" is written */
    struct meter_row last[METER_LAST]; /* of step s at s % METER_LAST */

    /* since the last row */
    struct meter_work work;
    double loss_sum; /* nats of all ranks */
    double labels;
    double data_wait;     /* seconds */
    double *step_seconds; /* of each step, owned */
    int64_t step_count, step_capacity;

    double marked; /* clock when the last step was counted */
    double idle;   /* seconds since then that are not training: validation, checkpoints */
    double seconds[METER_TIMERS];
    int64_t calls[METER_TIMERS];
    double started;
    double clock_offset; /* of the clock of the day at the last line; 0 before the first */
};

/* Opens log.jsonl and the event files for appending; what they hold of steps after settings->step, left by a program
 * that was killed, is dropped first. If steps are left to do, a line "start" says who does them. What cannot be written
 * is warned about. Collective. */
void meter_open(struct run_meter *meter, struct comm *world, const struct meter_settings *settings);
void meter_close(struct run_meter *meter);

/* The run goes back to an earlier step, with or without that step's validation to be made again, and with so many
 * outliers until then: as after a restart, the files hold each step once. Local. */
void meter_rewind(struct run_meter *meter, int64_t step, bool validates, int64_t outliers);

/* Adds a call to a timer of this rank, or more seconds to its last one. What passes beside the loop is no work of it.
 */
void meter_add(struct run_meter *meter, enum meter_timer timer, double seconds);
void meter_add_wait(struct run_meter *meter, enum meter_timer timer, double seconds);

/* Seconds since the last step was counted, without validations and checkpoints: of a step that begins while none is in
 * flight, they are the time before its first launch. */
double meter_pause(const struct run_meter *meter);

/* Ends a step: counts its losses, work and time towards the next row. */
void meter_count(struct run_meter *meter, const struct meter_row *row, double loss_sum, double labels,
                 const struct meter_work *work);

/* One row of the table, line and record for the steps since the last one. The table shows the mean loss over their
 * labels, the line both that and the last step's own. Collective. */
void meter_step(struct run_meter *meter, const struct meter_row *row);
/* A line for a validation, and below one for a checkpoint. */
void meter_validation(struct run_meter *meter, int64_t step, double loss, double labels);
/* A line for a validation of a model that is trained already, of the data in
 * `stores` (data.valid, validation.rows). */
void meter_evaluation(struct run_meter *meter, int64_t step, double loss, double labels, const char *stores,
                      int64_t rows);
struct meter_save {
    const char *path;
    uint64_t digest;
    int64_t bytes;
    double seconds; /* until it was on the disk */
    double waited;  /* of the run, for snapshot and end, or for all of it */
};
void meter_checkpoint(struct run_meter *meter, int64_t step, const struct meter_save *save);
/* A line and a record for a step at which it was measured what quantization loses. */
void meter_statistics(struct run_meter *meter, int64_t step, const struct statistics_row *rows, int64_t count);
/* A line for what else happens: `event` is its name in log.jsonl ("stop"), `text` one sentence for the reader. */
void meter_note(struct run_meter *meter, int64_t step, const char *event, const char *text);

/* The run has ended at the step `row` by divergence: shows `text`, that step and the steps before it. Collective. */
void meter_diverged(struct run_meter *meter, const struct meter_row *row, const char *text);
/* The last line of a program: how it ends, by its exit code, and one sentence. Left out where no line "start" stands
 * before it. */
void meter_end(struct run_meter *meter, int code, const char *text);

/* What a profile of `steps` steps has found (core/profile.h), by rank 0. */
void meter_profile(struct run_meter *meter, int64_t step, int64_t steps, const struct profile_row *rows, int count);

/* The timer summary: seconds as minimum, mean and maximum over ranks, calls of rank 0; and, where launches end when
 * they return, so that the host's time of them means something, the ops, dry runs of the planner included. It goes into
 * the log, and after a minute or more to standard output too. Collective. */
void meter_summary(struct run_meter *meter);

#endif
