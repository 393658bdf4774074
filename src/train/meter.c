#include "train/meter.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/launcher.h"
#include "core/launch.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_EVERY = 20, EXACT_DIGITS = 17, RATE_DIGITS = 6, TIME_DIGITS = 13, STEP_TIME_DIGITS = 4 };

/* -- Opening and closing ----------------------------------------------------------------------------------------- */

/* Unix seconds, to the millisecond. */
static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-3 * (double)(now.tv_nsec / 1000000);
}

static void begin_line(struct meter *meter, const char *event, int64_t step)
{
    journal_begin(&meter->journal, event, step);
    meter->step = step;
}

static void end_line(struct meter *meter)
{
    journal_real(&meter->journal, "time", wall_clock(), TIME_DIGITS);
    journal_end(&meter->journal);
}

static void write_start(struct meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    struct journal *journal = &meter->journal;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    begin_line(meter, "start", s->step);
    journal_integer(journal, "steps_total", s->steps_total);
    journal_integer(journal, "ranks", meter->world->size);
    journal_integer(journal, "threads", s->threads);
    journal_integer(journal, "parameters", s->parameters);
    for (int c = 0; c < FLOPS_CONVENTIONS; c++) {
        char *key = memory_format("flops_per_token_%s", flops_name((enum flops_convention)c));
        journal_real(journal, key, s->flops_per_token[c], EXACT_DIGITS);
        free(key);
    }
    if (s->peak > 0)
        journal_real(journal, "peak", s->peak, EXACT_DIGITS);
    journal_text(journal, "version", PACKAGE_VERSION);
    journal_text(journal, "host", host);
    journal_text(journal, "job", launcher_job());
    end_line(meter);
}

static int open_files(struct meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    char *lines = memory_format("%s/log.jsonl", s->folder), *events = memory_format("%s/tensorboard", s->folder);
    int code = journal_open(&meter->journal, lines, s->step, s->validates);
    if (code == ERROR_NONE)
        code = tensorboard_cut(events, s->step); /* also when none is written now: one may be later */
    if (code == ERROR_NONE && (s->step < s->steps_total || s->validates)) {
        write_start(meter);
        if (s->tensorboard)
            code = tensorboard_open(&meter->board, events, s->step);
    }
    free(lines);
    free(events);
    return code;
}

int meter_open(struct meter *meter, struct comm *world, const struct meter_settings *settings)
{
    *meter = (struct meter){.world = world, .settings = *settings, .step = settings->step};
    int code = world->rank == 0 ? open_files(meter) : ERROR_NONE;
    meter->started = meter->marked = clock_seconds();
    code = comm_agree(world, code);
    if (code != ERROR_NONE)
        meter_close(meter);
    return code;
}

void meter_close(struct meter *meter)
{
    journal_close(&meter->journal);
    tensorboard_close(&meter->board);
    free(meter->step_seconds);
    meter->step_seconds = NULL;
}

/* -- Steps ------------------------------------------------------------------------------------------------------- */

void meter_add(struct meter *meter, enum meter_timer timer, double seconds)
{
    meter->seconds[timer] += seconds;
    meter->calls[timer]++;
    if (timer == METER_DATA)
        meter->data_wait += seconds;
    if (timer == METER_VALIDATION || timer == METER_CHECKPOINT)
        meter->idle += seconds;
}

void meter_count(struct meter *meter, double loss_sum, double labels, int64_t tokens)
{
    meter->loss_sum += loss_sum;
    meter->labels += labels;
    meter->tokens += tokens;
    if (meter->step_count == meter->step_capacity) {
        meter->step_capacity = 2 * meter->step_capacity + 16;
        meter->step_seconds =
            memory_grow(meter->step_seconds, meter->step_capacity * (int64_t)sizeof *meter->step_seconds);
    }
    double now = clock_seconds();
    meter->step_seconds[meter->step_count++] = now - meter->marked - meter->idle;
    meter->steps++;
    meter->marked = now;
    meter->idle = 0;
}

void meter_print_duration(char text[METER_DURATION_BYTES], double seconds)
{
    long long whole = seconds < 1e11 ? llround(seconds) : 0, days = whole / 86400;
    int rest = (int)(whole % 86400), hours = rest / 3600, minutes = rest / 60 % 60;
    if (!(seconds < 1e11))
        snprintf(text, METER_DURATION_BYTES, "-");
    else if (days > 0)
        snprintf(text, METER_DURATION_BYTES, "%lld-%02d:%02d:%02d", days, hours, minutes, rest % 60);
    else
        snprintf(text, METER_DURATION_BYTES, "%d:%02d:%02d", hours, minutes, rest % 60);
}

/* What is left to do at the pace of this program so far, validations and checkpoints included. */
static double seconds_left(const struct meter *meter, int64_t step)
{
    if (meter->steps == 0)
        return INFINITY;
    double pace = (clock_seconds() - meter->started) / (double)meter->steps;
    return pace * (double)(meter->settings.steps_total - step);
}

