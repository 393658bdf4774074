#include "report/quantization_report.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/thousands.h"
#include "report/plot.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS = 120 /* maximum of a map */ };

/* Meaning of the share of underflowing gradients for a training (guidance of NVIDIA's fp8_analysis recipe). */
static const struct plot_band underflow_bands[] = {{0.005, "#a6d8b4", "good: below 0.5 %"},
                                                   {0.02, "#ead96b", "warning: to 2 %"},
                                                   {0.04, "#ee8a3c", "critical: to 4 %"},
                                                   {INFINITY, "#bb2211", "severe"}};

static const struct plot_band error_bands[] = {{0.02, "#e3edf7", "below 2 %"},
                                               {0.04, "#a9c8e4", "to 4 %"},
                                               {0.08, "#5b97c9", "to 8 %"},
                                               {0.16, "#22619f", "to 16 %"},
                                               {INFINITY, "#0b2d59", "more"}};

enum { UNDERFLOW_BANDS = sizeof underflow_bands / sizeof underflow_bands[0] };
enum { ERROR_BANDS = sizeof error_bands / sizeof error_bands[0] };

/* -- Text -------------------------------------------------------------------------------------------------------- */

static const char *guidance(double underflow)
{
    static const char *const words[UNDERFLOW_BANDS] = {"good", "a warning", "critical", "severe"};
    int band = 0;
    while (band < UNDERFLOW_BANDS - 1 && underflow >= underflow_bands[band].below)
        band++;
    return words[band];
}

/* Returns the worst of layers[first .. end - 1] by underflow; NULL: none has a number. */
static const struct history_layer *worst_of(const struct run_history *history, int64_t first, int64_t end)
{
    const struct history_layer *worst = NULL;
    for (int64_t i = first; i < end; i++)
        if (!isnan(history->layers[i].underflow) && (worst == NULL || history->layers[i].underflow > worst->underflow))
            worst = &history->layers[i];
    return worst;
}

char *quantization_report_text(const struct run_history *history)
{
    int64_t first = history->layer_count;
    while (first > 0 && history->layers[first - 1].step == history->layers[history->layer_count - 1].step)
        first--;
    const struct history_layer *worst = worst_of(history, 0, history->layer_count);
    const struct history_layer *last = worst_of(history, first, history->layer_count);
    if (last == NULL)
        return NULL;
    char *at = thousands_text(worst->step), *now = thousands_text(last->step);
    char *text =
        memory_format("%.2f %% at most, in layer %d, %s, at step %s (%s); at step %s %.2f %% in layer %d, %s (%s)",
                      100 * worst->underflow, worst->layer, worst->linear, at, guidance(worst->underflow), now,
                      100 * last->underflow, last->layer, last->linear, guidance(last->underflow));
    free(at);
    free(now);
    return text;
}

/* -- Maps -------------------------------------------------------------------------------------------------------- */

static int compare_integers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts values and removes duplicates; returns the number left. */
static int64_t sort_once(int64_t *values, int64_t count)
{
    int64_t kept = 0;
    qsort(values, (size_t)count, sizeof *values, compare_integers);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || values[i] != values[kept - 1])
            values[kept++] = values[i];
    return kept;
}

static int64_t place_of(const int64_t *values, int64_t count, int64_t value)
{
    const int64_t *found = bsearch(&value, values, (size_t)count, sizeof *values, compare_integers);
    return found - values;
}

/* A map: rows are layers, columns are steps. If there are many steps, a column is a few consecutive ones, and a cell
 * their worst value. */
struct cells {
    int64_t *layers, *steps, *columns; /* unique, ascending; columns: the first step of each */
    int64_t rows, step_count, column_count;
    double *underflow, *error; /* [rows][column_count] */
};

static void keep_maximum(double *cell, double value)
{
    *cell = isnan(*cell) || value > *cell ? value : *cell;
}

static void create_cells(struct cells *cells, const struct run_history *history)
{
    const int64_t count = history->layer_count;
    *cells = (struct cells){.layers = memory_allocate(count * (int64_t)sizeof(int64_t)),
                            .steps = memory_allocate(count * (int64_t)sizeof(int64_t))};
    for (int64_t i = 0; i < count; i++) {
        cells->layers[i] = history->layers[i].layer;
        cells->steps[i] = history->layers[i].step;
    }
    cells->rows = sort_once(cells->layers, count);
    cells->step_count = sort_once(cells->steps, count);
    cells->column_count = MIN(cells->step_count, COLUMNS);
    cells->columns = memory_allocate(cells->column_count * (int64_t)sizeof(int64_t));
    for (int64_t s = cells->step_count - 1; s >= 0; s--)
        cells->columns[s * cells->column_count / cells->step_count] = cells->steps[s];
    const int64_t all = cells->rows * cells->column_count;
    cells->underflow = memory_allocate(all * (int64_t)sizeof(double));
    cells->error = memory_allocate(all * (int64_t)sizeof(double));
    for (int64_t i = 0; i < all; i++)
        cells->underflow[i] = cells->error[i] = NAN;
    for (int64_t i = 0; i < count; i++) {
        const struct history_layer *layer = &history->layers[i];
        int64_t row = place_of(cells->layers, cells->rows, layer->layer);
        int64_t column =
            place_of(cells->steps, cells->step_count, layer->step) * cells->column_count / cells->step_count;
        keep_maximum(&cells->underflow[row * cells->column_count + column], layer->underflow);
        keep_maximum(&cells->error[row * cells->column_count + column], layer->error);
    }
}

static void destroy_cells(struct cells *cells)
{
    memory_free(cells->layers);
    memory_free(cells->steps);
    memory_free(cells->columns);
    memory_free(cells->underflow);
    memory_free(cells->error);
}

static void write_map(FILE *file, const struct cells *cells, const char *title, const double *values,
                      const struct plot_band *bands, int band_count)
{
    plot_write_map(file, &(struct plot_map){title, "step", "layer", values, cells->rows, cells->column_count,
                                            cells->layers, cells->columns, bands, band_count});
}

void quantization_report_write(FILE *file, const struct run_history *history)
{
    if (history->layer_count == 0)
        return;
    struct cells cells;
    create_cells(&cells, history);
    fputs("<h2>Quantization error</h2>\n<p>For each layer, the worst of its linear layers", file);
    if (cells.column_count < cells.step_count) {
        char *steps = thousands_text(cells.step_count);
        fprintf(file, "; %s steps were measured, and a cell is the worst of several consecutive ones", steps);
        free(steps);
    }
    fputs(". Gradients that underflow are lost: under 0.5 % is good, over 4 % severe; then leave those layers in "
          "precision.compute, or use scales of smaller blocks. Rounding to e4m3 alone changes values by about 2.6 %, "
          "to e5m2 by 5.2 %.</p>\n",
          file);
    write_map(file, &cells, "share of gradients that underflow to 0", cells.underflow, underflow_bands,
              UNDERFLOW_BANDS);
    write_map(file, &cells, "relative error of inputs, weights and gradients", cells.error, error_bands, ERROR_BANDS);
    destroy_cells(&cells);
}
