/* How long a run took to become as good as is wanted, as training benchmarks tell it (MLPerf Training: the time from
 * the start to the first validation that reaches the target). */
#ifndef REPORT_TIME_TO_TRAIN_H
#define REPORT_TIME_TO_TRAIN_H

#include "report/curves.h"

#include <stdbool.h>

/* Seconds that the run's programs have been at work until `time` (unix; INFINITY: until now), starts, validations and
 * checkpoints included; nothing counts between the last line of a program and the next one's first. Steps that were
 * lost with a program are no lines any more, so their time is missing. */
double time_trained(const struct run_history *history, double time);

/* When the loss was reached: by the first validation of that loss or a lower one; by the smoothed training loss where
 * the log has no validation. */
struct time_to_loss {
    bool reached, validated; /* validated: told by validations */
    int64_t step;
    double seconds;
};
struct time_to_loss time_to_loss(const struct run_history *history, const struct loss_curves *curves, double loss);

#endif
