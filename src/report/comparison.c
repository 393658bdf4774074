#include "report/comparison.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/path.h"
#include "file/run_folder.h"
#include "base/thousands.h"
#include "deck/deck.h"
#include "file/atomic_file.h"
#include "checkpoint/lock.h"
#include "report/curves.h"
#include "report/history.h"
#include "report/page.h"
#include "report/throughput.h"
#include "report/time_to_train.h"
#include "report/verdict.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_WIDTH = 72, TEXT_HEIGHT = 17 };

struct compared_run {
    char letter[2];
    char *folder; /* owned */
    struct run_history history;
    struct loss_curves curves;
    struct throughput speed;
    struct run_verdict verdict;
    struct deck *deck; /* NULL: missing or unreadable */
    double *hours;     /* [rows] hours trained until each row, owned */
};

struct comparison_row {
    char *name;
    char *cells[COMPARISON_RUNS]; /* one per run; owned */
};

struct rows {
    struct comparison_row *rows;
    int count;
};

struct comparison {
    const struct comparison_settings *settings;
    struct compared_run *runs;
    int count;
    struct rows facts, keys;
};

/* -- Rows --------------------------------------------------------------------------------------------------------- */

/* Adds a row. Fill its cells before adding the next one. name: allocated text, which the row then owns. */
static struct comparison_row *add_row(struct rows *rows, char *name)
{
    rows->rows = memory_grow(rows->rows, (rows->count + 1) * (int64_t)sizeof *rows->rows);
    struct comparison_row *row = &rows->rows[rows->count++];
    *row = (struct comparison_row){.name = name};
    return row;
}

static void destroy_rows(struct rows *rows, int runs)
{
    for (struct comparison_row *row = rows->rows; row < rows->rows + rows->count; row++) {
        for (int r = 0; r < runs; r++)
            free(row->cells[r]);
        free(row->name);
    }
    free(rows->rows);
}

/* Returns "1,234,567", or the value with `digits` decimals; "-" if it is not finite. */
static char *number_text(double value, int digits)
{
    if (!isfinite(value))
        return memory_string("-");
    return digits > 0 || fabs(value) >= 1e15 ? memory_format("%.*f", digits, value) : thousands_text(llround(value));
}

static char *duration_text(double seconds)
{
    char text[DURATION_BYTES] = "-";
    if (isfinite(seconds))
        duration_print(text, seconds);
    return memory_string(text);
}

/* Returns a number of a run, for a row of the table. */
typedef double number_of(const struct compared_run *run, int which);

static void add_numbers(struct comparison *c, const char *name, number_of *of, int which, int digits)
{
    struct comparison_row *row = add_row(&c->facts, memory_string(name));
    for (int r = 0; r < c->count; r++)
        row->cells[r] = number_text(of(&c->runs[r], which), digits);
}

static const struct history_start *last_start(const struct compared_run *run)
{
    return run->history.start_count > 0 ? &run->history.starts[run->history.start_count - 1] : NULL;
}

static double size_of(const struct compared_run *run, int which)
{
    const struct history_start *start = last_start(run);
    return start == NULL ? NAN : which == 0 ? (double)start->ranks : (double)start->parameters;
}

/* Returns a number of the last row: the step, the loss, or the tokens without padding. */
static double last_of(const struct compared_run *run, int which)
{
    if (run->history.row_count == 0)
        return NAN;
    const struct history_row *row = &run->history.rows[run->history.row_count - 1];
    const double values[] = {(double)row->step, row->numbers.mean_loss, row->numbers.unpadded};
    return values[which];
}

static double best_of(const struct compared_run *run, int which)
{
    const struct history_validation *best = history_best(&run->history);
    return best == NULL ? NAN : which == 0 ? best->loss : (double)best->step;
}

static double step_of(const struct compared_run *run, int which)
{
    const double times[] = {run->speed.least, run->speed.median, run->speed.most};
    return times[which];
}

static double rate_of(const struct compared_run *run, int which)
{
    const double rates[] = {run->speed.rate, run->speed.rate / size_of(run, 0), run->speed.padded_rate};
    return rates[which];
}

