#include "report/curves.h"
#include "base/memory.h"

#include <math.h>
#include <stdbool.h>

enum { SMOOTH_PARTS = 25 };

static double *column(int64_t count)
{
    return memory_allocate((count > 0 ? count : 1) * (int64_t)sizeof(double));
}

/* Computes the means of the finite values in a window around each value, with a running sum, so that a million rows
 * take no noticeable time. */
static void smooth(double *out, const double *values, int64_t count, int64_t window)
{
    long double sum = 0;
    int64_t members = 0, first = 0, behind = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = i - window / 2, end = begin + window;
        for (; behind < end && behind < count; behind++)
            if (isfinite(values[behind])) {
                sum += values[behind];
                members++;
            }
        for (; first < begin; first++)
            if (isfinite(values[first])) {
                sum -= values[first];
                members--;
            }
        out[i] = members > 0 ? (double)(sum / (long double)members) : NAN;
    }
}

/* Finds the ranges of the plots after the first tenth of the steps: the loss falls from ln(vocabulary) at first, and
 * would flatten everything later into a line. The plots say what is outside. */
static void find_ranges(struct loss_curves *c)
{
    double low = INFINITY, high = -INFINITY, from = c->rows > 0 ? c->step[c->rows - 1] / 10 : 0;
    for (int64_t i = 0; i < c->rows; i++)
        if (c->step[i] >= from) {
            low = isfinite(c->loss[i]) ? fmin(low, c->loss[i]) : low;
            high = isfinite(c->loss[i]) ? fmax(high, c->loss[i]) : high;
            c->norm_high = isfinite(c->norm[i]) ? fmax(c->norm_high, c->norm[i]) : c->norm_high;
            c->speed_high = isfinite(c->speed[i]) ? fmax(c->speed_high, c->speed[i]) : c->speed_high;
        }
    for (int64_t i = 0; i < c->validations; i++) {
        if (c->validation_step[i] < from)
            continue;
        low = isfinite(c->validation[i]) ? fmin(low, c->validation[i]) : low;
        high = isfinite(c->validation[i]) ? fmax(high, c->validation[i]) : high;
    }
    double margin = (high - low) / 10;
    c->low = low <= high ? low - margin : 0;
    c->high = low <= high ? high + margin : 0;
}

void curves_create(struct loss_curves *c, const struct run_history *h)
{
    int64_t rows = h->row_count;
    *c = (struct loss_curves){.step = column(rows),
                              .loss = column(rows),
                              .smooth = column(rows),
                              .rate = column(rows),
                              .norm = column(rows),
                              .speed = column(rows),
                              .rows = rows,
                              .validation_step = column(h->validation_count),
                              .validation = column(h->validation_count),
                              .validations = h->validation_count,
                              .window = 1 + rows / SMOOTH_PARTS,
                              .marks = column(h->start_count)};
    for (int64_t i = 1; i < h->start_count; i++)
        c->marks[c->mark_count++] = (double)h->starts[i].step;
    for (int64_t i = 0; i < rows; i++) {
        c->step[i] = (double)h->rows[i].step;
        c->loss[i] = h->rows[i].numbers.mean_loss;
        c->rate[i] = h->rows[i].numbers.learning_rate;
        c->norm[i] = h->rows[i].numbers.grad_norm;
        c->speed[i] = h->rows[i].numbers.rate;
    }
    smooth(c->smooth, c->loss, rows, c->window);
    for (int64_t i = 0; i < h->validation_count; i++) {
        c->validation_step[i] = (double)h->validations[i].step;
        c->validation[i] = h->validations[i].loss;
    }
    find_ranges(c);
}

void curves_destroy(struct loss_curves *c)
{
    double *const columns[] = {c->step,       c->loss, c->smooth, c->rate, c->norm, c->speed, c->validation_step,
                               c->validation, c->marks};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        memory_free(columns[i]);
}

static void widen(double *low, double *high, const double *steps, const double *values, int64_t count, double from)
{
    for (int64_t i = 0; i < count; i++)
        if (steps[i] >= from && isfinite(values[i])) {
            *low = fmin(*low, values[i]);
            *high = fmax(*high, values[i]);
        }
}

void curves_late_range(const struct loss_curves *c, double *low, double *high)
{
    const double from = c->rows > 0 ? c->step[c->rows - 1] / 2 : 0;
    widen(low, high, c->step, c->smooth, c->rows, from);
    widen(low, high, c->validation_step, c->validation, c->validations, from);
}

struct line_plot curves_loss_plot(const struct loss_curves *c, struct plot_series series[CURVES_LOSSES])
{
    bool smooth = c->window > 1;
    int count = 0;
    series[count++] =
        (struct plot_series){"training", "#4477aa", smooth ? PLOT_FAINT_LINE : PLOT_LINE, c->step, c->loss, c->rows};
    if (smooth)
        series[count++] = (struct plot_series){"training, smoothed", "#4477aa", PLOT_LINE, c->step, c->smooth, c->rows};
    series[count++] =
        (struct plot_series){"validation", "#cc3311", PLOT_POINTS, c->validation_step, c->validation, c->validations};
    return (struct line_plot){"loss, nats per label", "step", series,  count, c->marks,
                              c->mark_count,          c->low, c->high, false};
}
