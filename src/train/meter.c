#include "train/meter.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "comm/launcher.h"
#include "core/launch.h"
#include "train/device_name.h"
#include "train/timers.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_EVERY = 20, EXACT_DIGITS = 17, RATE_DIGITS = 6, GPU_DIGITS = 12, TIME_DIGITS = 13, STEP_TIME_DIGITS = 4 };
enum { WIDE_COLUMNS = 96 /* of the table for files and wide terminals */ };

/* A program of less than this prints no timers: the log has them, and `cistron report`. */
static const double TIMERS_AFTER = 60;

/* Seconds by which a clock may drift without a word. */
static const double TELL_JUMP = 60;

/* -- Opening and closing ----------------------------------------------------------------------------------------- */

static void begin_line(struct meter *meter, const char *event, int64_t step)
{
    journal_begin(&meter->journal, event, step);
    meter->step = step;
}

/* Times in the log jump where the clock is set, which the run itself does not mind: it goes by another one. */
static double time_of_line(struct meter *meter)
{
    const double now = floor(1e3 * clock_of_day()) / 1e3, offset = now - clock_seconds(),
                 jump = offset - meter->clock_offset;
    if (meter->clock_offset != 0 && fabs(jump) > TELL_JUMP)
        log_warn("the clock of the day was set by %+.0f s, or the machine slept: times in the log jump, the run is not "
                 "concerned",
                 jump);
    if (meter->clock_offset == 0 || fabs(jump) > TELL_JUMP)
        meter->clock_offset = offset;
    return now;
}

static void end_line(struct meter *meter)
{
    journal_real(&meter->journal, "time", time_of_line(meter), TIME_DIGITS);
    journal_end(&meter->journal);
}

static void write_changed(struct journal *journal, const char *key, const struct deck_change *change, const char *value)
{
    if (change->is_text)
        journal_text(journal, key, value);
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        journal_truth(journal, key, value[0] == 't');
    else
        journal_real(journal, key, strtod(value, NULL), EXACT_DIGITS);
}

/* "goes on from step 4, with optimizer.lr = 0.001 (was 0.003)" */
static char *describe_start(const struct meter_settings *s)
{
    char *text = s->resumed ? memory_format("goes on from step %lld", (long long)s->step) : memory_string("begins");
    for (int i = 0; i < s->changed.count; i++) {
        char *change = deck_change_text(&s->changed.changes[i]);
        char *longer = memory_format("%s%s %s", text, i == 0 ? ", with" : ",", change);
        free(change);
        free(text);
        text = longer;
    }
    return text;
}

static void write_start(struct meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    struct journal *journal = &meter->journal;
    char host[256] = "", *text = describe_start(s), *name = device_name(s->executor);
    gethostname(host, sizeof host - 1);
    begin_line(meter, "start", s->step);
    journal_text(journal, "text", text);
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
    journal_integer(journal, "planned_memory", s->planned);
    journal_text(journal, "version", PACKAGE_VERSION);
    journal_text(journal, "host", host);
    journal_text(journal, "job", launcher_job());
    journal_text(journal, "device", s->executor->class->name);
    journal_text(journal, "device_name", name);
    if (s->resumed) {
        journal_real(journal, "load_seconds", s->load_seconds, RATE_DIGITS);
        journal_integer(journal, "load_bytes", s->load_bytes);
    }
    journal_list(journal, "changed");
    for (int i = 0; i < s->changed.count; i++) {
        const struct deck_change *change = &s->changed.changes[i];
        journal_object(journal);
        journal_text(journal, "key", change->key);
        write_changed(journal, "old", change, change->old);
        write_changed(journal, "new", change, change->new_);
        journal_object_end(journal);
    }
    journal_list_end(journal);
    end_line(meter);
    tensorboard_write_text(&meter->board, s->step, "run/start", text);
    meter->begun = true;
    free(name);
    free(text);
}

/* The event files are for looking on: the run does without them. */
static void open_board(struct meter *meter, const char *folder, bool writes)
{
    int code = tensorboard_cut(folder, meter->settings.step); /* also when none is written now: one may be later */
    if (code == ERROR_NONE && writes)
        code = tensorboard_open(&meter->board, folder, meter->settings.step);
    if (code == ERROR_NONE)
        return;
    log_warn("%s; the run goes on without TensorBoard's files until it is started again", error_message());
    error_clear();
    tensorboard_close(&meter->board);
}