static double utilisation_of(const struct compared_run *run, int which)
{
    return 100 * run->speed.utilisation[which];
}

static double waited_of(const struct compared_run *run, int which)
{
    (void)which;
    return 100 * run->speed.waited;
}

static double memory_of(const struct compared_run *run, int which)
{
    const struct history_peaks peaks = history_peaks(&run->history);
    return (which == 0 ? peaks.memory : peaks.device_memory) / (1 << 20);
}

/* -- The table ---------------------------------------------------------------------------------------------------- */

static const char *device_of(const struct history_start *start)
{
    return start->device_name[0] != '\0' ? start->device_name : start->device;
}

static void add_programs(struct comparison *c)
{
    struct comparison_row *row = add_row(&c->facts, memory_string("verdict"));
    for (int r = 0; r < c->count; r++)
        row->cells[r] = memory_string(c->runs[r].verdict.word);
    row = add_row(&c->facts, memory_string("program"));
    for (int r = 0; r < c->count; r++)
        row->cells[r] = memory_string(last_start(&c->runs[r]) != NULL ? last_start(&c->runs[r])->version : "-");
    row = add_row(&c->facts, memory_string("device"));
    for (int r = 0; r < c->count; r++)
        row->cells[r] = memory_string(last_start(&c->runs[r]) != NULL ? device_of(last_start(&c->runs[r])) : "-");
    add_numbers(c, "ranks", size_of, 0, 0);
    add_numbers(c, "parameters", size_of, 1, 0);
}

static void add_speeds(struct comparison *c)
{
    add_numbers(c, "speed, tokens/s", rate_of, 0, 0);
    add_numbers(c, "a rank, tokens/s", rate_of, 1, 0);
    add_numbers(c, "with padding, tokens/s", rate_of, 2, 0);
    add_numbers(c, "step, shortest, s", step_of, 0, 4);
    add_numbers(c, "step, median, s", step_of, 1, 4);
    add_numbers(c, "step, longest, s", step_of, 2, 4);
    for (int f = 0; f < FLOPS_CONVENTIONS; f++) {
        char *name = memory_format("MFU %s, %%", flops_name((enum flops_convention)f));
        add_numbers(c, name, utilisation_of, f, 2);
        free(name);
    }
    add_numbers(c, "data wait, %", waited_of, 0, 2);
    add_numbers(c, "memory, MiB", memory_of, 0, 0);
    add_numbers(c, "GPU memory, MiB", memory_of, 1, 0);
}

/* Returns "1:02:03 (step 1,200)", with a star if it is from the training loss. */
static char *reached_text(const struct compared_run *run, double target)
{
    const struct time_to_loss t = time_to_loss(&run->history, &run->curves, target);
    if (!t.reached)
        return memory_format("not yet%s", t.validated ? "" : " *");
    char *time = duration_text(t.seconds), *step = thousands_text(t.step);
    char *text = memory_format("%s (step %s)%s", time, step, t.validated ? "" : " *");
    free(time);
    free(step);
    return text;
}

static void add_days(struct comparison *c, double tokens)
{
    struct comparison_row *row = add_row(&c->facts, memory_format("days to %g tokens", tokens));
    for (int r = 0; r < c->count; r++)
        row->cells[r] = number_text(flops_days(tokens, c->runs[r].speed.rate), 2);
}

static void add_times(struct comparison *c)
{
    struct comparison_row *trained = add_row(&c->facts, memory_string("trained"));
    for (int r = 0; r < c->count; r++)
        trained->cells[r] = duration_text(time_trained(&c->runs[r].history, INFINITY));
    if (!isnan(c->settings->target)) {
        struct comparison_row *reached = add_row(&c->facts, memory_format("time to loss %g", c->settings->target));
        for (int r = 0; r < c->count; r++)
            reached->cells[r] = reached_text(&c->runs[r], c->settings->target);
    }
    add_days(c, FLOPS_QUOTED_TOKENS);
    if (c->settings->tokens > 0 && c->settings->tokens != FLOPS_QUOTED_TOKENS)
        add_days(c, c->settings->tokens);
}

