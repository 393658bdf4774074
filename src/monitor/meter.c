#include "monitor/meter_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/run_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_DIGITS = 12, STEP_TIME_DIGITS = 4 };

/* -- Opening and closing ----------------------------------------------------------------------------------------- */

/* Opens the event files, without which the run can continue. */
static void open_board(struct run_meter *meter, const char *folder, bool writes)
{
    /* also if none will be written now, because a later program may */
    int code = tensorboard_truncate(folder, meter->settings.step);
    if (code == ERROR_NONE && writes)
        code = tensorboard_open(&meter->board, folder, meter->settings.step);
    if (code == ERROR_NONE)
        return;
    log_warn("%s; the run continues without event files until its next start", error_message());
    error_clear();
    tensorboard_close(&meter->board);
}

/* Returns whether there is anything to log. */
static bool begins(const struct meter_settings *s)
{
    return s->step < s->steps_total || s->validates;
}

static void open_files(struct run_meter *meter)
{
    const struct meter_settings *s = &meter->settings;
    char *lines = memory_format("%s/" RUN_LOG, s->folder), *events = memory_format("%s/" RUN_TENSORBOARD, s->folder);
    event_log_open(&meter->event_log, lines, s->step, s->validates);
    open_board(meter, events, begins(s) && s->tensorboard);
    free(lines);
    free(events);
}

void meter_open(struct run_meter *meter, struct comm *world, const struct meter_settings *settings)
{
    *meter = (struct run_meter){.world = world, .settings = *settings, .step = settings->step};
    meter->shown.numbers = (struct run_numbers){.step = (double)settings->step,
                                                .steps_total = (double)settings->steps_total,
                                                .outliers = (double)settings->outliers,
                                                .validation_loss = NAN,
                                                .device_memory_peak = NAN,
                                                .effective_time = NAN};
    if (world->rank == 0)
        open_files(meter);
    watch_open(&meter->watch, world, settings->executor, settings->stage);
    if (world->rank == 0) {
        prometheus_open(&meter->prometheus, settings->folder, begins(settings) ? settings->prometheus : "");
        if (begins(settings))
            meter_start(meter);
    }
    meter->started = meter->marked = clock_seconds();
}

static void close_files(struct run_meter *meter)
{
    event_log_close(&meter->event_log);
    tensorboard_close(&meter->board);
}

static void clear_row(struct run_meter *meter)
{
    meter->work = (struct meter_work){0};
    meter->step_count = 0;
    meter->loss_sum = meter->labels = meter->data_wait = 0;
}

