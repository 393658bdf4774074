#include "report/report.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/path.h"
#include "file/run_folder.h"
#include "base/quantile.h"
#include "base/text.h"
#include "base/thousands.h"
#include "deck/deck.h"
#include "file/atomic_file.h"
#include "checkpoint/lock.h"
#include "report/curves.h"
#include "report/history.h"
#include "report/page.h"
#include "report/quantization_report.h"
#include "report/verdict.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAXIMUM_FACTS = 40, TEXT_WIDTH = 72, TEXT_HEIGHT = 17 };

struct report_fact {
    char *name, *value; /* owned */
};

struct run_report {
    const char *folder;
    struct run_history history;
    struct run_verdict verdict;
    char *settings;     /* result of deck_print_changed, or why it is missing */
    char *model, *data; /* keys of the deck that say what is trained on what; "": the deck is missing */
    struct report_fact facts[MAXIMUM_FACTS];
    int fact_count;
    struct loss_curves curves;
};

/* -- Facts ------------------------------------------------------------------------------------------------------- */

/* value: allocated text, which the report then owns. */
static void add_fact(struct run_report *report, const char *name, char *value)
{
    CHECK_BUG(report->fact_count < MAXIMUM_FACTS);
    report->facts[report->fact_count++] = (struct report_fact){memory_string(name), value};
}

/* Returns the rounded value with commas. Freed with free(). */
static char *count_text(double value)
{
    return fabs(value) < 1e15 ? thousands_text(llround(value)) : memory_format("%g", value);
}

static void add_count_fact(struct run_report *report, const char *name, double value, const char *unit)
{
    char *count = count_text(value);
    add_fact(report, name, memory_format("%s%s", count, unit));
    free(count);
}

static char *report_date_text(double seconds)
{
    time_t whole = fabs(seconds) < 1e11 ? (time_t)seconds : 0;
    struct tm parts;
    char text[64];
    if (whole == 0 || gmtime_r(&whole, &parts) == NULL)
        return memory_string("unknown");
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return memory_string(text);
}

static void add_program_facts(struct run_report *report)
{
    const struct run_history *h = &report->history;
    if (h->start_count == 0)
        return;
    const struct history_start *first = &h->starts[0], *last = &h->starts[h->start_count - 1];
    add_fact(report, "program",
             memory_format("cistron %s, %lld rank%s of %lld thread%s, on %s%s%s", last->version, (long long)last->ranks,
                           plural(last->ranks), (long long)last->threads, plural(last->threads), last->host,
                           last->job[0] != '\0' ? ", job " : "", last->job));
    if (report->model[0] != '\0')
        add_fact(report, "model", memory_string(report->model));
    add_count_fact(report, "parameters", (double)last->parameters, "");
    if (report->data[0] != '\0')
        add_fact(report, "data", memory_string(report->data));
    add_fact(report, "started", report_date_text(first->time));
    char *steps = memory_string(report->curves.mark_count == 0 ? "none" : "");
    for (int64_t i = 0; i < report->curves.mark_count; i++) {
        char *step = count_text(report->curves.marks[i]);
        char *longer = memory_format("%s%s%s", steps, i == 0 ? "at step " : "; ", step);
        free(step);
        free(steps);
        steps = longer;
    }
    add_fact(report, "restarts", steps);
}

/* Adds a metric of a fine-tuning head: of the last validation, and the highest one. */
static void add_metric_fact(struct run_report *report, enum validation_metric metric)
{
    const struct run_history *h = &report->history;
    const struct history_validation *newest = &h->validations[h->validation_count - 1], *best = newest;
    for (int64_t i = 0; i < h->validation_count; i++)
        if (h->validations[i].metrics[metric] > best->metrics[metric])
            best = &h->validations[i];
    if (isnan(newest->metrics[metric]))
        return;
    add_fact(report, validation_metrics[metric].title,
             memory_format("%.4f in the validation at step %lld (best: %.4f at step %lld)", newest->metrics[metric],
                           (long long)newest->step, best->metrics[metric], (long long)best->step));
}

