#include "report/plot.h"
#include "base/memory.h"
#include "base/thousands.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Pixels: size of the picture, and the frame of the axes in it. */
enum { PICTURE_WIDTH = 720, PICTURE_HEIGHT = 270, LEFT = 76, TOP = 30, WIDTH = 630, HEIGHT = 190 };
enum { TICKS = 6, BARS = 40, TEXT_MARGIN = 10 };

struct range {
    double low, high;
};

/* Paul Tol's bright colours. */
const char *plot_color(int series)
{
    static const char *const colors[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"};
    return colors[series % (int)(sizeof colors / sizeof *colors)];
}

/* -- Ranges and ticks -------------------------------------------------------------------------------------------- */

/* Larger values are not drawn, so that differences and products of drawn values are finite whatever the log says. */
static const double LARGEST = 1e100;

static bool is_drawn(double value)
{
    return fabs(value) <= LARGEST; /* false for NaN */
}

static void range_take(struct range *range, double value)
{
    if (!is_drawn(value))
        return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

/* Widens a range that is empty or too narrow for ticks. */
static struct range range_open(struct range range)
{
    if (range.low > range.high)
        return (struct range){0, 1};
    double size = fmax(fabs(range.low), fabs(range.high));
    if (range.high - range.low <= 1e-9 * size || range.high - range.low < 1 / LARGEST) {
        double half = size > 1 / LARGEST ? size / 20 : 0.5;
        return (struct range){range.low - half, range.high + half};
    }
    return range;
}

static void plot_ranges(const struct line_plot *plot, struct range *x, struct range *y)
{
    *x = *y = (struct range){INFINITY, -INFINITY};
    for (int s = 0; s < plot->series_count; s++)
        for (int64_t i = 0; i < plot->series[s].count; i++) {
            range_take(x, plot->series[s].x[i]);
            range_take(y, plot->series[s].y[i]);
        }
    *x = range_open(*x);
    const bool given = plot->low < plot->high && is_drawn(plot->low) && is_drawn(plot->high);
    *y = range_open(given ? (struct range){plot->low, plot->high} : *y);
    double margin = given ? 0 : (y->high - y->low) / 20;
    if (y->low < 0 || y->low > margin) /* a range that begins at 0 still does */
        y->low -= margin;
    y->high += margin;
}

/* Returns a distance of ticks, 1, 2 or 5 times a power of ten, with at most TICKS in the range. whole: an integer. */
static double tick_distance(struct range range, bool whole)
{
    double least = (range.high - range.low) / TICKS, power = pow(10, floor(log10(least)));
    double distance = power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
    return whole ? fmax(1, distance) : distance;
}

static double place(struct range range, double value)
{
    return (value - range.low) / (range.high - range.low);
}

/* Returns a tick's number; integers from 1,000 on with commas. Freed with free(). */
static char *tick_text(double tick, double distance)
{
    double value = fabs(tick) < distance * 1e-6 ? 0 : tick;
    bool whole = fabs(value) >= 1000 && fabs(value) < 1e15 && fabs(value - round(value)) < distance * 1e-6;
    return whole ? thousands_text(llround(value)) : memory_format("%.6g", value);
}

/* Returns what the axis y leaves out, such as "values up to 5.582 lie above"; NULL: nothing. Freed with free(). */
static char *left_out(const struct line_plot *plot, struct range y)
{
    struct range all = {INFINITY, -INFINITY};
    int64_t odd = 0;
    for (int s = 0; s < plot->series_count; s++)
        for (int64_t i = 0; i < plot->series[s].count; i++) {
            range_take(&all, plot->series[s].y[i]);
            odd += s == 0 && !isfinite(plot->series[s].y[i]); /* the others repeat these values or are independent */
        }
    char above[64] = "", below[64] = "", none[64] = "";
    if (all.high > y.high)
        snprintf(above, sizeof above, "values up to %.4g lie above", all.high);
    if (all.low < y.low)
        snprintf(below, sizeof below, "values down to %.4g lie below", all.low);
    if (odd > 0)
        snprintf(none, sizeof none, odd == 1 ? "%lld value is not a number" : "%lld values are not numbers",
                 (long long)odd);
    if (above[0] == '\0' && below[0] == '\0' && none[0] == '\0')
        return NULL;
    return memory_format("%s%s%s%s%s", above, above[0] != '\0' && below[0] != '\0' ? ", " : "", below,
                         (above[0] != '\0' || below[0] != '\0') && none[0] != '\0' ? ", " : "", none);
}

/* -- SVG --------------------------------------------------------------------------------------------------------- */

void plot_write_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else
            fputc((unsigned char)*text < ' ' && *text != '\n' ? ' ' : *text,
                  file); /* XML forbids most control characters */
}

static void write_label(FILE *file, double x, double y, const char *anchor, const char *class, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    plot_write_escaped(file, text);
    fputs("</text>\n", file);
}

static void write_segment(FILE *file, double x1, double y1, double x2, double y2, const char *color, const char *more)
{
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s/>\n", x1, y1, x2, y2, color,
            more);
}