/* Is there anything to be logged? */
static bool begins(const struct meter_settings *s)
{
    return s->step < s->steps_total || s->validates;
}

/* With what they hold up to settings.step. */
static void open_files(struct meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    char *lines = memory_format("%s/log.jsonl", s->folder), *events = memory_format("%s/tensorboard", s->folder);
    journal_open(&meter->journal, lines, s->step, s->validates);
    open_board(meter, events, begins(s) && s->tensorboard);
    free(lines);
    free(events);
}

void meter_open(struct meter *meter, struct comm *world, const struct meter_settings *settings)
{
    *meter = (struct meter){.world = world, .settings = *settings, .step = settings->step};
    meter->shown = (struct shown){.step = settings->step,
                                  .steps_total = settings->steps_total,
                                  .outliers = settings->outliers,
                                  .validation_loss = NAN,
                                  .device_peak = NAN};
    if (world->rank == 0)
        open_files(meter);
    watch_open(&meter->watch, world, settings->executor, settings->part);
    if (world->rank == 0) {
        prometheus_open(&meter->prometheus, settings->folder, begins(settings) ? settings->prometheus : "");
        if (begins(settings))
            write_start(meter);
    }
    meter->started = meter->marked = clock_seconds();
}

static void close_files(struct meter *meter)
{
    journal_close(&meter->journal);
    tensorboard_close(&meter->board);
}

/* Counting since the last row begins. */
static void clear_row(struct meter *meter)
{
    meter->work = (struct meter_work){0};
    meter->step_count = 0;
    meter->loss_sum = meter->labels = meter->data_wait = 0;
}

void meter_rewind(struct meter *meter, int64_t step, bool validates, int64_t outliers)
{
    meter->shown.outliers = outliers;
    meter->settings.step = meter->step = step;
    meter->settings.validates = validates;
    clear_row(meter);
    if (meter->world->rank != 0)
        return;
    close_files(meter);
    open_files(meter);
}

void meter_close(struct meter *meter)
{
    close_files(meter);
    prometheus_close(&meter->prometheus);
    watch_close(&meter->watch);
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
    if (timer != METER_STEP)
        watch_phase(&meter->watch,
                    timer == METER_DATA         ? STRAGGLER_DATA
                    : timer == METER_VALIDATION ? STRAGGLER_VALIDATION
                                                : STRAGGLER_SAVE,
                    seconds);
}

void meter_add_wait(struct meter *meter, enum meter_timer timer, double seconds)
{
    meter_add(meter, timer, seconds);
    meter->calls[timer]--;
}

