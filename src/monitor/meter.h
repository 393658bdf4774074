/* The meter logs a run while it trains: the table on standard output, log.jsonl, TensorBoard's event files, the file
 * for Prometheus, and timers. Rank 0 writes. Functions that sum over ranks are collective. */
#ifndef MONITOR_METER_H
#define MONITOR_METER_H

#include "comm/comm.h"
#include "core/profile.h"
#include "deck/deck.h"
#include "architecture/flops.h"
#include "monitor/event_log.h"
#include "monitor/prometheus.h"
#include "monitor/run_table.h"
#include "monitor/statistics.h"
#include "monitor/tensorboard.h"
#include "monitor/validation.h"
#include "monitor/watch.h"

/* The timers of a rank: parts of its training loop, then work before the loop or in the background. */
enum meter_timer {
    METER_STEP,
    METER_DATA, /* a step waits for its rows; METER_STEP does not include it */
    METER_VALIDATION,
    METER_CHECKPOINT, /* the run waits for a checkpoint */
    METER_RECHECK,    /* rechecks for silent corruption */
    METER_PARTS,
    METER_LOAD = METER_PARTS, /* loading, before the first step */
    METER_WRITE,              /* writing, by a checkpoint's thread */
    METER_TIMERS
};

struct meter_settings {
    const char *folder;                        /* run folder, with log.jsonl and tensorboard/; borrowed */
    int64_t step, steps_total;                 /* steps done when this program started, and steps of the whole run */
    int64_t outliers;                          /* outliers of the gradient norm so far */
    bool validates;                            /* the validation of `step` is still to be done */
    bool tensorboard;                          /* write event files */
    const char *prometheus;                    /* name of the file for prometheus_open; borrowed */
    double peak;                               /* FLOP/s of all ranks together; 0 = unknown */
    double flops_per_token[FLOPS_CONVENTIONS]; /* of a training step */
    int64_t parameters;
    int64_t row_tokens;          /* tokens of a row, padding included */
    int64_t planned;             /* bytes of device memory that rank 0 has planned */
    int stage;                   /* this rank's stage */
    int threads;                 /* CPU threads of a rank */
    struct executor *executor;   /* this rank's executor; borrowed */
    bool resumed;                /* the run resumes from a checkpoint; the next two are about it */
    double load_seconds;         /* seconds of reading the checkpoint */
    int64_t load_bytes;          /* bytes of its file */
    struct deck_changes changed; /* keys that were changed since the checkpoint; borrowed */
};

/* The results of one step. */
struct meter_row {
    int64_t step;
    double loss, learning_rate, grad_norm; /* of this step */
    int64_t outliers; /* outliers of the gradient norm in the run so far (state/gradient_norms.h) */
    int64_t tokens;   /* trained on so far, padding included */
    int64_t unpadded; /* trained on so far, without padding: this rank's share */
    double seconds; /* from the end of the previous step to the end of this one, without validations and checkpoints */
    double data_wait; /* seconds that the host waited for the step's rows */
};

/* The tokens of a rank's rows in a step. Rows that several ranks share are counted on one of them. */
struct meter_work {
    int64_t real, positions; /* tokens without padding; tokens with padding, rows without any tokens included */
};

enum { METER_LAST = 16 /* steps shown in the report of a divergence */ };

struct run_meter {
    struct comm *world;
    struct meter_settings settings;
    struct event_log event_log; /* open on rank 0 */
    struct tensorboard board;
    struct prometheus prometheus;
    struct rank_watch watch;
    struct shown_row shown; /* numbers of the last row */
    struct run_table table;
    int64_t step;                      /* the latest step that a line has */
    int64_t steps;                     /* steps counted since this program started */
    bool start_logged;                 /* the line "start" was written */
    struct meter_row last[METER_LAST]; /* step s is at s % METER_LAST */

    /* sums since the last row of the table */
    struct meter_work work;
    double loss_sum; /* nats of all ranks */
    double labels;
    double data_wait;     /* seconds */
    double *step_seconds; /* seconds of each step, owned */
    int64_t step_count, step_capacity;