/* What a row says of the steps since the last one. */
struct meter_sums {
    double loss;    /* mean over their labels, nats */
    double seconds; /* of them together, without validations and checkpoints */
    double rate;    /* tokens/s */
    double utilisation[FLOPS_CONVENTIONS];
    double memory; /* peak of rank 0, bytes */
};

static void print_row(struct meter *meter, const struct meter_row *row, const struct meter_sums *sums)
{
    bool with_mfu = meter->settings.peak > 0;
    if (meter->rows_printed++ % HEADER_EVERY == 0) {
        log_info("#%9s %9s %10s %10s %11s %9s %9s %9s%s %12s", "", "loss", "learning", "gradient", "speed", "time",
                 "data wait", "memory", with_mfu ? "   MFU" : "", "time left");
        log_info("#%9s %9s %10s %10s %11s %9s %9s %9s%s %12s", "step", "nats", "rate", "norm", "tokens/s", "s/step",
                 "%", "MiB", with_mfu ? "     %" : "", "d-hh:mm:ss");
    }
    char left[METER_DURATION_BYTES], mfu[16] = "";
    meter_print_duration(left, seconds_left(meter, row->step));
    if (with_mfu)
        snprintf(mfu, sizeof mfu, " %5.1f", 100 * sums->utilisation[FLOPS_CAUSAL]);
    double steps = meter->step_count > 0 ? (double)meter->step_count : 1;
    double waited = sums->seconds > 0 ? 100 * meter->data_wait / sums->seconds : 0;
    log_info("%10lld %9.5f %10.4e %#10.4g %11.0f %#9.4g %9.1f %9.0f%s %12s", (long long)row->step, sums->loss,
             row->learning_rate, row->grad_norm, sums->rate, sums->seconds / steps, waited, sums->memory / (1 << 20),
             mfu, left);
}

static void write_line(struct meter *meter, const struct meter_row *row, const struct meter_sums *sums)
{
    struct journal *journal = &meter->journal;
    begin_line(meter, "step", row->step);
    journal_real(journal, "loss", row->loss, EXACT_DIGITS);
    journal_real(journal, "mean_loss", sums->loss, EXACT_DIGITS);
    journal_real(journal, "lr", row->learning_rate, EXACT_DIGITS);
    journal_real(journal, "grad_norm", row->grad_norm, 9);
    journal_real(journal, "tokens_per_second", sums->rate, RATE_DIGITS);
    journal_real(journal, "seconds", sums->seconds, RATE_DIGITS);
    journal_real(journal, "data_wait", meter->data_wait, RATE_DIGITS);
    journal_real(journal, "memory", sums->memory, EXACT_DIGITS);
    for (int c = 0; c < FLOPS_CONVENTIONS && meter->settings.peak > 0; c++) {
        char *key = memory_format("mfu_%s", flops_name((enum flops_convention)c));
        journal_real(journal, key, sums->utilisation[c], RATE_DIGITS);
        free(key);
    }
    journal_reals(journal, "step_seconds", meter->step_seconds, meter->step_count, STEP_TIME_DIGITS);
    end_line(meter);
}

static void write_scalars(struct meter *meter, const struct meter_row *row, const struct meter_sums *sums)
{
    double steps = meter->step_count > 0 ? (double)meter->step_count : 1;
    const struct tensorboard_scalar scalars[] = {
        {"train/loss", sums->loss},
        {"train/learning_rate", row->learning_rate},
        {"train/grad_norm", row->grad_norm},
        {"train/tokens_per_second", sums->rate},
        {"train/step_seconds", sums->seconds / steps},
        {"train/mfu", sums->utilisation[FLOPS_CAUSAL]},
    };
    int count = (int)(sizeof scalars / sizeof *scalars);
    tensorboard_write(&meter->board, row->step, scalars, meter->settings.peak > 0 ? count : count - 1);
}

void meter_step(struct meter *meter, const struct meter_row *row)
{
    struct meter_sums sums = {.memory = (double)memory_resident_peak()};
    for (int64_t i = 0; i < meter->step_count; i++)
        sums.seconds += meter->step_seconds[i];
    int64_t tokens = comm_sum_i64(meter->world, meter->tokens);
    sums.loss = meter->labels > 0 ? meter->loss_sum / meter->labels : row->loss;
    sums.rate = sums.seconds > 0 ? (double)tokens / sums.seconds : 0;
    for (int c = 0; c < FLOPS_CONVENTIONS && meter->settings.peak > 0; c++)
        sums.utilisation[c] = sums.rate * meter->settings.flops_per_token[c] / meter->settings.peak;

    print_row(meter, row, &sums);
    write_line(meter, row, &sums);
    write_scalars(meter, row, &sums);

    meter->tokens = meter->step_count = 0;
    meter->loss_sum = meter->labels = meter->data_wait = 0;
}

/* -- Other lines ------------------------------------------------------------------------------------------------- */

