#include "sweep/scaling.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/path.h"
#include "file/atomic_file.h"
#include "report/plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct scaling_line {
    char *name;
    double *ranks, *values; /* [count] each, owned */
    int64_t count;
};

struct picture {
    enum sweep_scaling scaling;
    struct scaling_line *lines;
    int count;
    double ideal_ranks[2], ideal[2]; /* end points of the ideal line */
};

static int compare_ranks(const void *a, const void *b)
{
    const struct run_outcome *x = *(const struct run_outcome *const *)a, *y = *(const struct run_outcome *const *)b;
    return (x->ranks > y->ranks) - (x->ranks < y->ranks);
}

static double value_of(const struct run_outcome *o, const struct run_outcome *least, enum sweep_scaling scaling)
{
    const double share = o->rank_rate / least->rank_rate;
    return scaling == SWEEP_WEAK ? 100 * share : share * (double)o->ranks;
}

/* Adds the line of a series with first[count] measured cases, which it sorts. */
static void add_line(struct picture *picture, const struct run_outcome **first, int64_t count)
{
    picture->lines = memory_grow(picture->lines, (picture->count + 1) * (int64_t)sizeof *picture->lines);
    struct scaling_line *line = &picture->lines[picture->count++];
    qsort(first, (size_t)count, sizeof *first, compare_ranks);
    *line = (struct scaling_line){.name = outcome_label(first[0]), .count = count};
    line->ranks = memory_allocate(count * (int64_t)sizeof *line->ranks);
    line->values = memory_allocate(count * (int64_t)sizeof *line->values);
    for (int64_t i = 0; i < count; i++) {
        line->ranks[i] = (double)first[i]->ranks;
        line->values[i] = value_of(first[i], first[0], picture->scaling);
    }
    const bool strong = picture->scaling == SWEEP_STRONG;
    picture->ideal_ranks[0] = picture->count == 1 ? line->ranks[0] : fmin(picture->ideal_ranks[0], line->ranks[0]);
    picture->ideal_ranks[1] = fmax(picture->ideal_ranks[1], line->ranks[count - 1]);
    for (int end = 0; end < 2; end++)
        picture->ideal[end] = strong ? picture->ideal_ranks[end] : 100;
}

/* Gathers the lines of one kind of scaling; the cases of a series are consecutive. */
static void gather(struct picture *picture, const struct run_outcome *outcomes, int count)
{
    const struct run_outcome **members = memory_allocate((count + 1) * (int64_t)sizeof *members);
    for (int i = 0, next; i < count; i = next) {
        int64_t measured = 0;
        for (next = i; next < count && outcomes[next].series == outcomes[i].series; next++)
            if (isfinite(outcomes[next].rank_rate))
                members[measured++] = &outcomes[next];
        if (measured > 1 && strcmp(outcomes[i].scaling, sweep_scaling_names[picture->scaling]) == 0)
            add_line(picture, members, measured);
    }
    memory_free(members);
}

/* Writes the picture as a part of a page or as a complete SVG file. */
static void write_picture(FILE *file, const struct picture *picture, void (*write)(FILE *, const struct line_plot *))
{
    struct plot_series *series = memory_allocate((2 * picture->count + 1) * (int64_t)sizeof *series);
    int count = 0;
    double most = 0;
    series[count++] =
        (struct plot_series){"ideal", "#888888", PLOT_FAINT_LINE, picture->ideal_ranks, picture->ideal, 2};
    for (int l = 0; l < picture->count; l++) {
        const struct scaling_line *line = &picture->lines[l];
        const char *color = plot_color(l);
        series[count++] = (struct plot_series){line->name, color, PLOT_LINE, line->ranks, line->values, line->count};
        series[count++] = (struct plot_series){NULL, color, PLOT_POINTS, line->ranks, line->values, line->count};
        for (int64_t i = 0; i < line->count; i++)
            most = fmax(most, line->values[i]);
    }
    const char *title =
        picture->scaling == SWEEP_WEAK ? "weak: tokens/s of a rank, % of the fewest's" : "strong: speed-up";
    const struct line_plot plot = {.title = title,
                                   .x_label = "ranks",
                                   .whole = true,
                                   .series = series,
                                   .series_count = count,
                                   .low = 0,
                                   .high = 1.05 * fmax(most, picture->ideal[1])};
    write(file, &plot);
    memory_free(series);
}

static void destroy(struct picture *picture)
{
    for (int l = 0; l < picture->count; l++) {
        free(picture->lines[l].name);
        memory_free(picture->lines[l].ranks);
        memory_free(picture->lines[l].values);
    }
    free(picture->lines);
}

static int draw(const char *path, const struct picture *picture)
{
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    write_picture(atomic.file, picture, plot_write_svg_file);
    return atomic_file_close(&atomic, code);
}

void scaling_write(FILE *file, const struct run_outcome *outcomes, int count)
{
    for (int scaling = SWEEP_WEAK; scaling <= SWEEP_STRONG; scaling++) {
        struct picture picture = {.scaling = (enum sweep_scaling)scaling};
        gather(&picture, outcomes, count);
        if (picture.count > 0)
            write_picture(file, &picture, plot_write_svg);
        destroy(&picture);
    }
}

int scaling_draw(const char *folder, const struct run_outcome *outcomes, int count)
{
    int code = ERROR_NONE;
    for (int scaling = SWEEP_WEAK; scaling <= SWEEP_STRONG && code == ERROR_NONE; scaling++) {
        struct picture picture = {.scaling = (enum sweep_scaling)scaling};
        char *path = memory_format("%s/%s.svg", folder, sweep_scaling_names[scaling]);
        gather(&picture, outcomes, count);
        if (picture.count > 0)
            code = draw(path, &picture);
        destroy(&picture);
        free(path);
    }
    return code;
}