/* Writes the picture's frame, title, ticks and labels. Later elements are clipped to the frame, with its upper left
 * corner as the origin. */
static void begin_picture(FILE *file, const char *title, const char *x_label, bool whole, struct range x,
                          struct range y)
{
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\">\n",
            PICTURE_WIDTH, PICTURE_HEIGHT);
    write_label(file, LEFT, TOP - 12, "start", "title", title);
    write_label(file, LEFT + WIDTH / 2, PICTURE_HEIGHT - 8, "middle", "label", x_label);
    double distance = tick_distance(x, whole);
    for (double tick = ceil(x.low / distance) * distance; tick <= x.high + distance * 1e-6; tick += distance) {
        double at = LEFT + WIDTH * place(x, tick);
        char *text = tick_text(tick, distance);
        write_segment(file, at, TOP, at, TOP + HEIGHT, "#e4e4e4", "");
        write_label(file, at, TOP + HEIGHT + 16, "middle", "tick", text);
        free(text);
    }
    distance = tick_distance(y, false);
    for (double tick = ceil(y.low / distance) * distance; tick <= y.high + distance * 1e-6; tick += distance) {
        double at = TOP + HEIGHT * (1 - place(y, tick));
        char *text = tick_text(tick, distance);
        write_segment(file, LEFT, at, LEFT + WIDTH, at, "#e4e4e4", "");
        write_label(file, LEFT - 6, at + 4, "end", "tick", text);
        free(text);
    }
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n", LEFT, TOP,
            WIDTH, HEIGHT);
    fprintf(file, "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\">\n", LEFT, TOP, WIDTH, HEIGHT);
}

static void end_picture(FILE *file)
{
    fputs("</svg>\n", file);
}

/* Averages the points that share a pixel column; returns the number of means. x, y: [count] results. */
static int64_t thin(const struct plot_series *series, struct range range, double *x, double *y)
{
    int64_t kept = 0, members = 0;
    int column = -1;
    for (int64_t i = 0; i < series->count; i++) {
        int own = (int)(WIDTH * place(range, series->x[i]));
        if (kept > 0 && own == column && is_drawn(series->y[i]) && is_drawn(y[kept - 1])) {
            members++;
            x[kept - 1] += (series->x[i] - x[kept - 1]) / (double)members;
            y[kept - 1] += (series->y[i] - y[kept - 1]) / (double)members;
            continue;
        }
        x[kept] = series->x[i];
        y[kept++] = series->y[i];
        column = own;
        members = 1;
    }
    return kept;
}