/* Adds the time that a running program needs for the rest of its steps. step_seconds are sorted. */
static void add_time_left_fact(struct run_report *report)
{
    const struct run_history *h = &report->history;
    const int64_t total = h->start_count > 0 ? h->starts[h->start_count - 1].steps_total : 0,
                  left = total - h->rows[h->row_count - 1].step;
    char duration[DURATION_BYTES];
    if (h->step_count == 0 || left <= 0 || strcmp(report->verdict.word, "running") != 0)
        return;
    duration_print(duration, (double)left * quantile(h->step_seconds, h->step_count, 0.5));
    char *steps = count_text((double)left);
    add_fact(report, "time left", memory_format("%s for %s steps of the median time", duration, steps));
    free(steps);
}

static void add_loss_facts(struct run_report *report)
{
    const struct run_history *h = &report->history;
    const struct history_row *last = &h->rows[h->row_count - 1];
    int64_t total = h->start_count > 0 ? h->starts[h->start_count - 1].steps_total : 0;
    char *done = count_text((double)last->step), *of = count_text((double)total);
    add_fact(report, "steps", total > 0 ? memory_format("%s of %s", done, of) : memory_string(done));
    free(done);
    free(of);
    add_fact(report, "last logged", report_date_text(h->time));
    add_fact(report, "training loss",
             memory_format("%.6f nats (mean of the last row), perplexity %.4g", last->numbers.mean_loss,
                           exp(last->numbers.mean_loss)));
    if (isfinite(last->numbers.outliers))
        add_count_fact(report, "gradient norm", last->numbers.outliers, " outliers");
    if (h->validation_count == 0)
        return;
    const struct history_validation *newest = &h->validations[h->validation_count - 1], *best = history_best(h);
    add_fact(report, "validation loss",
             memory_format("%.6f nats at step %lld, perplexity %.4g (best: %.6f at step %lld)", newest->loss,
                           (long long)newest->step, exp(newest->loss), best->loss, (long long)best->step));
    for (int m = 0; m < VALIDATION_METRICS; m++)
        add_metric_fact(report, (enum validation_metric)m);
}

/* Adds the speed since the last start: tokens/s, time waiting for data, utilisation. */
static void add_speed_facts(struct run_report *report)
{
    const struct run_history *h = &report->history;
    int64_t from = h->start_count > 0 ? h->starts[h->start_count - 1].step : 0;
    double seconds = 0, tokens = 0, waited = 0, work[FLOPS_CONVENTIONS] = {0};
    const struct history_peaks peaks = history_peaks(h);
    for (int64_t i = 0; i < h->row_count; i++) {
        const struct history_row *row = &h->rows[i];
        if (row->step <= from || !isfinite(row->numbers.seconds) || !isfinite(row->numbers.rate))
            continue;
        seconds += row->numbers.seconds;
        tokens += row->numbers.rate * row->numbers.seconds;
        waited += row->numbers.data_wait;
        for (int c = 0; c < FLOPS_CONVENTIONS; c++)
            work[c] += row->numbers.utilisation[c] * row->numbers.seconds;
    }
    if (seconds > 0) {
        char *mean = count_text(tokens / seconds), *last = count_text(h->rows[h->row_count - 1].numbers.rate);
        add_fact(report, "speed",
                 memory_format("%s tokens/s (mean since the last start; %s in the last row)", mean, last));
        free(mean);
        free(last);
        add_fact(report, "1e12 tokens",
                 memory_format("%.2f days at the mean speed", flops_days(FLOPS_QUOTED_TOKENS, tokens / seconds)));
        add_fact(report, "waiting for data",
                 memory_format("%.1f %% of the time of the steps since the last start", 100 * waited / seconds));
        for (int c = 0; c < FLOPS_CONVENTIONS; c++)
            if (isfinite(work[c])) {
                char *name = memory_format("MFU, %s", flops_name((enum flops_convention)c));
                add_fact(report, name, memory_format("%.2f %% of the peak", 100 * work[c] / seconds));
                free(name);
            }
    }
    add_count_fact(report, "peak memory", fmax(0, peaks.memory) / (1 << 20), " MiB of rank 0");
    if (isfinite(peaks.device_memory))
        add_count_fact(report, "GPU memory", peaks.device_memory / (1 << 20),
                       " MiB at most in use on the GPU of rank 0");
}