static void gather_facts(struct comparison *c)
{
    add_programs(c);
    add_numbers(c, "steps", last_of, 0, 0);
    add_numbers(c, "tokens, no padding", last_of, 2, 0);
    add_numbers(c, "training loss", last_of, 1, 6);
    add_numbers(c, "best validation", best_of, 0, 6);
    add_numbers(c, "at step", best_of, 1, 0);
    add_speeds(c);
    add_times(c);
}

/* -- Keys that differ --------------------------------------------------------------------------------------------- */

static bool is_listed(const struct rows *rows, const char *key)
{
    for (int i = 0; i < rows->count; i++)
        if (strcmp(rows->rows[i].name, key) == 0)
            return true;
    return false;
}

static void add_key(struct comparison *c, const char *key)
{
    if (strcmp(key, "output.folder") == 0 || is_listed(&c->keys, key))
        return;
    struct comparison_row *row = add_row(&c->keys, memory_string(key));
    for (int r = 0; r < c->count; r++)
        row->cells[r] = c->runs[r].deck != NULL ? deck_key_text(c->runs[r].deck, key) : memory_string("-");
}

static void gather_keys(struct comparison *c)
{
    const struct deck *first = NULL;
    for (int r = 0; r < c->count; r++) {
        const struct deck *deck = c->runs[r].deck;
        first = first != NULL ? first : deck;
        if (deck == NULL || deck == first)
            continue;
        struct deck_changes changes = deck_compare(first, deck);
        for (int i = 0; i < changes.count; i++)
            add_key(c, changes.changes[i].key);
        deck_changes_destroy(&changes);
    }
}

/* -- Curves ------------------------------------------------------------------------------------------------------- */

/* The smoothed training losses of all runs, followed by their validations. x: steps, or hours trained. */
struct overlay {
    struct plot_series series[2 * COMPARISON_RUNS];
    double *validations[COMPARISON_RUNS]; /* hours trained until each validation; owned */
    struct line_plot plot;
};

static void create_overlay(struct overlay *overlay, const struct comparison *c, bool over_time)
{
    *overlay = (struct overlay){.plot = {.title = "loss, nats per label; points: validation",
                                         .x_label = over_time ? "hours trained" : "step",
                                         .series = overlay->series,
                                         .series_count = 2 * c->count,
                                         .low = INFINITY,
                                         .high = -INFINITY}};
    for (int r = 0; r < c->count; r++) {
        const struct compared_run *run = &c->runs[r];
        const struct loss_curves *curves = &run->curves;
        const char *color = plot_color(r);
        double *hours = memory_allocate((curves->validations + 1) * (int64_t)sizeof *hours);
        for (int64_t i = 0; i < curves->validations; i++)
            hours[i] = time_trained(&run->history, run->history.validations[i].time) / 3600;
        overlay->validations[r] = hours;
        overlay->series[r] = (struct plot_series){
            run->letter, color, PLOT_LINE, over_time ? run->hours : curves->step, curves->smooth, curves->rows};
        overlay->series[c->count + r] = (struct plot_series){NULL,
                                                             color,
                                                             PLOT_POINTS,
                                                             over_time ? hours : curves->validation_step,
                                                             curves->validation,
                                                             curves->validations};
        curves_late_range(curves, &overlay->plot.low, &overlay->plot.high);
    }
    const double margin = (overlay->plot.high - overlay->plot.low) / 10;
    overlay->plot.low -= margin;
    overlay->plot.high += margin;
}

static void destroy_overlay(struct overlay *overlay, const struct comparison *c)
{
    for (int r = 0; r < c->count; r++)
        memory_free(overlay->validations[r]);
}

static void write_overlay(FILE *file, const struct comparison *c, bool over_time)
{
    struct overlay *overlay = memory_allocate(sizeof *overlay);
    create_overlay(overlay, c, over_time);
    plot_write_svg(file, &overlay->plot);
    destroy_overlay(overlay, c);
    memory_free(overlay);
}

