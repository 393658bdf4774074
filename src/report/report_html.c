/* A report as an HTML page. */
#include "base/memory.h"
#include "base/quantile.h"
#include "base/text.h"
#include "base/thousands.h"
#include "report/page.h"
#include "report/quantization_report.h"
#include "report/report_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void report_write_page(FILE *file, const struct run_report *report)
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