void meter_count(struct meter *meter, const struct meter_row *row, double loss_sum, double labels,
                 const struct meter_work *work)
{
    meter->last[row->step % METER_LAST] = *row;
    meter->loss_sum += loss_sum;
    meter->labels += labels;
    meter->work.real += work->real;
    meter->work.positions += work->positions;
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
    watch_step(&meter->watch);
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

/* A header and rows for terminals of 80 columns: fewer digits, and GiB. */
static void print_narrow_header(bool with_mfu)
{
    log_info("#%6s %7s %8s %8s %8s %7s %4s %5s%s %10s", "", "loss", "learning", "gradient", "speed", "time", "data",
             "mem.", with_mfu ? "   MFU" : "", "time left");
    log_info("#%6s %7s %8s %8s %8s %7s %4s %5s%s %10s", "step", "nats", "rate", "norm", "tokens/s", "s/step", "%",
             "GiB", with_mfu ? "     %" : "", "hh:mm:ss");
}

static void print_wide_header(bool with_mfu)
{
    log_info("#%9s %9s %10s %10s %11s %9s %9s %9s%s %12s", "", "loss", "learning", "gradient", "speed", "time",
             "data wait", "memory", with_mfu ? "   MFU" : "", "time left");
    log_info("#%9s %9s %10s %10s %11s %9s %9s %9s%s %12s", "step", "nats", "rate", "norm", "tokens/s", "s/step", "%",
             "MiB", with_mfu ? "     %" : "", "d-hh:mm:ss");
}

static void print_header(struct meter *meter, bool with_mfu)
{
    int columns = terminal_columns();
    meter->narrow = columns > 0 && columns < WIDE_COLUMNS;
    if (meter->narrow)
        print_narrow_header(with_mfu);
    else
        print_wide_header(with_mfu);
}

static void print_row(struct meter *meter, const struct shown *s)
{
    bool with_mfu = meter->settings.peak > 0;
    if (meter->rows_printed++ % HEADER_EVERY == 0)
        print_header(meter, with_mfu);
    char left[METER_DURATION_BYTES], mfu[16] = "";
    meter_print_duration(left, seconds_left(meter, s->step));
    if (with_mfu)
        snprintf(mfu, sizeof mfu, " %5.1f", 100 * s->utilisation[FLOPS_CAUSAL]);
    double steps = s->steps > 0 ? (double)s->steps : 1;
    double waited = s->seconds > 0 ? 100 * s->data_wait / s->seconds : 0;
    if (meter->narrow)
        log_info("%7lld %7.4f %8.2e %#8.3g %8.0f %#7.3g %4.0f %5.1f%s %10s", (long long)s->step, s->mean_loss,
                 s->learning_rate, s->grad_norm, s->rate, s->seconds / steps, waited, s->memory / (1 << 30), mfu, left);
    else
        log_info("%10lld %9.5f %10.4e %#10.4g %11.0f %#9.4g %9.1f %9.0f%s %12s", (long long)s->step, s->mean_loss,
                 s->learning_rate, s->grad_norm, s->rate, s->seconds / steps, waited, s->memory / (1 << 20), mfu, left);
}

/* -- GPUs -------------------------------------------------------------------------------------------------------- */

/* A number of each GPU, as lists and largest, least or sum. */
static const struct gpu_number {
    const char *key, *tag;
    size_t offset; /* in struct nvml_reading */
    enum { GPU_SUM, GPU_LEAST, GPU_MOST } shows;
} gpu_numbers[] = {
    {"gpu_power", "gpu/power", offsetof(struct nvml_reading, power), GPU_SUM},
    {"gpu_sm_clock", "gpu/sm_clock", offsetof(struct nvml_reading, sm_clock), GPU_LEAST},
    {"gpu_memory_clock", "gpu/memory_clock", offsetof(struct nvml_reading, memory_clock), GPU_LEAST},
    {"gpu_temperature", "gpu/temperature", offsetof(struct nvml_reading, temperature), GPU_MOST},
    {"gpu_energy", "gpu/energy", offsetof(struct nvml_reading, energy), GPU_SUM},
};
enum { GPU_NUMBERS = sizeof gpu_numbers / sizeof *gpu_numbers };

static double gpu_number(const struct shown_gpu *gpu, const struct gpu_number *number)
{
    double value;
    memcpy(&value, (const char *)&gpu->reading + number->offset, sizeof value);
    return value;
}

static double gpus_together(const struct shown *s, const struct gpu_number *number)
{
    double whole = gpu_number(&s->gpus[0], number);
    for (int g = 1; g < s->gpu_count; g++) {
        const double one = gpu_number(&s->gpus[g], number);
        whole = number->shows == GPU_SUM     ? whole + one
                : number->shows == GPU_LEAST ? fmin(whole, one)
                                             : fmax(whole, one);
    }
    return whole;
}

/* Texts of the reasons that hold clocks down: "" or "power_cap thermal". */
static void write_throttles(struct journal *journal, const struct shown *s)
{
    journal_list(journal, "gpu_throttles");
    for (int g = 0; g < s->gpu_count; g++)
        for (int t = 0; t < NVML_THROTTLES; t++) {
            if ((s->gpus[g].reading.throttles >> t & 1) == 0)
                continue;
            journal_object(journal);
            journal_integer(journal, "rank", s->gpus[g].rank);
            journal_text(journal, "reason", nvml_throttle_name((enum nvml_throttle)t));
            journal_object_end(journal);
        }
    journal_list_end(journal);
}

static void write_gpus(struct journal *journal, const struct shown *s)
{
    double *values = memory_allocate(s->gpu_count * (int64_t)sizeof *values);
    for (int n = 0; n < GPU_NUMBERS; n++) {
        for (int g = 0; g < s->gpu_count; g++)
            values[g] = gpu_number(&s->gpus[g], &gpu_numbers[n]);
        journal_reals(journal, gpu_numbers[n].key, values, s->gpu_count, GPU_DIGITS);
    }
    memory_free(values);
    write_throttles(journal, s);
}

/* -- Rows -------------------------------------------------------------------------------------------------------- */

static void write_line(struct meter *meter, const struct shown *s)
{
    struct journal *journal = &meter->journal;
    begin_line(meter, "step", s->step);
    journal_real(journal, "loss", s->loss, EXACT_DIGITS);
    journal_real(journal, "mean_loss", s->mean_loss, EXACT_DIGITS);
    journal_real(journal, "perplexity", exp(s->mean_loss), RATE_DIGITS);
    journal_real(journal, "lr", s->learning_rate, EXACT_DIGITS);
    journal_real(journal, "grad_norm", s->grad_norm, 9);
    journal_integer(journal, "grad_norm_outliers", s->outliers);
    journal_integer(journal, "consumed_tokens", s->tokens);
    journal_integer(journal, "consumed_unpadded_tokens", s->unpadded);
    journal_integer(journal, "consumed_samples", s->samples);
    journal_real(journal, "tokens_per_second", s->rate, RATE_DIGITS);
    journal_real(journal, "padded_tokens_per_second", s->padded_rate, RATE_DIGITS);
    journal_real(journal, "seconds", s->seconds, RATE_DIGITS);
    journal_real(journal, "data_wait", s->data_wait, RATE_DIGITS);
    if (isfinite(s->collectives))
        journal_real(journal, "collectives", s->collectives, RATE_DIGITS);
    journal_real(journal, "memory", s->memory, EXACT_DIGITS);
    if (isfinite(s->device)) {
        journal_real(journal, "device_memory", s->device, EXACT_DIGITS);
        journal_real(journal, "device_memory_mean", s->device_mean, EXACT_DIGITS);
        journal_real(journal, "device_memory_max", s->device_max, EXACT_DIGITS);
        journal_real(journal, "device_memory_peak", s->device_peak, EXACT_DIGITS);
    }
    for (int c = 0; c < FLOPS_CONVENTIONS && meter->settings.peak > 0; c++) {
        char *key = memory_format("mfu_%s", flops_name((enum flops_convention)c));
        journal_real(journal, key, s->utilisation[c], RATE_DIGITS);
        free(key);
    }
    if (s->gpus_read)
        write_gpus(journal, s);
    journal_reals(journal, "step_seconds", meter->step_seconds, meter->step_count, STEP_TIME_DIGITS);
    end_line(meter);
}

/* Of what the recipes log, too, those have their names: rates of a GPU, gpu_memory_allocated in GiB. */
static void write_scalars(struct meter *meter, const struct shown *s)
{
    const double ranks = meter->world->size, gib = 1 << 30;
    struct tensorboard_scalar scalars[32] = {
        {"train/loss", s->mean_loss},
        {"train/perplexity", exp(s->mean_loss)},
        {"train/learning_rate", s->learning_rate},
        {"train/grad_norm", s->grad_norm},
        {"train/grad_norm_outliers", (double)s->outliers},
        {"train/consumed_tokens", (double)s->tokens},
        {"train/consumed_unpadded_tokens", (double)s->unpadded},
        {"train/consumed_samples", (double)s->samples},
        {"train/tokens_per_second", s->rate},
        {"train/padded_tokens_per_second", s->padded_rate},
        {"train/tokens_per_second_per_gpu", s->padded_rate / ranks},
        {"train/unpadded_tokens_per_second_per_gpu", s->rate / ranks},
        {"train/step_seconds", s->seconds / (s->steps > 0 ? (double)s->steps : 1)},
    };
    int count = 13;
    if (meter->settings.peak > 0)
        scalars[count++] = (struct tensorboard_scalar){"train/mfu", s->utilisation[FLOPS_CAUSAL]};
    if (isfinite(s->device)) {
        scalars[count++] = (struct tensorboard_scalar){"train/device_memory", s->device};
        scalars[count++] = (struct tensorboard_scalar){"train/gpu_memory_allocated_mean_gb", s->device_mean / gib};
        scalars[count++] = (struct tensorboard_scalar){"train/gpu_memory_allocated_max_gb", s->device_max / gib};
    }
    for (int n = 0; n < GPU_NUMBERS && s->gpus_read; n++)
        if (isfinite(gpus_together(s, &gpu_numbers[n])))
            scalars[count++] = (struct tensorboard_scalar){gpu_numbers[n].tag, gpus_together(s, &gpu_numbers[n])};
    tensorboard_write(&meter->board, s->step, scalars, count);
}

static struct shown shown_of(const struct meter *meter, const struct meter_row *row, const struct watch_row *found)
{
    const struct meter_settings *settings = &meter->settings;
    struct shown s = {.step = row->step,
                      .steps_total = settings->steps_total,
                      .steps = meter->step_count,
                      .loss = row->loss,
                      .mean_loss = meter->labels > 0 ? meter->loss_sum / meter->labels : row->loss,
                      .learning_rate = row->learning_rate,
                      .grad_norm = row->grad_norm,
                      .outliers = row->outliers,
                      .data_wait = meter->data_wait,
                      .collectives = meter->world->size > 1 ? found->collectives : (double)NAN,
                      .memory = (double)memory_resident_peak(),
                      .device = found->device,
                      .device_mean = found->device_mean,
                      .device_max = found->device_max,
                      .device_peak = fmax(meter->shown.device_peak, found->device_max),
                      .tokens = row->tokens,
                      .samples = row->tokens / settings->row_tokens,
                      .unpadded = found->counts.unpadded,
                      .validation_loss = meter->shown.validation_loss,
                      .gpus = meter->watch.gpus,
                      .gpu_count = meter->watch.gpu_count,
                      .gpus_read = found->read};
    for (int64_t i = 0; i < meter->step_count; i++)
        s.seconds += meter->step_seconds[i];
    s.rate = s.seconds > 0 ? (double)found->counts.tokens / s.seconds : 0;
    s.padded_rate = s.seconds > 0 ? (double)found->counts.positions / s.seconds : 0;
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        s.utilisation[c] =
            settings->peak > 0 ? flops_utilisation(settings->flops_per_token[c], s.rate, settings->peak) : (double)NAN;
    return s;
}

/* What happened, to its line in the log: more members may follow, then end_line. */
static void begin_note(struct meter *meter, int64_t step, const char *event, const char *text)
{
    char *tag = memory_format("run/%s", event);
    log_info("#%9lld %s", (long long)step, text);
    tensorboard_write_text(&meter->board, step, tag, text);
    begin_line(meter, event, step);
    journal_text(&meter->journal, "text", text);
    free(tag);
}

static void tell_straggler(struct meter *meter, int64_t step, const struct straggler_found *found)
{
    const char *host = meter->watch.hosts[found->rank], *phase = straggler_phase_name(found->phase);
    char *text =
        memory_format("rank %d on %s is slow: in %.3g s it has spent %.3g s more on %s than the median of the "
                      "ranks, %.0f %% of the time, and so in five looks in a row",
                      found->rank, host, found->seconds, found->excess, phase, 100 * found->excess / found->seconds);
    begin_note(meter, step, "straggler", text);
    journal_integer(&meter->journal, "rank", found->rank);
    journal_text(&meter->journal, "host", host);
    journal_text(&meter->journal, "phase", phase);
    journal_real(&meter->journal, "seconds", found->seconds, RATE_DIGITS);
    journal_real(&meter->journal, "excess", found->excess, RATE_DIGITS);
    end_line(meter);
    free(text);
}

void meter_step(struct meter *meter, const struct meter_row *row)
{
    const struct watch_counts counts = {meter->work.real, meter->work.positions, row->unpadded};
    const struct watch_row found = watch_look(&meter->watch, &counts);
    const double start = clock_seconds();
    const int64_t outliers = row->outliers - meter->shown.outliers;
    meter->shown = shown_of(meter, row, &found);
    print_row(meter, &meter->shown);
    if (outliers > 0)
        log_info("#%9lld gradient norm: %lld outliers since the row before, %lld in all", (long long)row->step,
                 (long long)outliers, (long long)row->outliers);
    write_line(meter, &meter->shown);
    write_scalars(meter, &meter->shown);
    prometheus_write(&meter->prometheus, &meter->shown);
    if (found.slow)
        tell_straggler(meter, row->step, &found.straggler);
    watch_told(&meter->watch, clock_seconds() - start);

    clear_row(meter);
}

/* -- Other lines ------------------------------------------------------------------------------------------------- */

void meter_validation(struct meter *meter, int64_t step, double loss, double labels)
{
    log_info("#%9lld validation loss %.5f nats over %.0f labels", (long long)step, loss, labels);
    begin_line(meter, "validation", step);
    journal_real(&meter->journal, "loss", loss, EXACT_DIGITS);
    journal_real(&meter->journal, "perplexity", exp(loss), RATE_DIGITS);
    journal_real(&meter->journal, "labels", labels, EXACT_DIGITS);
    end_line(meter);
    const struct tensorboard_scalar scalars[] = {{"validation/loss", loss}, {"validation/perplexity", exp(loss)}};
    tensorboard_write(&meter->board, step, scalars, 2);
    meter->shown.validation_loss = loss;
}

void meter_evaluation(struct meter *meter, int64_t step, double loss, double labels, const struct deck *deck)
{
    log_info("#%9lld nothing is left to train: evaluation on %s alone, loss %.5f nats over %.0f labels",
             (long long)step, deck->data.valid, loss, labels);
    begin_line(meter, "evaluation", step);
    journal_real(&meter->journal, "loss", loss, EXACT_DIGITS);
    journal_real(&meter->journal, "labels", labels, EXACT_DIGITS);
    journal_text(&meter->journal, "valid", deck->data.valid);
    journal_integer(&meter->journal, "rows", deck->validation.rows);
    end_line(meter);
}

/* Steps after it may have been shown: no begin_line. */
void meter_checkpoint(struct meter *meter, int64_t step, const struct meter_save *save)
{
    char digits[17];
    const double rate = save->seconds > 0 ? (double)save->bytes / save->seconds : 0;
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)save->digest);
    log_info("#%9lld checkpoint %s digest %s (%.2f s, %.2f GB/s, waited %.2f s)", (long long)step, save->path, digits,
             save->seconds, rate * 1e-9, save->waited);
    journal_begin(&meter->journal, "checkpoint", step);
    journal_text(&meter->journal, "digest", digits);
    journal_real(&meter->journal, "seconds", save->seconds, RATE_DIGITS);
    journal_real(&meter->journal, "waited", save->waited, RATE_DIGITS);
    journal_integer(&meter->journal, "bytes", save->bytes);
    end_line(meter);
    const struct tensorboard_scalar scalars[] = {{"checkpoint/seconds", save->seconds},
                                                 {"checkpoint/waited", save->waited},
                                                 {"checkpoint/bytes_per_second", rate}};
    tensorboard_write(&meter->board, step, scalars, 3);
}

