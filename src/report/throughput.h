/* The speed of a run as benchmarks quote it: by the median of its steps behind a warm-up, in which kernels are chosen
 * and recorded (dgxc-benchmarking, NeMo: tokens of a step / its time; FLOPs a token by architecture/flops.h). */
#ifndef REPORT_THROUGHPUT_H
#define REPORT_THROUGHPUT_H

#include "report/history.h"

struct throughput {
    int64_t steps;                         /* that were measured; 0: none, and all that follows is NaN */
    double least, median, most;            /* seconds of a step */
    double tokens;                         /* of a step, all ranks, without padding: mean */
    double rate;                           /* tokens/s: tokens / median */
    double padded_rate;                    /* the same with padding, which recipes quote */
    double waited;                         /* share of the time in which rank 0 waited for data */
    double utilisation[FLOPS_CONVENTIONS]; /* at that rate; NaN without a peak */
};

/* Of the steps of the last program, but for its first `warm_up`. A line of the log counts where all of its steps do. */
struct throughput throughput_of(const struct run_history *history, int64_t warm_up);

#endif
