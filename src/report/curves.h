/* The curves of a run, as columns for plots. */
#ifndef REPORT_CURVES_H
#define REPORT_CURVES_H

#include "report/history.h"
#include "report/plot.h"

struct loss_curves {
    double *step, *loss, *smooth, *rate, *norm, *speed; /* [rows] of the log, owned */
    int64_t rows, window;                               /* window: rows that a smoothed loss averages */
    double *validation_step, *validation;
    int64_t validations;
    double *marks; /* steps at which the run was resumed */
    int64_t mark_count;
    double low, high;             /* y range of the losses after the first tenth; equal if there are none */
    double norm_high, speed_high; /* upper ends of gradient norm and speed; their ranges begin at 0 */
};

void curves_create(struct loss_curves *curves, const struct run_history *history);
void curves_destroy(struct loss_curves *curves);

/* Widens low and high to the smoothed losses and validations of the second half of the steps: where runs are compared,
 * the fall at their beginning would flatten what they differ by. */
void curves_late_range(const struct loss_curves *curves, double *low, double *high);

/* Returns a plot of the losses: training, smoothed training if there are enough rows, and validation. The plot and the
 * series borrow the curves. */
enum { CURVES_LOSSES = 3 };
struct line_plot curves_loss_plot(const struct loss_curves *curves, struct plot_series series[CURVES_LOSSES]);

#endif