/* The step itself is not shown by it: no begin_line. */
void meter_statistics(struct meter *meter, int64_t step, const struct statistics_row *rows, int64_t count)
{
    journal_begin(&meter->journal, "statistics", step);
    statistics_log(&meter->journal, rows, count);
    end_line(meter);
    statistics_draw(&meter->board, step, rows, count);
}

void meter_note(struct meter *meter, int64_t step, const char *event, const char *text)
{
    begin_note(meter, step, event, text);
    end_line(meter);
}

void meter_diverged(struct meter *meter, const struct meter_row *row, const char *text)
{
    struct journal *journal = &meter->journal;
    if (meter->step < row->step)
        meter_step(meter, row);
    int64_t count = meter->steps < METER_LAST ? meter->steps : METER_LAST;
    log_info("# the run has diverged; its last steps, each on its own:");
    log_info("#%9s %9s %10s %10s", "step", "loss", "rate", "norm");
    begin_line(meter, "diverged", row->step);
    journal_text(journal, "text", text);
    journal_list(journal, "last_steps");
    for (int64_t step = row->step - count + 1; step <= row->step; step++) {
        const struct meter_row *r = &meter->last[step % METER_LAST];
        if (r->step != step) /* made again behind a rewind */
            continue;
        const struct tensorboard_scalar scalars[] = {{"last_steps/loss", r->loss},
                                                     {"last_steps/learning_rate", r->learning_rate},
                                                     {"last_steps/grad_norm", r->grad_norm}};
        log_info("%10lld %9.5f %10.4e %#10.4g", (long long)r->step, r->loss, r->learning_rate, r->grad_norm);
        tensorboard_write(&meter->board, step, scalars, 3);
        journal_object(journal);
        journal_integer(journal, "step", r->step);
        journal_real(journal, "loss", r->loss, EXACT_DIGITS);
        journal_real(journal, "lr", r->learning_rate, EXACT_DIGITS);
        journal_real(journal, "grad_norm", r->grad_norm, EXACT_DIGITS);
        journal_object_end(journal);
    }
    journal_list_end(journal);
    end_line(meter);
    tensorboard_write_text(&meter->board, row->step, "run/diverged", text);
}

