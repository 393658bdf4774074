/* Plots as SVG for an HTML page, and as text. Values that are not finite leave a gap. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum plot_style { PLOT_LINE, PLOT_FAINT_LINE, PLOT_POINTS };

struct plot_series {
    const char *name; /* name in the legend; NULL: not in the legend */
    const char *color;
    enum plot_style style;
    const double *x, *y; /* [count], x ascending; borrowed */
    int64_t count;
};

struct line_plot {
    const char *title, *x_label;
    const struct plot_series *series;
    int series_count;
    const double *marks; /* vertical lines at these x */
    int64_t mark_count;
    double low, high; /* range of y; equal = the range of the series. The plot says what is outside */
    bool whole;       /* ticks of x are integers */
};

/* Writes a plot for a page. Points of a line that share a pixel column are drawn as their mean. */
void plot_write_svg(FILE *file, const struct line_plot *plot);
/* As plot_write_svg, as a complete SVG file. */
void plot_write_svg_file(FILE *file, const struct line_plot *plot);
/* The CSS rules that a page with these plots needs. */
extern const char plot_style[];
/* Returns a colour for series number `series` of a plot; there are six different ones. */
const char *plot_color(int series);
/* Writes a histogram: the number of values in each of equal bins of [low, high). Values outside count in the first or
 * last bin. */
void plot_write_histogram(FILE *file, const char *title, const char *x_label, const double *values, int64_t count,
                          double low, double high);
/* A colour for values below a bound that are not in an earlier band. */
struct plot_band {
    double below;
    const char *color, *name;
};

/* A heat map: cells in rows, the first at the bottom, and columns, each with the colour of its value's band. All
 * borrowed. */
struct plot_map {
    const char *title, *x_label, *y_label;
    const double *values; /* [rows][columns]; NaN: no cell */
    int64_t rows, columns;
    const int64_t *row_numbers, *column_numbers; /* labels of the rows and columns */
    const struct plot_band *bands;               /* in ascending order; the last bound is INFINITY */
    int band_count;
};

void plot_write_map(FILE *file, const struct plot_map *map);

/* Draws the plot with `width` x `height` characters, axes not included; the series use '.', '*', 'o', ... in order. */
void plot_write_text(FILE *file, const struct line_plot *plot, int width, int height);

/* Writes text with <, >, & and " escaped for HTML; line ends stay, other control characters become blanks. */
void plot_write_escaped(FILE *file, const char *text);

#endif