    double effective; /* seconds of this program's logged steps, since the log was opened */
    double marked;    /* clock when the last step was counted */
    double idle;      /* seconds since then that are not training: validations, checkpoints */
    double seconds[METER_TIMERS];
    int64_t calls[METER_TIMERS];
    double started;
    double clock_offset; /* difference of wall clock and monotonic clock at the last line; 0 before the first */
};

/* Opens log.jsonl and the event files for appending. Drops their lines and records of steps after settings->step, which
 * a killed program left. If steps are left to do, writes the line "start". Files that cannot be written cause a
 * warning. Collective; meter_close is local. */
void meter_open(struct run_meter *meter, struct comm *world, const struct meter_settings *settings);
void meter_close(struct run_meter *meter);

/* Sets the log back to an earlier step with `outliers` outliers so far, as a restart does, so that the files have each
 * step once. validates: that step's validation will be repeated. Local. */
void meter_rewind(struct run_meter *meter, int64_t step, bool validates, int64_t outliers);

/* meter_add adds a call and its seconds to a timer of this rank; meter_add_wait adds seconds to the timer's last call.
 * Local. */
void meter_add(struct run_meter *meter, enum meter_timer timer, double seconds);
void meter_add_wait(struct run_meter *meter, enum meter_timer timer, double seconds);

/* Returns the seconds since the last step was counted, without validations and checkpoints. If no step is in flight,
 * this is the time before the next step's first launch. */
double meter_pause(const struct run_meter *meter);

/* Ends a step: adds its losses, work and time to the next row. Local. */
void meter_count(struct run_meter *meter, const struct meter_row *row, double loss_sum, double labels,
                 const struct meter_work *work);

/* Logs the steps since the last row: a row of the table, a line of log.jsonl, a TensorBoard record. The table has the
 * mean loss over the labels of the steps; the line also has the last step's loss. Collective. */
void meter_step(struct run_meter *meter, const struct meter_row *row);
/* meter_validation and meter_checkpoint log a validation and a checkpoint. seconds: that the validation took; metrics:
 * NaN is not logged. Local. */
void meter_validation(struct run_meter *meter, int64_t step, double loss, double labels, double seconds,
                      const double metrics[VALIDATION_METRICS]);
/* Logs the evaluation of a model that has no steps left to train, on the data in `stores` (data.valid,
 * validation.rows). Local. */
void meter_evaluation(struct run_meter *meter, int64_t step, double loss, double labels, const char *stores,
                      int64_t rows);
struct meter_save {
    const char *path;
    uint64_t digest;
    int64_t bytes;
    double seconds; /* seconds until it was on the disk */
    double waited;  /* seconds that the run waited: for the snapshot and the end, or for the whole checkpoint */
};
void meter_checkpoint(struct run_meter *meter, int64_t step, const struct meter_save *save);
/* Logs the quantization errors measured at a step. Local. */
void meter_statistics(struct run_meter *meter, int64_t step, const struct statistics_row *rows, int64_t count);
/* Logs another event: `event` is its name in log.jsonl ("stop"), `text` one sentence for users. Local. */
void meter_note(struct run_meter *meter, int64_t step, const char *event, const char *text);

/* Logs a divergence at the step `row`: `text`, that step and the steps before it. Collective. */
void meter_diverged(struct run_meter *meter, const struct meter_row *row, const char *text);
/* Logs the end of a program, with its exit code and one sentence. log.jsonl gets the line only if a line "start"
 * precedes it. Local. */
void meter_end(struct run_meter *meter, int code, const char *text);

/* Logs a profile of `steps` steps (core/profile.h), on rank 0. */
void meter_profile(struct run_meter *meter, int64_t step, int64_t steps, const struct profile_row *rows, int count);

/* Logs the timer summary: seconds as minimum, mean and maximum over ranks, calls of rank 0. If launches have finished
 * when they return (so that their host time is meaningful), it includes the ops, those of planning runs too. It is
 * written to the log, and to standard output if the program ran for a minute or more. Collective. */
void meter_summary(struct run_meter *meter);

#endif