static void add_step_time_fact(struct run_report *report)
{
    struct run_history *h = &report->history;
    if (h->step_count == 0)
        return;
    double sum = 0;
    for (int64_t i = 0; i < h->step_count; i++)
        sum += h->step_seconds[i];
    quantile_sort(h->step_seconds, h->step_count);
    add_fact(report, "step time",
             memory_format("mean %.4g s, median %.4g s, 99 %% below %.4g s, longest %.4g s",
                           sum / (double)h->step_count, quantile(h->step_seconds, h->step_count, 0.5),
                           quantile(h->step_seconds, h->step_count, 0.99), h->step_seconds[h->step_count - 1]));
}

static void add_token_facts(struct run_report *report)
{
    const struct history_row *last = &report->history.rows[report->history.row_count - 1];
    if (!isfinite(last->numbers.tokens) || !isfinite(last->numbers.unpadded) || !isfinite(last->numbers.samples))
        return;
    char *tokens = count_text(last->numbers.tokens), *unpadded = count_text(last->numbers.unpadded),
         *rows = count_text(last->numbers.samples);
    add_fact(report, "trained on", memory_format("%s tokens, %s without padding, in %s rows", tokens, unpadded, rows));
    free(tokens);
    free(unpadded);
    free(rows);
}

/* Adds the GPUs' energy since the last start, in total and per token without padding. */
static void add_energy_fact(struct run_report *report)
{
    const struct run_history *h = &report->history;
    const int64_t from = h->start_count > 0 ? h->starts[h->start_count - 1].step : 0;
    const struct history_row *last = NULL;
    double before = 0; /* tokens of earlier programs */
    for (int64_t i = 0; i < h->row_count; i++) {
        const struct history_row *row = &h->rows[i];
        if (row->step <= from && isfinite(row->numbers.unpadded))
            before = row->numbers.unpadded;
        if (row->step > from && isfinite(row->gpus[GPU_ENERGY]) && isfinite(row->numbers.unpadded))
            last = row;
    }
    if (last == NULL || last->numbers.unpadded <= before)
        return;
    add_fact(report, "energy",
             memory_format("%.4g kWh of the GPUs since the last start, %.4g J a token; they draw %.4g W",
                           last->gpus[GPU_ENERGY] / 3.6e6, last->gpus[GPU_ENERGY] / (last->numbers.unpadded - before),
                           last->gpus[GPU_POWER]));
}

/* Returns the wall-clock seconds from the first start to the last line; NaN: the log does not have them. */
static double report_wall_clock(const struct time_account *account)
{
    return account->until > account->begun ? account->until - account->begun : (double)NAN;
}

static void add_time_fact(struct run_report *report)
{
    const struct time_account *account = &report->history.account;
    const double whole = report_wall_clock(account);
    char duration[DURATION_BYTES];
    if (!isfinite(whole))
        return;
    duration_print(duration, whole);
    char *lost = count_text((double)account->lost_steps);
    add_fact(report, "effective time",
             memory_format("%.1f %% of the %s since the first start became steps that count; %s step%s were repeated",
                           100 * account->seconds[TIME_STEPS] / whole, duration, lost, plural(account->lost_steps)));
    free(lost);
}

static void report_gather_facts(struct run_report *report)
{
    const struct run_history *h = &report->history;
    add_fact(report, "verdict", memory_format("%s: %s", report->verdict.word, report->verdict.text));
    add_fact(report, "run", memory_string(report->folder));
    add_program_facts(report);
    if (h->row_count == 0)
        add_fact(report, "steps", memory_string("none is logged yet"));
    else {
        add_loss_facts(report);
        add_token_facts(report);
        add_speed_facts(report);
        add_energy_fact(report);
        add_step_time_fact(report);
        add_time_left_fact(report);
        add_time_fact(report);
    }
    char *underflow = quantization_report_text(h);
    if (underflow != NULL)
        add_fact(report, "gradient underflow", underflow);
    if (h->checkpoint_count > 0) {
        const struct history_checkpoint *last = &h->checkpoints[h->checkpoint_count - 1];
        char *saved = thousands_text(last->step);
        add_fact(report, "last checkpoint", memory_format("step %s, digest %s", saved, last->digest));
        free(saved);
    }
    if (h->damaged > 0)
        add_fact(report, "damaged lines",
                 memory_format("%lld of log.jsonl, left out; the first is line %lld", (long long)h->damaged,
                               (long long)h->first_damaged));
}

/* -- Page -------------------------------------------------------------------------------------------------------- */

