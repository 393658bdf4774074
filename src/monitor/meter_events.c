#include "monitor/meter_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "comm/launcher.h"
#include "estimate/device_name.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIME_DIGITS = 13 };

/* A clock jump of fewer seconds is not reported. */
static const double REPORTED_JUMP = 60;

void meter_begin_line(struct run_meter *meter, const char *event, int64_t step)
{
    event_log_begin(&meter->event_log, event, step);
    if (step > meter->step)
        meter->step = step;
}

/* Returns the wall-clock time for a line, and warns if the wall clock was set. The run itself uses a monotonic clock.
 */
static double time_of_line(struct run_meter *meter)
{
    const double now = floor(1e3 * clock_of_day()) / 1e3, offset = now - clock_seconds(),
                 jump = offset - meter->clock_offset;
    if (meter->clock_offset != 0 && fabs(jump) > REPORTED_JUMP)
        log_warn("the system clock jumped by %+.0f s, or the machine slept: log times jump, training is unaffected",
                 jump);
    if (meter->clock_offset == 0 || fabs(jump) > REPORTED_JUMP)
        meter->clock_offset = offset;
    return now;
}

void meter_end_line(struct run_meter *meter)
{
    event_log_real(&meter->event_log, "time", time_of_line(meter), TIME_DIGITS);
    event_log_end(&meter->event_log);
}

/* -- Start ------------------------------------------------------------------------------------------------------- */

static void write_changed(struct event_log *event_log, const char *key, const struct deck_change *change,
                          const char *value)
{
    if (change->is_text)
        event_log_text(event_log, key, value);
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        event_log_boolean(event_log, key, value[0] == 't');
    else
        event_log_real(event_log, key, strtod(value, NULL), EXACT_DIGITS);
}

/* Returns, for example, "continues from step 4, with optimizer.lr = 0.001 (was 0.003)". */
static char *describe_start(const struct meter_settings *s)
{
    char *text = s->resumed ? memory_format("continues from step %lld", (long long)s->step) : memory_string("begins");
    for (int i = 0; i < s->changed.count; i++) {
        char *change = deck_change_text(&s->changed.changes[i]);
        char *longer = memory_format("%s%s %s", text, i == 0 ? ", with" : ",", change);
        free(change);
        free(text);
        text = longer;
    }
    return text;
}

void meter_start(struct run_meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    struct event_log *event_log = &meter->event_log;
    char host[256] = "", *text = describe_start(s), *name = device_name(s->executor);
    gethostname(host, sizeof host - 1);
    meter_begin_line(meter, "start", s->step);
    event_log_text(event_log, "text", text);
    event_log_integer(event_log, "steps_total", s->steps_total);
    event_log_integer(event_log, "ranks", meter->world->size);
    event_log_integer(event_log, "threads", s->threads);
    event_log_integer(event_log, "parameters", s->parameters);
    for (int c = 0; c < FLOPS_CONVENTIONS; c++) {
        char *key = memory_format("flops_per_token_%s", flops_name((enum flops_convention)c));
        event_log_real(event_log, key, s->flops_per_token[c], EXACT_DIGITS);
        free(key);
    }
    if (s->peak > 0)
        event_log_real(event_log, "peak", s->peak, EXACT_DIGITS);
    event_log_integer(event_log, "planned_memory", s->planned);
    event_log_text(event_log, "version", PACKAGE_VERSION);
    event_log_text(event_log, "host", host);
    event_log_text(event_log, "job", launcher_job());
    event_log_real(event_log, "begun", clock_of_day() - clock_seconds(), TIME_DIGITS);
    event_log_text(event_log, "device", s->executor->class->name);
    event_log_text(event_log, "device_name", name);
    if (s->resumed) {
        event_log_real(event_log, "load_seconds", s->load_seconds, RATE_DIGITS);
        event_log_integer(event_log, "load_bytes", s->load_bytes);
    }
    event_log_list(event_log, "changed");
    for (int i = 0; i < s->changed.count; i++) {
        const struct deck_change *change = &s->changed.changes[i];
        event_log_object(event_log);
        event_log_text(event_log, "key", change->key);
        write_changed(event_log, "old", change, change->old);
        write_changed(event_log, "new", change, change->new_);
        event_log_object_end(event_log);
    }
    event_log_list_end(event_log);
    meter_end_line(meter);
    tensorboard_write_text(&meter->board, s->step, "run/start", text);
    meter->start_logged = true;
    free(name);
    free(text);
}