/* -- Page --------------------------------------------------------------------------------------------------------- */

static const char footnote[] = "* by the smoothed training loss: the log has no validation.";

static bool has_footnote(const struct comparison *c)
{
    for (int r = 0; r < c->count; r++)
        if (!isnan(c->settings->target) && c->runs[r].history.validation_count == 0)
            return true;
    return false;
}

static void write_rows(FILE *file, const struct comparison *c, const struct rows *rows)
{
    fputs("<table>\n<tr><th></th>", file);
    for (int r = 0; r < c->count; r++)
        fprintf(file, "<th class=\"number\">%s</th>", c->runs[r].letter);
    fputs("</tr>\n", file);
    for (int i = 0; i < rows->count; i++) {
        fputs("<tr><th>", file);
        plot_write_escaped(file, rows->rows[i].name);
        fputs("</th>", file);
        for (int r = 0; r < c->count; r++) {
            fputs("<td class=\"number\">", file);
            plot_write_escaped(file, rows->rows[i].cells[r]);
            fputs("</td>", file);
        }
        fputs("</tr>\n", file);
    }
    fputs("</table>\n", file);
}

static void write_page(FILE *file, const struct comparison *c)
{
    page_begin(file, "Runs side by side");
    fputs("<table>\n", file);
    for (int r = 0; r < c->count; r++) {
        fprintf(file, "<tr><th>%s</th><td>", c->runs[r].letter);
        plot_write_escaped(file, c->runs[r].folder);
        fputs("</td></tr>\n", file);
    }
    fputs("</table>\n<h2>Results</h2>\n", file);
    write_rows(file, c, &c->facts);
    fprintf(file, "<p>Speeds are of the median step of the last program without its first %lld.%s%s</p>\n",
            (long long)c->settings->warm_up, has_footnote(c) ? " " : "", has_footnote(c) ? footnote : "");
    fputs("<h2>Curves</h2>\n", file);
    write_overlay(file, c, false);
    write_overlay(file, c, true);
    fputs("<h2>Keys that differ</h2>\n", file);
    if (c->keys.count > 0)
        write_rows(file, c, &c->keys);
    else
        fputs("<p>None.</p>\n", file);
    page_end(file);
}