void meter_validation(struct meter *meter, int64_t step, double loss, double labels)
{
    log_info("#%9lld validation loss %.5f nats over %.0f labels", (long long)step, loss, labels);
    begin_line(meter, "validation", step);
    journal_real(&meter->journal, "loss", loss, EXACT_DIGITS);
    journal_real(&meter->journal, "labels", labels, EXACT_DIGITS);
    end_line(meter);
    tensorboard_write(&meter->board, step, &(struct tensorboard_scalar){"validation/loss", loss}, 1);
}

void meter_checkpoint(struct meter *meter, int64_t step, const char *path, uint64_t digest, double seconds)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)digest);
    log_info("#%9lld checkpoint %s digest %s (%.2f s)", (long long)step, path, digits, seconds);
    begin_line(meter, "checkpoint", step);
    journal_text(&meter->journal, "digest", digits);
    journal_real(&meter->journal, "seconds", seconds, RATE_DIGITS);
    end_line(meter);
}

void meter_note(struct meter *meter, int64_t step, const char *event, const char *text)
{
    log_info("#%9lld %s", (long long)step, text);
    begin_line(meter, event, step);
    journal_text(&meter->journal, "text", text);
    end_line(meter);
}

/* -- Timers ------------------------------------------------------------------------------------------------------ */

static void summary_row(struct meter *meter, const char *kind, const char *name, int64_t calls, double seconds,
                        double whole)
{
    struct comm_spread spread = comm_spread(meter->world, seconds);
    log_info("# %-20s %10lld %10.3f %10.3f %10.3f %7.1f", name, (long long)calls, spread.minimum, spread.mean,
             spread.maximum, whole > 0 ? 100 * spread.mean / whole : 0);
    journal_object(&meter->journal);
    journal_text(&meter->journal, "name", name);
    journal_text(&meter->journal, "kind", kind);
    journal_integer(&meter->journal, "calls", calls);
    journal_real(&meter->journal, "minimum", spread.minimum, RATE_DIGITS);
    journal_real(&meter->journal, "mean", spread.mean, RATE_DIGITS);
    journal_real(&meter->journal, "maximum", spread.maximum, RATE_DIGITS);
    journal_object_end(&meter->journal);
}

void meter_profile(struct meter *meter, int64_t step, int64_t steps, const struct profile_row *rows, int count)
{
    double whole = 0;
    for (int i = 0; i < count; i++)
        whole += rows[i].seconds;
    log_info("# profile of %lld steps to step %lld; milliseconds and calls a step", (long long)steps, (long long)step);
    log_info("# %-18s %8s %8s %7s %10s %7s %8s %8s", "op", "rows", "columns", "calls", "ms", "percent", "GB/s",
             "TFLOP/s");
    begin_line(meter, "profile", step);
    journal_list(&meter->journal, "profile");
    for (int i = 0; i < count; i++) {
        const struct profile_row *r = &rows[i];
        double each = r->seconds / (double)r->calls, milliseconds = 1e3 * r->seconds / (double)steps;
        double calls = (double)r->calls / (double)steps;
        log_info("# %-18s %8lld %8lld %7.1f %10.3f %7.2f %8.0f %8.1f", op_info(r->op)->name, (long long)r->rows,
                 (long long)r->cols, calls, milliseconds, 100 * r->seconds / whole, 1e-9 * (double)r->bytes / each,
                 1e-12 * (double)r->flops / each);
        journal_object(&meter->journal);
        journal_text(&meter->journal, "op", op_info(r->op)->name);
        journal_integer(&meter->journal, "rows", r->rows);
        journal_integer(&meter->journal, "columns", r->cols);
        journal_integer(&meter->journal, "flops", r->flops);
        journal_integer(&meter->journal, "bytes", r->bytes);
        journal_real(&meter->journal, "calls", calls, RATE_DIGITS);
        journal_real(&meter->journal, "milliseconds", milliseconds, RATE_DIGITS);
        journal_object_end(&meter->journal);
    }
    journal_list_end(&meter->journal);
    end_line(meter);
    log_info("# %-18s %8s %8s %7s %10.3f", "all", "", "", "", 1e3 * whole / (double)steps);
}

void meter_summary(struct meter *meter)
{
    static const char *const names[METER_TIMERS] = {"training steps", "waiting for data", "validation", "checkpoints"};
    double whole = clock_seconds() - meter->started;
    log_info("# %-20s %10s %10s %10s %10s %7s", "seconds over ranks", "calls", "minimum", "mean", "maximum", "percent");
    begin_line(meter, "timers", meter->step);
    journal_list(&meter->journal, "timers");
    for (int i = 0; i < METER_TIMERS; i++)
        summary_row(meter, "part", names[i], meter->calls[i], meter->seconds[i], whole);
    const struct launch_timer *ops = launch_timers();
    for (int op = 0; meter->settings.times_ops && op < OP_COUNT; op++)
        if (comm_max_i64(meter->world, ops[op].calls) > 0)
            summary_row(meter, "op", op_info((enum op)op)->name, ops[op].calls, ops[op].seconds, whole);
    summary_row(meter, "all", "all", 1, whole, whole);
    journal_list_end(&meter->journal);
    end_line(meter);
}