void meter_end(struct meter *meter, int code, const char *text)
{
    const char *how = code == ERROR_NONE       ? "finished"
                      : code == ERROR_REQUEUE  ? "stopped"
                      : code == ERROR_DIVERGED ? "diverged"
                                               : "failed";
    prometheus_end(&meter->prometheus, &meter->shown, code);
    if (!meter->begun && !meter->journal.unfinished)
        return;
    begin_line(meter, "end", meter->step);
    journal_text(&meter->journal, "how", how);
    journal_integer(&meter->journal, "code", code);
    journal_text(&meter->journal, "text", text);
    end_line(meter);
    char *line = memory_format("%s: %s", how, text);
    tensorboard_write_text(&meter->board, meter->step, "run/end", line);
    free(line);
}

/* -- Timers ------------------------------------------------------------------------------------------------------ */

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

static void write_timer(struct journal *journal, const struct timer *timer)
{
    journal_object(journal);
    journal_text(journal, "name", timer->name);
    journal_text(journal, "kind", timer->kind);
    journal_integer(journal, "calls", timer->calls);
    journal_real(journal, "minimum", timer->minimum, RATE_DIGITS);
    journal_real(journal, "mean", timer->mean, RATE_DIGITS);
    journal_real(journal, "maximum", timer->maximum, RATE_DIGITS);
    journal_object_end(journal);
}