static int save_page(const struct comparison *c, const char *path)
{
    struct atomic_file atomic;
    int code = atomic_file_open_output(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    write_page(atomic.file, c);
    return atomic_file_close(&atomic, code);
}

/* -- Text --------------------------------------------------------------------------------------------------------- */

static int wider(int width, const char *text)
{
    return MAX((int)strlen(text), width);
}

static void print_rows(const struct comparison *c, const struct rows *rows)
{
    int names = 0, widths[COMPARISON_RUNS] = {0};
    for (int i = 0; i < rows->count; i++) {
        names = wider(names, rows->rows[i].name);
        for (int r = 0; r < c->count; r++)
            widths[r] = wider(widths[r], rows->rows[i].cells[r]);
    }
    printf("%-*s", names, "");
    for (int r = 0; r < c->count; r++)
        printf("  %*s", widths[r], c->runs[r].letter);
    printf("\n");
    for (int i = 0; i < rows->count; i++) {
        log_print(stdout, "%-*s", names, rows->rows[i].name);
        for (int r = 0; r < c->count; r++)
            log_print(stdout, "  %*s", widths[r], rows->rows[i].cells[r]);
        printf("\n");
    }
}

static void print_text(const struct comparison *c)
{
    for (int r = 0; r < c->count; r++)
        log_print(stdout, "%s  %s\n", c->runs[r].letter, c->runs[r].folder);
    printf("\n");
    print_rows(c, &c->facts);
    if (has_footnote(c))
        printf("%s\n", footnote);
    struct overlay *overlay = memory_allocate(sizeof *overlay);
    create_overlay(overlay, c, false);
    overlay->plot.title = "training loss, nats per label";
    overlay->plot.series_count = c->count; /* only lines: in the text plot, points would hide them */
    printf("\n");
    plot_write_text(stdout, &overlay->plot, TEXT_WIDTH, TEXT_HEIGHT);
    destroy_overlay(overlay, c);
    memory_free(overlay);
    printf("\nkeys that differ:%s\n", c->keys.count == 0 ? " none" : "");
    if (c->keys.count > 0)
        print_rows(c, &c->keys);
}

/* -- The whole command ------------------------------------------------------------------------------------------- */

/* Reads the deck next to a log; NULL: missing or unreadable. The log suffices without it. */
static struct deck *read_deck(const char *folder)
{
    struct deck *deck = deck_create();
    char *path = memory_format("%s/" RUN_DECK, folder);
    const bool good = deck_read(deck, path, NULL, 0, NULL) == ERROR_NONE;
    error_clear();
    free(path);
    if (!good)
        memory_free(deck);
    return good ? deck : NULL;
}

/* name: a folder, or a file in it. */
static int read_run(struct compared_run *run, const char *name, int number, int64_t warm_up)
{
    struct stat status;
    const bool is_folder = stat(name, &status) == 0 && S_ISDIR(status.st_mode);
    char *log = is_folder ? memory_format("%s/" RUN_LOG, name) : memory_string(name);
    const char *slash = strrchr(log, '/');
    run->letter[0] = (char)('A' + number);
    run->folder = slash != NULL ? memory_format("%.*s", (int)(slash - log), log) : memory_string(".");
    int code = access(log, F_OK) == 0 ? history_read(&run->history, log)
                                      : error_user("%s: %s%s", name,
                                                   is_folder ? "has no log.jsonl; name the output.folder of a run"
                                                             : "no such file or folder",
                                                   is_folder ? "" : path_seen_from(name));
    const bool says_nothing = run->history.start_count == 0 && run->history.row_count == 0;
    if (code == ERROR_NONE && run->history.damaged > 0 && says_nothing)
        code = error_user("%s: is not the log of a run; name its output.folder, or the log.jsonl in that", log);
    if (code == ERROR_NONE)
        history_warn(&run->history, log);
    free(log);
    if (code != ERROR_NONE)
        return code;
    curves_create(&run->curves, &run->history);
    run->speed = throughput_of(&run->history, warm_up);
    run->verdict = verdict_of(&run->history, lock_is_held(run->folder));
    run->deck = read_deck(run->folder);
    run->hours = memory_allocate((run->history.row_count + 1) * (int64_t)sizeof *run->hours);
    for (int64_t i = 0; i < run->history.row_count; i++)
        run->hours[i] = time_trained(&run->history, run->history.rows[i].numbers.time) / 3600;
    return ERROR_NONE;
}

static void destroy_run(struct compared_run *run)
{
    curves_destroy(&run->curves);
    history_destroy(&run->history);
    free(run->verdict.text);
    free(run->folder);
    memory_free(run->deck);
    memory_free(run->hours);
}

static int compare(struct comparison *c)
{
    gather_facts(c);
    gather_keys(c);
    int code = save_page(c, c->settings->out);
    if (code != ERROR_NONE)
        return code;
    print_text(c);
    log_print(stdout, "\nwritten: %s\n", c->settings->out);
    return ERROR_NONE;
}

int comparison_run(char *const runs[], int count, const struct comparison_settings *settings)
{
    if (count > COMPARISON_RUNS)
        return error_user("report: %d runs are more than the %d that fit side by side", count, COMPARISON_RUNS);
    struct comparison c = {.settings = settings, .count = count};
    int code = ERROR_NONE;
    c.runs = memory_allocate(count * (int64_t)sizeof *c.runs);
    for (int r = 0; r < count && code == ERROR_NONE; r++)
        code = read_run(&c.runs[r], runs[r], r, settings->warm_up);
    if (code == ERROR_NONE)
        code = compare(&c);
    destroy_rows(&c.facts, count);
    destroy_rows(&c.keys, count);
    for (int r = 0; r < count; r++)
        destroy_run(&c.runs[r]);
    memory_free(c.runs);
    return code;
}
