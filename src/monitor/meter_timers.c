#include "monitor/meter_private.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thousands.h"
#include "core/launch.h"
#include "monitor/timers.h"

/* A shorter program does not print its timers; the log has them, and `cistron report` shows them. */
static const double TIMERS_AFTER = 60;

void meter_profile(struct run_meter *meter, int64_t step, int64_t steps, const struct profile_row *rows, int count)
{
    double whole = 0;
    for (int i = 0; i < count; i++)
        whole += rows[i].seconds;
    log_info("# profile of %lld step%s to step %lld; milliseconds and calls a step", (long long)steps, plural(steps),
             (long long)step);
    log_info("# %-18s %8s %8s %7s %10s %7s %8s %8s", "op", "rows", "columns", "calls", "ms", "percent", "GB/s",
             "TFLOP/s");
    meter_begin_line(meter, "profile", step);
    event_log_list(&meter->event_log, "profile");
    for (int i = 0; i < count; i++) {
        const struct profile_row *r = &rows[i];
        double each = r->seconds / (double)r->calls, milliseconds = 1e3 * r->seconds / (double)steps;
        double calls = (double)r->calls / (double)steps;
        log_info("# %-18s %8lld %8lld %7.1f %10.3f %7.2f %8.0f %8.1f", op_info(r->op)->name, (long long)r->rows,
                 (long long)r->cols, calls, milliseconds, 100 * r->seconds / whole, 1e-9 * (double)r->bytes / each,
                 1e-12 * (double)r->flops / each);
        event_log_object(&meter->event_log);
        event_log_text(&meter->event_log, "op", op_info(r->op)->name);
        event_log_integer(&meter->event_log, "rows", r->rows);
        event_log_integer(&meter->event_log, "columns", r->cols);
        event_log_integer(&meter->event_log, "flops", r->flops);
        event_log_integer(&meter->event_log, "bytes", r->bytes);
        event_log_real(&meter->event_log, "calls", calls, RATE_DIGITS);
        event_log_real(&meter->event_log, "milliseconds", milliseconds, RATE_DIGITS);
        event_log_object_end(&meter->event_log);
    }
    event_log_list_end(&meter->event_log);
    meter_end_line(meter);
    log_info("# %-18s %8s %8s %7s %10.3f", "all", "", "", "", 1e3 * whole / (double)steps);
}

static void write_timer(struct event_log *event_log, const struct timer *timer)
{
    event_log_object(event_log);
    event_log_text(event_log, "name", timer->name);
    event_log_text(event_log, "kind", timer->kind);
    event_log_integer(event_log, "calls", timer->calls);
    event_log_real(event_log, "minimum", timer->minimum, RATE_DIGITS);
    event_log_real(event_log, "mean", timer->mean, RATE_DIGITS);
    event_log_real(event_log, "maximum", timer->maximum, RATE_DIGITS);
    event_log_object_end(event_log);
}

static struct timer timer_over_ranks(struct comm *world, const char *kind, const char *name, int64_t calls,
                                     double seconds)
{
    struct comm_spread spread = comm_spread(world, seconds);
    return (struct timer){name, kind, calls, spread.minimum, spread.mean, spread.maximum};
}

void meter_summary(struct run_meter *meter)
{
    static const char *const names[METER_TIMERS] = {"training steps", "waiting for data",      "validation",
                                                    "checkpoints",    "loading, at the start", "background writing"};
    struct timer timers[METER_TIMERS + 2 + OP_COUNT];
    struct comm *world = meter->world;
    double whole = clock_seconds() - meter->started, rest = whole;
    int count = 0;
    for (int i = 0; i < METER_PARTS; i++) {
        timers[count++] = timer_over_ranks(world, "part", names[i], meter->calls[i], meter->seconds[i]);
        rest -= meter->seconds[i];
    }
    timers[count++] = timer_over_ranks(world, "part", "the rest", 1, rest);
    timers[count++] = timer_over_ranks(world, "all", "all", 1, whole);
    for (int i = METER_PARTS; i < METER_TIMERS; i++)
        if (comm_max_i64(world, meter->calls[i]) > 0)
            timers[count++] = timer_over_ranks(world, "beside", names[i], meter->calls[i], meter->seconds[i]);
    const struct launch_timer *ops = launch_timers();
    bool times_ops = meter->settings.executor->class->event_passed == NULL;
    for (int op = 0; times_ops && op < OP_COUNT; op++)
        if (comm_max_i64(world, ops[op].calls) > 0)
            timers[count++] = timer_over_ranks(world, "op", op_info((enum op)op)->name, ops[op].calls, ops[op].seconds);
    if (whole >= TIMERS_AFTER) {
        timers_print(timers, count, "# ");
        log_info("# %.1f %% of the time since the run's first start became steps that count (cistron report)",
                 100 * meter->shown.numbers.effective_time);
    }
    meter_begin_line(meter, "timers", meter->step);
    event_log_list(&meter->event_log, "timers");
    for (int i = 0; i < count; i++)
        write_timer(&meter->event_log, &timers[i]);
    event_log_list_end(&meter->event_log);
    meter_end_line(meter);
}
