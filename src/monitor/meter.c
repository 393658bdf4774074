#include "monitor/meter_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "monitor/gpu_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_DIGITS = 12, STEP_TIME_DIGITS = 4 };

/* -- Opening and closing ----------------------------------------------------------------------------------------- */

/* The event files are for looking on: the run does without them. */
static void open_board(struct run_meter *meter, const char *folder, bool writes)
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
static void open_files(struct run_meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    char *lines = memory_format("%s/log.jsonl", s->folder), *events = memory_format("%s/tensorboard", s->folder);
    journal_open(&meter->journal, lines, s->step, s->validates);
    open_board(meter, events, begins(s) && s->tensorboard);
    free(lines);
    free(events);
}

void meter_open(struct run_meter *meter, struct comm *world, const struct meter_settings *settings)
{
    *meter = (struct run_meter){.world = world, .settings = *settings, .step = settings->step};
    meter->shown = (struct shown_numbers){.step = settings->step,
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
            meter_start(meter);
    }
    meter->started = meter->marked = clock_seconds();
}

static void close_files(struct run_meter *meter)
{
    journal_close(&meter->journal);
    tensorboard_close(&meter->board);
}

/* Counting since the last row begins. */
static void clear_row(struct run_meter *meter)
{
    meter->work = (struct meter_work){0};
    meter->step_count = 0;
    meter->loss_sum = meter->labels = meter->data_wait = 0;
}

void meter_rewind(struct run_meter *meter, int64_t step, bool validates, int64_t outliers)
{
    meter->shown.outliers = outliers;
    meter->settings.step = meter->step = meter->shown.step = step;
    meter->settings.validates = validates;
    clear_row(meter);
    meter->marked = clock_seconds();
    meter->idle = 0;
    if (meter->world->rank != 0)
        return;
    close_files(meter);
    open_files(meter);
}

void meter_close(struct run_meter *meter)
{
    close_files(meter);
    prometheus_close(&meter->prometheus);
    watch_close(&meter->watch);
    free(meter->step_seconds);
    meter->step_seconds = NULL;
}

/* -- Steps ------------------------------------------------------------------------------------------------------- */

void meter_add(struct run_meter *meter, enum meter_timer timer, double seconds)
{
    meter->seconds[timer] += seconds;
    meter->calls[timer]++;
    if (timer == METER_VALIDATION || timer == METER_CHECKPOINT)
        meter->idle += seconds;
    if (timer != METER_STEP && timer < METER_PARTS)
        watch_phase(&meter->watch,
                    timer == METER_DATA         ? STRAGGLER_DATA
                    : timer == METER_VALIDATION ? STRAGGLER_VALIDATION
                                                : STRAGGLER_SAVE,
                    seconds);
}

void meter_add_wait(struct run_meter *meter, enum meter_timer timer, double seconds)
{
    meter_add(meter, timer, seconds);
    meter->calls[timer]--;
}

double meter_pause(const struct run_meter *meter)
{
    return clock_seconds() - meter->marked - meter->idle;
}

void meter_count(struct run_meter *meter, const struct meter_row *row, double loss_sum, double labels,
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
    meter->step_seconds[meter->step_count++] = row->seconds;
    meter->data_wait += row->data_wait;
    meter->steps++;
    meter->marked = clock_seconds();
    meter->idle = 0;
    watch_step(&meter->watch);
}

/* What is left to do at the pace of this program so far, validations and checkpoints included. */
static double seconds_left(const struct run_meter *meter, int64_t step)
{
    if (meter->steps == 0)
        return INFINITY;
    double pace = (clock_seconds() - meter->started) / (double)meter->steps;
    return pace * (double)(meter->settings.steps_total - step);
}

/* -- Rows -------------------------------------------------------------------------------------------------------- */

/* Texts of the reasons that hold clocks down: "" or "power_cap thermal". */
static void write_throttles(struct run_journal *journal, const struct shown_numbers *s)
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

static void write_gpus(struct run_journal *journal, const struct shown_numbers *s)
{
    double *values = memory_allocate(s->gpu_count * (int64_t)sizeof *values);
    for (int n = 0; n < GPU_NUMBERS; n++) {
        for (int g = 0; g < s->gpu_count; g++)
            values[g] = gpu_number_of(&gpu_numbers[n], &s->gpus[g]);
        journal_reals(journal, gpu_numbers[n].key, values, s->gpu_count, GPU_DIGITS);
    }
    memory_free(values);
    write_throttles(journal, s);
}

static void write_line(struct run_meter *meter, const struct shown_numbers *s)
{
    struct run_journal *journal = &meter->journal;
    meter_begin_line(meter, "step", s->step);
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
    meter_end_line(meter);
}

/* Of what the recipes log, too, those have their names: rates of a GPU, gpu_memory_allocated in GiB. */
static void write_scalars(struct run_meter *meter, const struct shown_numbers *s)
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
        if (isfinite(gpu_number_together(&gpu_numbers[n], s)))
            scalars[count++] = (struct tensorboard_scalar){gpu_numbers[n].tag, gpu_number_together(&gpu_numbers[n], s)};
    tensorboard_write(&meter->board, s->step, scalars, count);
}

static struct shown_numbers shown_of(const struct run_meter *meter, const struct meter_row *row,
                                     const struct watch_row *found)
{
    const struct meter_settings *settings = &meter->settings;
    struct shown_numbers s = {.step = row->step,
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

void meter_step(struct run_meter *meter, const struct meter_row *row)
{
    const struct watch_counts counts = {meter->work.real, meter->work.positions, row->unpadded};
    const struct watch_row found = watch_look(&meter->watch, &counts);
    const double start = clock_seconds();
    const int64_t outliers = row->outliers - meter->shown.outliers;
    meter->shown = shown_of(meter, row, &found);
    run_table_print(&meter->table, &meter->shown, seconds_left(meter, row->step));
    if (outliers > 0)
        log_info("#%9lld gradient norm: %lld outliers since the row before, %lld in all", (long long)row->step,
                 (long long)outliers, (long long)row->outliers);
    write_line(meter, &meter->shown);
    write_scalars(meter, &meter->shown);
    prometheus_write(&meter->prometheus, &meter->shown);
    if (found.slow)
        meter_straggler(meter, row->step, &found.straggler);
    watch_told(&meter->watch, clock_seconds() - start);

    clear_row(meter);
}