/* -- Validations and checkpoints --------------------------------------------------------------------------------- */

/* Returns the metrics as text, ", accuracy 0.91, ..."; freed with free(). */
static char *metrics_text(const double metrics[VALIDATION_METRICS])
{
    char *text = memory_string("");
    for (int m = 0; m < VALIDATION_METRICS; m++) {
        if (isnan(metrics[m]))
            continue;
        char *longer = memory_format("%s, %s %.4f", text, validation_metrics[m].title, metrics[m]);
        free(text);
        text = longer;
    }
    return text;
}

/* log_metrics writes the metrics that apply to the event log, show_metrics to TensorBoard. */
static void log_metrics(struct run_meter *meter, const double metrics[VALIDATION_METRICS])
{
    for (int m = 0; m < VALIDATION_METRICS; m++)
        if (!isnan(metrics[m]))
            event_log_real(&meter->event_log, validation_metrics[m].key, metrics[m], EXACT_DIGITS);
}

static void show_metrics(struct run_meter *meter, int64_t step, const double metrics[VALIDATION_METRICS])
{
    for (int m = 0; m < VALIDATION_METRICS; m++) {
        if (isnan(metrics[m]))
            continue;
        char *tag = memory_format("validation/%s", validation_metrics[m].key);
        const struct tensorboard_scalar scalar = {tag, metrics[m]};
        tensorboard_write(&meter->board, step, &scalar, 1);
        free(tag);
    }
}

void meter_validation(struct run_meter *meter, int64_t step, double loss, double labels, double seconds,
                      const double metrics[VALIDATION_METRICS])
{
    char *text = metrics_text(metrics);
    log_info("#%9lld validation loss %.5f nats over %.0f labels%s", (long long)step, loss, labels, text);
    free(text);
    meter_begin_line(meter, "validation", step);
    event_log_real(&meter->event_log, "loss", loss, EXACT_DIGITS);
    event_log_real(&meter->event_log, "perplexity", exp(loss), RATE_DIGITS);
    event_log_real(&meter->event_log, "labels", labels, EXACT_DIGITS);
    log_metrics(meter, metrics);
    event_log_real(&meter->event_log, "seconds", seconds, RATE_DIGITS);
    meter_end_line(meter);
    const struct tensorboard_scalar scalars[] = {{"validation/loss", loss}, {"validation/perplexity", exp(loss)}};
    tensorboard_write(&meter->board, step, scalars, 2);
    show_metrics(meter, step, metrics);
    meter->shown.numbers.validation_loss = loss;
}

void meter_evaluation(struct run_meter *meter, int64_t step, double loss, double labels, const char *stores,
                      int64_t rows)
{
    log_info("#%9lld nothing is left to train: evaluation on %s alone, loss %.5f nats over %.0f labels",
             (long long)step, stores, loss, labels);
    meter_begin_line(meter, "evaluation", step);
    event_log_real(&meter->event_log, "loss", loss, EXACT_DIGITS);
    event_log_real(&meter->event_log, "labels", labels, EXACT_DIGITS);
    event_log_text(&meter->event_log, "valid", stores);
    event_log_integer(&meter->event_log, "rows", rows);
    meter_end_line(meter);
}

void meter_checkpoint(struct run_meter *meter, int64_t step, const struct meter_save *save)
{
    char digits[17];
    const double rate = save->seconds > 0 ? (double)save->bytes / save->seconds : 0;
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)save->digest);
    log_info("#%9lld checkpoint %s digest %s (%.2f s, %.2f GB/s, waited %.2f s)", (long long)step, save->path, digits,
             save->seconds, rate * 1e-9, save->waited);
    meter_begin_line(meter, "checkpoint", step);
    event_log_text(&meter->event_log, "digest", digits);
    event_log_real(&meter->event_log, "seconds", save->seconds, RATE_DIGITS);
    event_log_real(&meter->event_log, "waited", save->waited, RATE_DIGITS);
    event_log_integer(&meter->event_log, "bytes", save->bytes);
    meter_end_line(meter);
    const struct tensorboard_scalar scalars[] = {{"checkpoint/seconds", save->seconds},
                                                 {"checkpoint/waited", save->waited},
                                                 {"checkpoint/bytes_per_second", rate}};
    tensorboard_write(&meter->board, step, scalars, 3);
}