static void write_line(FILE *file, const struct plot_series *series, struct range x, struct range y)
{
    double *xs = memory_allocate(series->count * (int64_t)sizeof *xs);
    double *ys = memory_allocate(series->count * (int64_t)sizeof *ys);
    int64_t count = thin(series, x, xs, ys);
    fprintf(file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-opacity=\"%s\" d=\"", series->color,
            series->style == PLOT_FAINT_LINE ? "0.35" : "1");
    bool drawing = false;
    for (int64_t i = 0; i < count; i++) {
        if (is_drawn(ys[i]))
            fprintf(file, "%c%.1f %.1f", drawing ? 'L' : 'M', WIDTH * place(x, xs[i]), HEIGHT * (1 - place(y, ys[i])));
        drawing = is_drawn(ys[i]);
    }
    fputs("\"/>\n", file);
    memory_free(xs);
    memory_free(ys);
}

static void write_points(FILE *file, const struct plot_series *series, struct range x, struct range y)
{
    for (int64_t i = 0; i < series->count; i++)
        if (is_drawn(series->y[i]))
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", WIDTH * place(x, series->x[i]),
                    HEIGHT * (1 - place(y, series->y[i])), series->color);
}

enum { SAMPLE = 18, SAMPLE_GAP = 5, LEGEND_LETTER = 6 /* a letter is rarely wider */, LEGEND_ROW = 15 };

static bool in_legend(const struct plot_series *series)
{
    return series->name != NULL && series->count > 0;
}

/* Writes a sample of the series and its name; x, y: the left end of its base line. */
static void write_legend_entry(FILE *file, const struct plot_series *series, double x, double y)
{
    if (series->style == PLOT_POINTS)
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x + SAMPLE - 4, y - 4, series->color);
    else
        write_segment(file, x, y - 4, x + SAMPLE, y - 4, series->color,
                      series->style == PLOT_FAINT_LINE ? " stroke-width=\"3\" stroke-opacity=\"0.35\""
                                                       : " stroke-width=\"3\"");
    write_label(file, x + SAMPLE + SAMPLE_GAP, y, "start", "legend", series->name);
}

/* Writes the legend right-aligned above the frame: for each series a sample and its name. Where that would reach into
 * the title, it is a list in the upper right corner of the frame. */
static void write_legend(FILE *file, const struct line_plot *plot)
{
    enum { APART = 14, MARGIN = 8 };
    const double letter = 5.6, title_letter = 7.6; /* average widths */
    double length = -APART, longest = 0;
    int entries = 0;
    for (int s = 0; s < plot->series_count; s++) {
        if (!in_legend(&plot->series[s]))
            continue;
        const double name = (double)strlen(plot->series[s].name);
        length += SAMPLE + SAMPLE_GAP + letter * name + APART;
        longest = fmax(longest, SAMPLE + SAMPLE_GAP + LEGEND_LETTER * name);
        entries++;
    }
    const bool is_list = entries > 1 && length + title_letter * (double)strlen(plot->title) + APART > WIDTH;
    double x = LEFT + WIDTH - (is_list ? longest + MARGIN : length), y = is_list ? TOP + MARGIN + 10 : TOP - 12;
    if (is_list)
        fprintf(file,
                "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#ffffff\" fill-opacity=\"0.8\"/>\n",
                x - MARGIN / 2, TOP + MARGIN / 2, longest + MARGIN, entries * LEGEND_ROW + MARGIN / 2);
    for (int s = 0; s < plot->series_count; s++) {
        if (!in_legend(&plot->series[s]))
            continue;
        write_legend_entry(file, &plot->series[s], x, y);
        if (is_list)
            y += LEGEND_ROW;
        else
            x += SAMPLE + SAMPLE_GAP + letter * (double)strlen(plot->series[s].name) + APART;
    }
}