static struct timer timer_over_ranks(struct comm *world, const char *kind, const char *name, int64_t calls,
                                     double seconds)
{
    struct comm_spread spread = comm_spread(world, seconds);
    return (struct timer){name, kind, calls, spread.minimum, spread.mean, spread.maximum};
}

void meter_summary(struct meter *meter)
{
    static const char *const names[METER_TIMERS] = {"training steps", "waiting for data",      "validation",
                                                    "checkpoints",    "loading, at the start", "writing beside steps"};
    struct timer timers[METER_TIMERS + 2 + OP_COUNT];
    struct comm *world = meter->world;
    double whole = clock_seconds() - meter->started, rest = whole;
    int count = 0;
    for (int i = 0; i < METER_LOAD; i++) {
        timers[count++] = timer_over_ranks(world, "part", names[i], meter->calls[i], meter->seconds[i]);
        rest -= meter->seconds[i];
    }
    timers[count++] = timer_over_ranks(world, "part", "the rest", 1, rest);
    timers[count++] = timer_over_ranks(world, "all", "all", 1, whole);
    for (int i = METER_LOAD; i < METER_TIMERS; i++)
        if (comm_max_i64(world, meter->calls[i]) > 0)
            timers[count++] = timer_over_ranks(world, "beside", names[i], meter->calls[i], meter->seconds[i]);
    const struct launch_timer *ops = launch_timers();
    bool times_ops = meter->settings.executor->class->event_passed == NULL;
    for (int op = 0; times_ops && op < OP_COUNT; op++)
        if (comm_max_i64(world, ops[op].calls) > 0)
            timers[count++] = timer_over_ranks(world, "op", op_info((enum op)op)->name, ops[op].calls, ops[op].seconds);
    if (whole >= TIMERS_AFTER)
        timers_print(timers, count, "# ");
    begin_line(meter, "timers", meter->step);
    journal_list(&meter->journal, "timers");
    for (int i = 0; i < count; i++)
        write_timer(&meter->journal, &timers[i]);
    journal_list_end(&meter->journal);
    end_line(meter);
}