void meter_rewind(struct run_meter *meter, int64_t step, bool validates, int64_t outliers)
{
    meter->shown.numbers.outliers = (double)outliers;
    meter->shown.numbers.step = (double)step;
    meter->settings.step = meter->step = step;
    meter->settings.validates = validates;
    clear_row(meter);
    meter->marked = clock_seconds();
    meter->idle = 0;
    if (meter->world->rank != 0)
        return;
    close_files(meter);
    open_files(meter);
    meter->effective = 0;
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

/* Returns the seconds to the end of the run at the pace of this program so far, validations and checkpoints included.
 */
static double seconds_left(const struct run_meter *meter, int64_t step)
{
    if (meter->steps == 0)
        return INFINITY;
    double pace = (clock_seconds() - meter->started) / (double)meter->steps;
    return pace * (double)(meter->settings.steps_total - step);
}

/* -- Rows -------------------------------------------------------------------------------------------------------- */

/* Writes the throttle reasons of each GPU: "" or "power_cap thermal". */
static void write_throttles(struct event_log *event_log, const struct shown_row *s)
{
    event_log_list(event_log, "gpu_throttles");
    for (int g = 0; g < s->gpu_count; g++)
        for (int t = 0; t < NVML_THROTTLES; t++) {
            if ((s->gpus[g].reading.throttles >> t & 1) == 0)
                continue;
            event_log_object(event_log);
            event_log_integer(event_log, "rank", s->gpus[g].rank);
            event_log_text(event_log, "reason", nvml_throttle_name((enum nvml_throttle)t));
            event_log_object_end(event_log);
        }
    event_log_list_end(event_log);
}

/* Returns a metric of each GPU; freed with memory_free(). */
static double *of_gpus(const struct gpu_metric *metric, const struct shown_row *row)
{
    double *values = memory_allocate(row->gpu_count * (int64_t)sizeof *values);
    for (int g = 0; g < row->gpu_count; g++)
        values[g] = gpu_metric_of(metric, &row->gpus[g]);
    return values;
}

static void write_gpus(struct event_log *event_log, const struct shown_row *row)
{
    for (const struct gpu_metric *metric = gpu_metrics; metric < gpu_metrics + GPU_METRICS; metric++) {
        double *values = of_gpus(metric, row);
        event_log_reals(event_log, metric->key, values, row->gpu_count, GPU_DIGITS);
        memory_free(values);
    }
    write_throttles(event_log, row);
}

static void write_line(struct run_meter *meter, const struct shown_row *row)
{
    struct event_log *event_log = &meter->event_log;
    meter_begin_line(meter, "step", (int64_t)row->numbers.step);
    for (const struct run_metric *metric = run_metrics; metric < run_metrics + RUN_METRICS; metric++) {
        const double value = run_metric_of(metric, &row->numbers);
        if (metric->log.key == NULL || !run_metric_shows(metric, &row->numbers))
            continue;
        if (metric->log.digits == 0)
            event_log_integer(event_log, metric->log.key, (int64_t)value);
        else
            event_log_real(event_log, metric->log.key, value, metric->log.digits);
    }
    if (row->gpus_read)
        write_gpus(event_log, row);
    event_log_reals(event_log, "step_seconds", meter->step_seconds, meter->step_count, STEP_TIME_DIGITS);
    meter_end_line(meter);
}

/* Writes the row to TensorBoard. Scalars that BioNeMo's recipes log too have their names: rates per GPU,
 * gpu_memory_allocated in GiB. */
static void write_scalars(struct run_meter *meter, const struct shown_row *row)
{
    struct tensorboard_scalar scalars[RUN_METRICS + GPU_METRICS];
    int count = 0;
    for (const struct run_metric *metric = run_metrics; metric < run_metrics + RUN_METRICS; metric++)
        if (metric->board.tag != NULL && run_metric_shows(metric, &row->numbers))
            scalars[count++] = (struct tensorboard_scalar){metric->board.tag,
                                                           metric->board.factor * run_metric_of(metric, &row->numbers)};
    for (const struct gpu_metric *metric = gpu_metrics; metric < gpu_metrics + GPU_METRICS && row->gpus_read;
         metric++) {
        double *values = of_gpus(metric, row), together = gpu_metric_together(metric, values, row->gpu_count);
        if (isfinite(together))
            scalars[count++] = (struct tensorboard_scalar){metric->tag, together};
        memory_free(values);
    }
    tensorboard_write(&meter->board, (int64_t)row->numbers.step, scalars, count);
}

/* Returns the share of the time since the first start that became steps that count; NaN on ranks without a log. */
static double effective_time(const struct run_meter *meter)
{
    const struct time_account *account = &meter->event_log.account;
    const double age = clock_seconds(), now = clock_of_day();
    const double begun = isfinite(account->begun) ? account->begun : now - age;
    if (meter->event_log.path == NULL)
        return NAN;
    return (account->seconds[TIME_STEPS] + meter->effective) / (now - begun);
}

static struct shown_row shown_of(const struct run_meter *meter, const struct meter_row *row,
                                 const struct watch_row *found)
{
    const struct meter_settings *settings = &meter->settings;
    const double ranks = meter->world->size;
    struct run_numbers n = {.step = (double)row->step,
                            .steps_total = (double)settings->steps_total,
                            .steps = (double)meter->step_count,
                            .loss = row->loss,
                            .mean_loss = meter->labels > 0 ? meter->loss_sum / meter->labels : row->loss,
                            .learning_rate = row->learning_rate,
                            .grad_norm = row->grad_norm,
                            .outliers = (double)row->outliers,
                            .tokens = (double)row->tokens,
                            .samples = (double)(row->tokens / settings->row_tokens),
                            .unpadded = (double)found->counts.unpadded,
                            .data_wait = meter->data_wait,
                            .collectives = ranks > 1 ? found->collectives : (double)NAN,
                            .memory = (double)memory_resident_peak(),
                            .device_memory = found->device,
                            .device_memory_mean = found->device_mean,
                            .device_memory_max = found->device_max,
                            .device_memory_peak = fmax(meter->shown.numbers.device_memory_peak, found->device_max),
                            .validation_loss = meter->shown.numbers.validation_loss,
                            .effective_time = NAN,
                            .seconds_left = seconds_left(meter, row->step),
                            .time = NAN};
    for (int64_t i = 0; i < meter->step_count; i++)
        n.seconds += meter->step_seconds[i];
    n.perplexity = exp(n.mean_loss);
    n.rate = n.seconds > 0 ? (double)found->counts.tokens / n.seconds : 0;
    n.padded_rate = n.seconds > 0 ? (double)found->counts.positions / n.seconds : 0;
    n.rank_rate = n.rate / ranks;
    n.padded_rank_rate = n.padded_rate / ranks;
    n.step_seconds = n.seconds / (n.steps > 0 ? n.steps : 1);
    n.data_wait_ratio = n.seconds > 0 ? n.data_wait / n.seconds : 0;
    n.collectives_ratio = n.collectives / n.seconds;
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        n.utilisation[c] =
            settings->peak > 0 ? flops_utilisation(settings->flops_per_token[c], n.rate, settings->peak) : (double)NAN;
    return (struct shown_row){n, meter->watch.gpus, meter->watch.gpu_count, found->read};
}

void meter_step(struct run_meter *meter, const struct meter_row *row)
{
    const struct watch_counts counts = {meter->work.real, meter->work.positions, row->unpadded};
    const struct watch_row found = watch_look(&meter->watch, &counts);
    const double start = clock_seconds();
    const int64_t outliers = row->outliers - (int64_t)meter->shown.numbers.outliers;
    meter->shown = shown_of(meter, row, &found);
    meter->effective += meter->shown.numbers.seconds;
    meter->shown.numbers.effective_time = effective_time(meter);
    run_table_print(&meter->table, &meter->shown.numbers);
    if (outliers > 0)
        log_info("#%9lld gradient norm: %lld outliers since the row before, %lld in all", (long long)row->step,
                 (long long)outliers, (long long)row->outliers);
    write_line(meter, &meter->shown);
    write_scalars(meter, &meter->shown);
    prometheus_write(&meter->prometheus, &meter->shown);
    if (found.slow)
        meter_straggler(meter, row->step, &found.straggler);
    watch_reported(&meter->watch, clock_seconds() - start);

    clear_row(meter);
}
