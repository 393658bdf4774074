/* The speed of a run as benchmarks quote it: from the median time of the steps after a warm-up, in which kernels are
 * tuned and graphs captured (dgxc-benchmarking, NeMo: tokens of a step / its time; FLOPs per token as in
 * architecture/flops.h). */
#ifndef REPORT_THROUGHPUT_H
#define REPORT_THROUGHPUT_H

#include "report/history.h"

struct throughput {
    int64_t steps;                         /* measured steps; 0: none, and all other fields are NaN */
    double least, median, most;            /* seconds of a step */
    double tokens;                         /* mean tokens per step, over all ranks, without padding */
    double rate;                           /* tokens/s: tokens / median */
    double padded_rate;                    /* as rate, with padding, as recipes quote it */
    double waited;                         /* share of the time in which rank 0 waited for data */
    double utilisation[FLOPS_CONVENTIONS]; /* MFU at `rate`; NaN without a peak */
};

/* Returns the throughput of the last program, without its first `warm_up` steps. A line of the log counts if all of its
 * steps are after the warm-up. */
struct throughput throughput_of(const struct run_history *history, int64_t warm_up);

#endif
