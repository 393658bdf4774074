/* The outcome of a case, as a row of the sweep's table. */
#ifndef SWEEP_OUTCOME_H
#define SWEEP_OUTCOME_H

#include "sweep/job.h"
#include "architecture/flops.h"
#include "report/curves.h"

/* Unknown texts are "", unknown numbers NaN. Units are those of sweep/table.c. */
struct run_outcome {
    char *name, *deck, *scaling, *varied, *shard, *compute, *recipe; /* borrowed from the case */
    int64_t series, ranks, nodes, tensor, pipeline, context, micro_batch, global_batch;
    char *state;                 /* "new", "waiting", "running", "done", "failed" */
    int64_t exit_code;           /* of the training; -1: it has not ended */
    char *message;               /* why it failed; owned */
    char *build, *device, *host; /* those with which the case ran; owned */
    int64_t steps;               /* measured steps */
    double step_least, step_median, step_most, step_tokens, rate, rank_rate, padded_rate,
        utilisation[FLOPS_CONVENTIONS];
    double efficiency;                    /* rank_rate divided by that of the series' case with the fewest ranks */
    double waited;                        /* share of the time in which rank 0 waited for data */
    double exposed;                       /* exposed communication, share of the time, if the sweep measures it */
    double planned_step, planned_exposed; /* planned_step: seconds; planned_exposed: share of them */
    double planned_memory, planned_host;  /* bytes, on the rank with the largest need; host: in host memory */
    double loss, validation_loss;   /* nats per label: mean over the last tenth of the steps; the last validation */
    struct loss_curves curves;      /* rows = 0: no log; owned */
    double device_memory, resident; /* largest, bytes: used on rank 0's GPU by all programs; resident in rank 0 */
};

/* Reads the case's folder; call outcome_destroy also after an error. Local. ERROR_ENVIRONMENT: the log cannot be
 * read. */
int outcome_read(struct run_outcome *outcome, const struct sweep_place *place, const struct sweep_case *c);
void outcome_destroy(struct run_outcome *outcome);

/* Returns the case as people name it: its deck, and the keys that vary. Freed with free(). */
char *outcome_label(const struct run_outcome *outcome);

/* Returns what a case is judged by: its validation loss, else its training loss; NaN: it has none. */
double outcome_loss(const struct run_outcome *outcome);

/* Sets the efficiencies of all outcomes. */
void outcome_compare(struct run_outcome *outcomes, int count);

#endif