static void write_verdict(FILE *file, const struct run_report *report)
{
    fprintf(file, "<p class=\"verdict %s\"><b>%s</b>: ", report->verdict.word, report->verdict.word);
    plot_write_escaped(file, report->verdict.text);
    fputs("</p>\n", file);
}

static void write_facts(FILE *file, const struct run_report *report)
{
    fputs("<table class=\"facts\">\n", file);
    for (int i = 1; i < report->fact_count; i++) { /* the first fact is the verdict */
        fputs("<tr><th>", file);
        plot_write_escaped(file, report->facts[i].name);
        fputs("</th><td>", file);
        plot_write_escaped(file, report->facts[i].value);
        fputs("</td></tr>\n", file);
    }
    fputs("</table>\n", file);
}

/* Writes a plot of one column of the curves. */
static void write_curve(FILE *file, const struct loss_curves *c, const char *title, const char *color, const double *y,
                        double high)
{
    const struct plot_series one = {NULL, color, PLOT_LINE, c->step, y, c->rows};
    plot_write_svg(file, &(struct line_plot){title, "step", &one, 1, c->marks, c->mark_count, 0, high, false});
}

/* Writes the curves that a reader looks at first. */
static void write_first_curves(FILE *file, const struct run_report *report)
{
    const struct loss_curves *c = &report->curves;
    if (c->rows == 0)
        return;
    struct plot_series series[CURVES_LOSSES];
    struct line_plot loss = curves_loss_plot(c, series);
    plot_write_svg(file, &loss);
    write_curve(file, c, "speed, tokens/s", "#4477aa", c->speed, 1.05 * c->speed_high);
    if (c->mark_count > 0)
        fputs("<p>Dashed: a program resumed from a checkpoint.</p>\n", file);
}

static void write_other_curves(FILE *file, const struct run_report *report)
{
    const struct loss_curves *c = &report->curves;
    const struct run_history *h = &report->history;
    if (c->rows == 0)
        return;
    fputs("<h2>Other curves</h2>\n", file);
    write_curve(file, c, "learning rate", "#228833", c->rate, 0);
    write_curve(file, c, "gradient norm, before clipping", "#aa3377", c->norm, 1.05 * c->norm_high);
    if (h->step_count > 0) {
        double low = quantile(h->step_seconds, h->step_count, 0.01);
        double high = quantile(h->step_seconds, h->step_count, 0.99);
        char *count = thousands_text(h->step_count);
        char *title = memory_format("time of %s steps (outer bars: below %.4g s, above %.4g s)", count, low, high);
        free(count);
        plot_write_histogram(file, title, "seconds", h->step_seconds, h->step_count, low, high);
        free(title);
    }
}

static void write_those_timers(FILE *file, const struct run_history *h, bool ops)
{
    bool begun = false;
    for (int64_t i = 0; i < h->timer_count; i++) {
        const struct timer *t = &h->timers[i];
        if ((strcmp(t->kind, "op") == 0) != ops)
            continue;
        if (!begun)
            fprintf(file,
                    "<table>\n<tr><th>%s</th><th class=\"number\">calls</th><th class=\"number\">minimum</th>"
                    "<th class=\"number\">mean</th><th class=\"number\">maximum</th><th class=\"number\">percent</th>"
                    "</tr>\n",
                    ops ? "ops" : "parts");
        begun = true;
        fputs("<tr><td>", file);
        plot_write_escaped(file, t->name);
        char *calls = thousands_text(t->calls);
        fprintf(file,
                "</td><td class=\"number\">%s</td><td class=\"number\">%.3f</td><td class=\"number\">%.3f</td>"
                "<td class=\"number\">%.3f</td><td class=\"number\">%.1f</td></tr>\n",
                calls, t->minimum, t->mean, t->maximum, timers_percent(h->timers, h->timer_count, i));
        free(calls);
    }
    if (begun)
        fputs("</table>\n", file);
}

static void write_timers(FILE *file, const struct run_history *h)
{
    if (h->timer_count == 0)
        return;
    fputs("<h2>Where the time went since the last start</h2>\n<p>Seconds over ranks; calls of rank 0. The parts add up "
          "to all; the ops are what they compute, and their percent is of all ops.</p>\n",
          file);
    write_those_timers(file, h, false);
    write_those_timers(file, h, true);
}