void plot_write_svg(FILE *file, const struct line_plot *plot)
{
    struct range x, y;
    plot_ranges(plot, &x, &y);
    begin_picture(file, plot->title, plot->x_label, plot->whole, x, y);
    for (int64_t i = 0; i < plot->mark_count; i++) {
        double at = WIDTH * place(x, plot->marks[i]);
        write_segment(file, at, 0, at, HEIGHT, "#444444", " stroke-dasharray=\"4 3\"");
    }
    for (int s = 0; s < plot->series_count; s++)
        if (plot->series[s].style == PLOT_POINTS)
            write_points(file, &plot->series[s], x, y);
        else
            write_line(file, &plot->series[s], x, y);
    end_picture(file);
    write_legend(file, plot);
    char *outside = left_out(plot, y);
    if (outside != NULL)
        write_label(file, LEFT + WIDTH, PICTURE_HEIGHT - 8, "end", "label", outside);
    free(outside);
    end_picture(file);
}

const char plot_style[] =
    ".plot text { font: 11px sans-serif; fill: #444444; } .plot .title { font-size: 14px; fill: #1a1a1a; }\n";

void plot_write_svg_file(FILE *file, const struct line_plot *plot)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n<style>%s</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            PICTURE_WIDTH, PICTURE_HEIGHT, plot_style);
    plot_write_svg(file, plot);
    end_picture(file);
}

void plot_write_histogram(FILE *file, const char *title, const char *x_label, const double *values, int64_t count,
                          double low, double high)
{
    double bars[BARS] = {0};
    struct range x = range_open((struct range){low, high}), y = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        double bar = BARS * place(x, values[i]);
        bars[bar < 0 ? 0 : bar < BARS ? (int)bar : BARS - 1]++;
    }
    for (int b = 0; b < BARS; b++)
        range_take(&y, bars[b] * 1.05);
    y = range_open(y);
    begin_picture(file, title, x_label, false, x, y);
    double width = (double)WIDTH / BARS;
    for (int b = 0; b < BARS; b++)
        if (bars[b] > 0)
            fprintf(file, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"#4477aa\"/>\n",
                    width * b + 0.5, HEIGHT * (1 - place(y, bars[b])), width - 1, HEIGHT * place(y, bars[b]));
    end_picture(file);
    end_picture(file);
}

/* -- Maps -------------------------------------------------------------------------------------------------------- */

static int band_of(const struct plot_map *map, double value)
{
    int band = 0;
    while (band < map->band_count - 1 && value >= map->bands[band].below)
        band++;
    return band;
}

/* Writes the cells; consecutive cells of a row with the same colour are one rectangle. */
static void write_cells(FILE *file, const struct plot_map *map, double height)
{
    const double width = (double)WIDTH / (double)map->columns;
    for (int64_t row = 0; row < map->rows; row++) {
        const double *values = map->values + row * map->columns;
        for (int64_t first = 0, end; first < map->columns; first = end) {
            end = first + 1;
            if (isnan(values[first]))
                continue;
            const int band = band_of(map, values[first]);
            while (end < map->columns && !isnan(values[end]) && band_of(map, values[end]) == band)
                end++;
            fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                    LEFT + width * (double)first, TOP + height * (double)(map->rows - 1 - row),
                    width * (double)(end - first), height, map->bands[band].color);
        }
    }
}

/* Writes at most `most` numbers of an axis, each at the centre of its cell. */
static void write_numbers(FILE *file, const int64_t *numbers, int64_t count, int64_t most, double x, double y,
                          double dx, double dy, const char *anchor)
{
    const int64_t every = (count + most - 1) / most;
    for (int64_t i = 0; i < count; i += every) {
        char *text = thousands_text(numbers[i]);
        write_label(file, x + dx * ((double)i + 0.5), y + dy * ((double)i + 0.5), anchor, "tick", text);
        free(text);
    }
}

