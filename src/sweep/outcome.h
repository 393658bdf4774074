/* What is known of a case, as a row of the sweep's table. */
#ifndef SWEEP_OUTCOME_H
#define SWEEP_OUTCOME_H

#include "sweep/job.h"
#include "architecture/flops.h"

/* Texts without content are "", numbers that are not known NaN. Sizes and times in the units of sweep/table.c. */
struct run_outcome {
    char *name, *deck, *scaling, *varied, *shard, *compute, *recipe; /* borrowed from the case */
    int64_t series, ranks, nodes, tensor, pipeline, context, micro_batch, global_batch;
    char *state;                 /* "new", "waiting", "running", "done", "failed" */
    int64_t exit_code;           /* of the training; -1: it has not ended */
    char *message;               /* of a failure; owned */
    char *build, *device, *host; /* that the case ran with; owned */
    int64_t steps;               /* measured */
    double step_least, step_median, step_most, step_tokens, rate, rank_rate, padded_rate,
        utilisation[FLOPS_CONVENTIONS];
    double efficiency;                    /* rank_rate beside that of the fewest ranks of its series */
    double waited;                        /* share of the time */
    double exposed;                       /* likewise, transfers that nothing hides, where the sweep measures them */
    double planned_step, planned_exposed; /* seconds; share of them */
    double planned_memory,
        planned_host;               /* bytes: of the rank that needs the most; of these in host memory beside a GPU */
    double device_memory, resident; /* bytes at most: in use on rank 0's GPU, by whomever; of rank 0's process */
};

/* Reads what the case's folder holds. Local. ERROR_ENVIRONMENT: its log cannot be read. Destroy it in any case. */
int outcome_read(struct run_outcome *outcome, const struct sweep_place *place, const struct sweep_case *c);
void outcome_destroy(struct run_outcome *outcome);

/* Fills in efficiencies. */
void outcome_compare(struct run_outcome *outcomes, int count);

#endif