static void write_account(FILE *file, const struct time_account *account)
{
    const double whole = report_wall_clock(account);
    if (!isfinite(whole))
        return;
    fprintf(
        file,
        "<h2>Where the time went since the first start</h2>\n<p>Wall-clock seconds, %lld program%s, to the last line "
        "of the log. Between programs: waiting in a queue, and the steps of a killed program after its last line."
        "</p>\n<table>\n<tr><th></th><th class=\"number\">seconds</th><th class=\"number\">percent</th></tr>\n",
        (long long)account->programs, plural(account->programs));
    for (int k = 0; k < TIME_KINDS; k++) {
        const double seconds = time_account_seconds(account, (enum time_kind)k, account->until);
        fprintf(file, "<tr><td>%s</td><td class=\"number\">%.1f</td><td class=\"number\">%.1f</td></tr>\n",
                time_kind_name((enum time_kind)k), seconds, 100 * seconds / whole);
    }
    fputs("</table>\n", file);
}

static void write_last_steps(FILE *file, const struct run_history *h)
{
    if (h->last_count == 0)
        return;
    fputs("<h2>The last steps before it diverged</h2>\n<table>\n<tr><th class=\"number\">step</th><th class=\"number\">"
          "loss</th><th class=\"number\">learning rate</th><th class=\"number\">gradient norm</th></tr>\n",
          file);
    for (int64_t i = 0; i < h->last_count; i++)
        fprintf(file,
                "<tr><td class=\"number\">%lld</td><td class=\"number\">%.6f</td><td class=\"number\">%.4g</td>"
                "<td class=\"number\">%.4g</td></tr>\n",
                (long long)h->last_steps[i].step, h->last_steps[i].numbers.loss, h->last_steps[i].numbers.learning_rate,
                h->last_steps[i].numbers.grad_norm);
    fputs("</table>\n", file);
}

static void write_notes(FILE *file, const struct run_history *h)
{
    if (h->note_count == 0)
        return;
    fputs("<h2>What happened</h2>\n<table>\n<tr><th>when</th><th class=\"number\">step</th><th></th></tr>\n", file);
    for (int64_t i = 0; i < h->note_count; i++) {
        char *date = report_date_text(h->notes[i].time), *step = thousands_text(h->notes[i].step);
        fprintf(file, "<tr><td class=\"when\">%s</td><td class=\"number\">%s</td><td>", date, step);
        plot_write_escaped(file, h->notes[i].text);
        fputs("</td></tr>\n", file);
        free(step);
        free(date);
    }
    fputs("</table>\n", file);
}

static void report_write_page(FILE *file, const struct run_report *report)
{
    page_begin(file, report->folder);
    write_verdict(file, report);
    write_first_curves(file, report);
    write_facts(file, report);
    write_other_curves(file, report);
    quantization_report_write(file, &report->history);
    write_notes(file, &report->history);
    write_last_steps(file, &report->history);
    write_account(file, &report->history.account);
    write_timers(file, &report->history);
    fputs("<h2>Settings that are not the default</h2>\n<pre>", file);
    plot_write_escaped(file, report->settings);
    fputs("</pre>\n", file);
    page_end(file);
}

