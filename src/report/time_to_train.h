/* The time that a run took to reach a loss, as in MLPerf Training: from the start to the first validation that reaches
 * the target. */
#ifndef REPORT_TIME_TO_TRAIN_H
#define REPORT_TIME_TO_TRAIN_H

#include "report/curves.h"

#include <stdbool.h>

/* Returns the seconds that the run's programs have worked until `time` (unix; INFINITY: until now), including starts,
 * validations and checkpoints. The time between the last line of a program and the first of the next does not count.
 * Steps that were lost with a program have no lines, so their time is missing. */
double time_trained(const struct run_history *history, double time);

/* When the loss was reached: at the first validation with at most this loss, or if the log has no validations, at the
 * first row whose smoothed training loss is at most this loss. */
struct time_to_loss {
    bool reached, validated; /* validated: by a validation */
    int64_t step;
    double seconds;
};
struct time_to_loss time_to_loss(const struct run_history *history, const struct loss_curves *curves, double loss);

#endif
