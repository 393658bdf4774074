/* The facts of a report. */
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/quantile.h"
#include "base/text.h"
#include "base/thousands.h"
#include "report/quantization_report.h"
#include "report/report_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

char *report_date_text(double seconds)
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

double report_wall_clock(const struct time_account *account)
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

void report_gather_facts(struct run_report *report)
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
