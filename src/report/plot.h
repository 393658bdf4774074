/* Plots as SVG, to stand inside an HTML page, and as characters. Values that are not finite leave a gap. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum plot_style { PLOT_LINE, PLOT_FAINT_LINE, PLOT_POINTS };

struct plot_series {
    const char *name; /* in the legend; NULL leaves it out */
    const char *color;
    enum plot_style style;
    const double *x, *y; /* count of each, x rising; borrowed */
    int64_t count;
};

struct line_plot {
    const char *title, *x_label;
    const struct plot_series *series;
    int series_count;
    const double *marks; /* upright lines at these x */
    int64_t mark_count;
    double low, high; /* of y; equal = the series' own. The picture says what lies outside */
    bool whole;       /* ticks of x are whole numbers */
};

/* Many points of a line are drawn as means over as many parts of the width as can be told apart. */
void plot_write_svg(FILE *file, const struct line_plot *plot);
/* As a file of its own. */
void plot_write_svg_file(FILE *file, const struct line_plot *plot);
/* The rules (CSS) that a page with such pictures needs. */
extern const char plot_style[];
/* A colour for each of some series of one picture, which are told apart; after six they begin again. */
const char *plot_color(int series);
/* How many of the values fall into each of equal parts of [low, high); values beyond count to the outer parts. */
void plot_write_histogram(FILE *file, const char *title, const char *x_label, const double *values, int64_t count,
                          double low, double high);
/* Values below a bound, and not below the one before, have a colour. */
struct plot_band {
    double below;
    const char *color, *name;
};

/* Cells in rows, the first at the bottom, and columns, each in the colour of its value's band. All borrowed. */
struct plot_map {
    const char *title, *x_label, *y_label;
    const double *values; /* [rows][columns]; NaN: no cell */
    int64_t rows, columns;
    const int64_t *row_numbers, *column_numbers; /* what the axes say of each */
    const struct plot_band *bands;               /* the last one's bound is INFINITY */
    int band_count;
};

void plot_write_map(FILE *file, const struct plot_map *map);

/* `width` x `height` characters, axes not counted; series are drawn with '.', '*', 'o', ... in their order. */
void plot_write_text(FILE *file, const struct line_plot *plot, int width, int height);

/* Text with <, >, & and " written as HTML wants them, lines as they are, other control characters as blanks. */
void plot_write_escaped(FILE *file, const char *text);

#endif