void plot_write_map(FILE *file, const struct plot_map *map)
{
    enum { TALLEST = 14, LINE = 14, LEGEND = 20, SAMPLE = 12, APART = 12 };
    const double letter = 5.6, row = fmax(2, fmin(TALLEST, 2.0 * HEIGHT / (double)map->rows));
    const double height = row * (double)map->rows, bottom = TOP + height;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 %d %.0f\" role=\"img\">\n",
            PICTURE_WIDTH, bottom + 36 + LEGEND);
    write_label(file, LEFT, TOP - 12, "start", "title", map->title);
    write_label(file, LEFT - 6, TOP - 12, "end", "label", map->y_label);
    write_label(file, LEFT + WIDTH / 2, bottom + 32, "middle", "label", map->x_label);
    write_cells(file, map, row);
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%.1f\" fill=\"none\" stroke=\"#888888\"/>\n", LEFT,
            TOP, WIDTH, height);
    write_numbers(file, map->row_numbers, map->rows, (int64_t)fmax(1, height / LINE), LEFT - 6, bottom + 4, 0, -row,
                  "end");
    write_numbers(file, map->column_numbers, map->columns, 2 * TICKS, LEFT, bottom + 16,
                  (double)WIDTH / (double)map->columns, 0, "middle");
    double at = LEFT;
    for (int band = 0; band < map->band_count; band++) {
        fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", at,
                bottom + 26 + LEGEND - SAMPLE, SAMPLE, SAMPLE, map->bands[band].color);
        write_label(file, at + SAMPLE + 4, bottom + 24 + LEGEND, "start", "legend", map->bands[band].name);
        at += SAMPLE + 4 + letter * (double)strlen(map->bands[band].name) + APART;
    }
    end_picture(file);
}

/* -- Characters -------------------------------------------------------------------------------------------------- */

static void put_character(char *grid, int width, int height, double x, double y, char character)
{
    if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1)) /* also rejects NaN */
        return;
    int column = (int)(x * (width - 1) + 0.5), row = (int)((1 - y) * (height - 1) + 0.5);
    grid[row * width + column] = character;
}

void plot_write_text(FILE *file, const struct line_plot *plot, int width, int height)
{
    static const char characters[] = ".*o+x";
    struct range x, y;
    plot_ranges(plot, &x, &y);
    char *grid = memory_allocate((int64_t)width * height);
    memset(grid, ' ', (size_t)(width * height));
    for (int64_t i = 0; i < plot->mark_count; i++)
        for (int row = 0; row < height; row++)
            put_character(grid, width, height, place(x, plot->marks[i]), (double)row / (height - 1), '|');
    for (int s = 0; s < plot->series_count; s++)
        for (int64_t i = 0; i < plot->series[s].count; i++)
            if (is_drawn(plot->series[s].y[i]))
                put_character(grid, width, height, place(x, plot->series[s].x[i]), place(y, plot->series[s].y[i]),
                              characters[s % 5]);
    fprintf(file, "%s\n", plot->title);
    for (int row = 0; row < height; row++) {
        int used = width;
        while (used > 0 && grid[row * width + used - 1] == ' ')
            used--;
        double value = y.high - (y.high - y.low) * row / (height - 1);
        if (row % 4 == 0 || row == height - 1)
            fprintf(file, "%*.4g |%.*s\n", TEXT_MARGIN, value, used, grid + row * width);
        else
            fprintf(file, "%*s |%.*s\n", TEXT_MARGIN, "", used, grid + row * width);
    }
    fprintf(file, "%*s +", TEXT_MARGIN, "");
    for (int column = 0; column < width; column++)
        fputc('-', file);
    char *from = tick_text(x.low, 1), *to = tick_text(x.high, 1);
    fprintf(file, "\n%*s%-*s%s (%s)\n", TEXT_MARGIN + 2, "", width - 6, from, to, plot->x_label);
    free(from);
    free(to);
    for (int s = 0; s < plot->series_count; s++)
        if (plot->series[s].name != NULL && plot->series[s].count > 0)
            fprintf(file, "%*s%c %s\n", TEXT_MARGIN + 2, "", characters[s % 5], plot->series[s].name);
    if (plot->mark_count > 0)
        fprintf(file, "%*s| restart\n", TEXT_MARGIN + 2, "");
    char *outside = left_out(plot, y);
    if (outside != NULL)
        fprintf(file, "%*s  (%s)\n", TEXT_MARGIN + 2, "", outside);
    free(outside);
    memory_free(grid);
}
