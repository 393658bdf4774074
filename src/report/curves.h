/* The curves of a run, as columns that plots read. */
#ifndef REPORT_CURVES_H
#define REPORT_CURVES_H

#include "report/history.h"
#include "report/plot.h"

struct loss_curves {
    double *step, *loss, *smooth, *rate, *norm, *speed; /* of each row of the log, owned */
    int64_t rows, window;                               /* window: rows that a smoothed loss averages */
    double *validation_step, *validation;
    int64_t validations;
    double *marks; /* steps at which a later program went on */
    int64_t mark_count;
    double low, high;             /* of the losses but for the fall at the beginning; equal when there are none */
    double norm_high, speed_high; /* likewise; they begin at 0 */
};

void curves_create(struct loss_curves *curves, const struct run_history *history);
void curves_destroy(struct loss_curves *curves);

/* The losses: training, the same smoothed where there are enough rows, validation. Both borrow the curves. */
enum { CURVES_LOSSES = 3 };
struct line_plot curves_loss_plot(const struct loss_curves *curves, struct plot_series series[CURVES_LOSSES]);

#endif
