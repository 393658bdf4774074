#include "sweep/losses.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/atomic_file.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SHOWN = 6 /* plot_color has as many colours */ };

static int compare_losses(const void *a, const void *b)
{
    const double x = outcome_loss(*(const struct run_outcome *const *)a),
                 y = outcome_loss(*(const struct run_outcome *const *)b);
    return (x > y) - (x < y);
}

/* Finds the cases with losses, the lowest first. best: [count]. Returns their number. */
static int find_best(const struct run_outcome **best, const struct run_outcome *outcomes, int count)
{
    int with_losses = 0;
    for (int i = 0; i < count; i++)
        if (isfinite(outcome_loss(&outcomes[i])))
            best[with_losses++] = &outcomes[i];
    qsort(best, (size_t)with_losses, sizeof *best, compare_losses);
    return with_losses;
}

/* Returns whether there is something to compare. */
static bool has_losses(const struct run_outcome *outcomes, int count)
{
    int with_losses = 0;
    for (int i = 0; i < count; i++)
        with_losses += isfinite(outcome_loss(&outcomes[i]));
    return with_losses > 1;
}

/* write: plot_write_svg or plot_write_svg_file */
static void plot_losses(FILE *file, const struct run_outcome *outcomes, int count,
                        void (*write)(FILE *, const struct line_plot *))
{
    const struct run_outcome **best = memory_allocate((count + 1) * (int64_t)sizeof *best);
    const int with_losses = find_best(best, outcomes, count), shown = MIN(with_losses, SHOWN);
    struct plot_series series[2 * SHOWN];
    char *labels[SHOWN], *title = memory_format("loss, nats per label, of the %d lowest of %d", shown, with_losses);
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < shown; i++) {
        const struct loss_curves *c = &best[i]->curves;
        labels[i] = outcome_label(best[i]);
        series[2 * i] = (struct plot_series){labels[i], plot_color(i), PLOT_LINE, c->step, c->smooth, c->rows};
        series[2 * i + 1] =
            (struct plot_series){NULL, plot_color(i), PLOT_POINTS, c->validation_step, c->validation, c->validations};
        curves_late_range(c, &low, &high);
    }
    const double margin = (high - low) / 10;
    write(file, &(struct line_plot){.title = title,
                                    .x_label = "step",
                                    .series = series,
                                    .series_count = 2 * shown,
                                    .low = low - margin,
                                    .high = high + margin});
    for (int i = 0; i < shown; i++)
        free(labels[i]);
    free(title);
    memory_free(best);
}

int losses_draw(const char *folder, const struct run_outcome *outcomes, int count)
{
    if (!has_losses(outcomes, count))
        return ERROR_NONE;
    char *path = memory_format("%s/loss.svg", folder);
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code == ERROR_NONE) {
        plot_losses(atomic.file, outcomes, count, plot_write_svg_file);
        code = atomic_file_close(&atomic, code);
    }
    free(path);
    return code;
}

void losses_write(FILE *file, const struct run_outcome *outcomes, int count)
{
    if (has_losses(outcomes, count))
        plot_losses(file, outcomes, count, plot_write_svg);
}