static int save_page(const struct run_report *report, const char *path)
{
    struct atomic_file atomic;
    int code = atomic_file_open_output(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    report_write_page(atomic.file, report);
    return atomic_file_close(&atomic, code);
}

/* -- Text -------------------------------------------------------------------------------------------------------- */

static void print_last_steps(const struct run_history *h)
{
    if (h->last_count > 0)
        printf("\nthe last steps before it diverged:\n%10s %10s %10s %10s\n", "step", "loss", "rate", "norm");
    for (int64_t i = 0; i < h->last_count; i++)
        printf("%10lld %10.6f %10.4g %10.4g\n", (long long)h->last_steps[i].step, h->last_steps[i].numbers.loss,
               h->last_steps[i].numbers.learning_rate, h->last_steps[i].numbers.grad_norm);
}

static void print_account(const struct time_account *account)
{
    const double whole = report_wall_clock(account);
    if (!isfinite(whole))
        return;
    printf("\nwhere the time went since the first start:\n%-24s %12s %8s\n", "", "seconds", "percent");
    for (int k = 0; k < TIME_KINDS; k++) {
        const double seconds = time_account_seconds(account, (enum time_kind)k, account->until);
        printf("%-24s %12.1f %8.1f\n", time_kind_name((enum time_kind)k), seconds, 100 * seconds / whole);
    }
}

static void report_print_text(const struct run_report *report)
{
    const struct run_history *h = &report->history;
    for (int i = 0; i < report->fact_count; i++)
        log_print(stdout, "%-18s %s\n", report->facts[i].name, report->facts[i].value);
    for (int64_t i = 0; i < h->note_count; i++) {
        char *date = report_date_text(h->notes[i].time), *step = thousands_text(h->notes[i].step);
        log_print(stdout, "%-18s %s, step %s: %s\n", i == 0 ? "what happened" : "", date, step, h->notes[i].text);
        free(step);
        free(date);
    }
    print_last_steps(h);
    if (h->row_count > 0) {
        struct plot_series series[CURVES_LOSSES];
        struct line_plot loss = curves_loss_plot(&report->curves, series);
        putchar('\n');
        plot_write_text(stdout, &loss, TEXT_WIDTH, TEXT_HEIGHT);
    }
    print_account(&h->account);
    if (h->timer_count > 0)
        printf("\nwhere the time went since the last start:\n");
    timers_print(h->timers, h->timer_count, "");
    printf("\nsettings that are not the default:\n");
    text_print(stdout, report->settings);
}

/* -- The whole command ------------------------------------------------------------------------------------------ */

/* Returns the keys of the deck, without those at a value that says nothing. */
static char *telling_keys(const struct deck *deck, const char *const keys[], int count)
{
    static const char *const silent[] = {"\"\"", "\"preset\"", "0"};
    const char *telling[8];
    int found = 0;
    for (int i = 0; i < count; i++) {
        char *value = deck_key_text(deck, keys[i]);
        bool tells = true;
        for (size_t s = 0; s < sizeof silent / sizeof *silent; s++)
            tells = tells && strcmp(value, silent[s]) != 0;
        if (tells)
            telling[found++] = keys[i];
        free(value);
    }
    return deck_keys_text(deck, telling, found, ", ");
}

/* Reads the run's deck; the log suffices without it. */
static void read_deck(struct run_report *report)
{
    static const char *const model[] = {"model.preset", "model.family", "model.layers", "model.hidden",
                                        "model.initialise_from"},
                             *const data[] = {"data.train", "data.valid"}, *const source[] = {"data.source"};
    struct deck *deck = deck_create();
    char *path = memory_format("%s/" RUN_DECK, report->folder);
    if (deck_read(deck, path, NULL, 0, NULL) == ERROR_NONE) {
        report->settings = deck_print_changed(deck);
        report->model = telling_keys(deck, model, sizeof model / sizeof *model);
        report->data = telling_keys(deck, data, sizeof data / sizeof *data);
        if (report->data[0] == '\0') {
            free(report->data);
            report->data = telling_keys(deck, source, 1);
        }
    } else {
        report->settings = memory_format("unknown: %s\n", error_message());
        report->model = memory_string("");
        report->data = memory_string("");
    }
    error_clear();
    free(path);
    memory_free(deck);
}

int report_run(const char *folder, const char *out)
{
    char *log = memory_format("%s/" RUN_LOG, folder);
    if (access(log, F_OK) != 0) {
        free(log);
        return error_user("%s: has no log.jsonl%s; name the output.folder of a run", folder, path_seen_from(folder));
    }
    struct run_report *report = memory_allocate(sizeof *report);
    report->folder = folder;
    int code = history_read(&report->history, log);
    if (code == ERROR_NONE) {
        curves_create(&report->curves, &report->history);
        report->verdict = verdict_of(&report->history, lock_is_held(folder));
        read_deck(report);
        report_gather_facts(report);
        history_warn(&report->history, log);
        code = save_page(report, out);
        report_print_text(report); /* also if the page could not be written */
        if (code == ERROR_NONE)
            log_print(stdout, "\nwritten: %s\n", out);
        curves_destroy(&report->curves);
    }
    for (int i = 0; i < report->fact_count; i++) {
        free(report->facts[i].name);
        free(report->facts[i].value);
    }
    free(report->verdict.text);
    free(report->settings);
    free(report->model);
    free(report->data);
    history_destroy(&report->history);
    memory_free(report);
    free(log);
    return code;
}