void meter_statistics(struct run_meter *meter, int64_t step, const struct statistics_row *rows, int64_t count)
{
    meter_begin_line(meter, "statistics", step);
    statistics_log(&meter->event_log, rows, count);
    meter_end_line(meter);
    statistics_draw(&meter->board, step, rows, count);
}

/* -- Other events ------------------------------------------------------------------------------------------------ */

/* Begins the log line of an event. The caller may add members before meter_end_line. */
static void begin_note(struct run_meter *meter, int64_t step, const char *event, const char *text)
{
    char *tag = memory_format("run/%s", event);
    log_info("#%9lld %s", (long long)step, text);
    tensorboard_write_text(&meter->board, step, tag, text);
    meter_begin_line(meter, event, step);
    event_log_text(&meter->event_log, "text", text);
    free(tag);
}

void meter_straggler(struct run_meter *meter, int64_t step, const struct straggler_found *found)
{
    const char *host = meter->watch.hosts[found->rank], *phase = straggler_phase_name(found->phase);
    char *text =
        memory_format("rank %d on %s is slow: in %.3g s it has spent %.3g s more on %s than the median of the ranks, "
                      "%.0f %% of the time, in five checks in a row",
                      found->rank, host, found->seconds, found->excess, phase, 100 * found->excess / found->seconds);
    begin_note(meter, step, "straggler", text);
    event_log_integer(&meter->event_log, "rank", found->rank);
    event_log_text(&meter->event_log, "host", host);
    event_log_text(&meter->event_log, "phase", phase);
    event_log_real(&meter->event_log, "seconds", found->seconds, RATE_DIGITS);
    event_log_real(&meter->event_log, "excess", found->excess, RATE_DIGITS);
    meter_end_line(meter);
    free(text);
}

void meter_note(struct run_meter *meter, int64_t step, const char *event, const char *text)
{
    begin_note(meter, step, event, text);
    meter_end_line(meter);
}

void meter_diverged(struct run_meter *meter, const struct meter_row *row, const char *text)
{
    struct event_log *event_log = &meter->event_log;
    if (meter->shown.numbers.step < (double)row->step)
        meter_step(meter, row);
    int64_t count = MIN(row->step, METER_LAST);
    log_info("# the run has diverged; its last steps:");
    log_info("#%9s %9s %10s %10s", "step", "loss", "rate", "norm");
    meter_begin_line(meter, "diverged", row->step);
    event_log_text(event_log, "text", text);
    event_log_list(event_log, "last_steps");
    for (int64_t step = row->step - count + 1; step <= row->step; step++) {
        const struct meter_row *r = &meter->last[step % METER_LAST];
        if (r->step != step) /* step of an earlier program, or from before a rewind */
            continue;
        const struct tensorboard_scalar scalars[] = {{"last_steps/loss", r->loss},
                                                     {"last_steps/learning_rate", r->learning_rate},
                                                     {"last_steps/grad_norm", r->grad_norm}};
        log_info("%10lld %9.5f %10.4e %#10.4g", (long long)r->step, r->loss, r->learning_rate, r->grad_norm);
        tensorboard_write(&meter->board, step, scalars, 3);
        event_log_object(event_log);
        event_log_integer(event_log, "step", r->step);
        event_log_real(event_log, "loss", r->loss, EXACT_DIGITS);
        event_log_real(event_log, "lr", r->learning_rate, EXACT_DIGITS);
        event_log_real(event_log, "grad_norm", r->grad_norm, EXACT_DIGITS);
        event_log_object_end(event_log);
    }
    event_log_list_end(event_log);
    meter_end_line(meter);
    tensorboard_write_text(&meter->board, row->step, "run/diverged", text);
}

void meter_end(struct run_meter *meter, int code, const char *text)
{
    const char *how = code == ERROR_NONE       ? "finished"
                      : code == ERROR_REQUEUE  ? "stopped"
                      : code == ERROR_DIVERGED ? "diverged"
                                               : "failed";
    prometheus_end(&meter->prometheus, &meter->shown, code);
    if (!meter->start_logged && !meter->event_log.unfinished)
        return;
    meter_begin_line(meter, "end", meter->step);
    event_log_text(&meter->event_log, "how", how);
    event_log_integer(&meter->event_log, "code", code);
    event_log_text(&meter->event_log, "text", text);
    meter_end_line(meter);
    char *line = memory_format("%s: %s", how, text);
    tensorboard_write_text(&meter->board, meter->step, "run/end", line);
    free(line);
}
