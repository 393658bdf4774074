#include "train/meter.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "core/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_EVERY = 20, LINE_BYTES = 4096 };

/* Copies the lines whose "step" is at most `step` and replaces the file by them. */
static int drop_later_lines(const char *path, int64_t step)
{
    FILE *old = fopen(path, "r");
    if (old == NULL)
        return errno == ENOENT ? ERROR_NONE : error_environment("%s: %s", path, strerror(errno));
    char *kept_path = memory_format("%s.tmp", path), line[LINE_BYTES];
    FILE *kept = fopen(kept_path, "w");
    int code = kept == NULL ? error_environment("%s: %s", kept_path, strerror(errno)) : ERROR_NONE;
    while (code == ERROR_NONE && fgets(line, sizeof line, old) != NULL) {
        const char *key = strstr(line, "\"step\":");
        if (key != NULL && atoll(key + strlen("\"step\":")) <= step && strchr(line, '\n') != NULL)
            fputs(line, kept);
    }
    fclose(old);
    if (kept != NULL && (fclose(kept) != 0 || rename(kept_path, path) != 0) && code == ERROR_NONE)
        code = error_environment("%s: %s", path, strerror(errno));
    free(kept_path);
    return code;
}

int meter_open(struct meter *meter, struct comm *world, const char *folder, int64_t step)
{
    *meter = (struct meter){.world = world};
    int code = ERROR_NONE;
    if (world->rank == 0) {
        char *path = memory_format("%s/log.jsonl", folder);
        code = drop_later_lines(path, step);
        if (code == ERROR_NONE) {
            meter->lines = fopen(path, "a");
            if (meter->lines == NULL)
                code = error_environment("%s: %s", path, strerror(errno));
            else
                setvbuf(meter->lines, NULL, _IOLBF, 0);
        }
        free(path);
    }
    meter->started = meter->since = clock_seconds();
    return comm_agree(world, code);
}

void meter_close(struct meter *meter)
{
    if (meter->lines != NULL && (ferror(meter->lines) | fclose(meter->lines)) != 0)
        log_warn("log.jsonl could not be written in full");
    meter->lines = NULL;
}

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
}

void meter_step(struct meter *meter, const struct meter_row *row)
{
    double now = clock_seconds(), seconds = now - meter->since - meter->idle;
    int64_t tokens = comm_sum_i64(meter->world, meter->tokens);
    double rate = seconds > 0 ? (double)tokens / seconds : 0;
    double mean = meter->labels > 0 ? meter->loss_sum / meter->labels : 0;
    double mebibytes = (double)memory_resident_peak() / (1 << 20);
    if (meter->rows_printed++ % HEADER_EVERY == 0)
        log_info("#%9s %10s %11s %10s %11s %9s %9s %8s", "step", "loss", "rate", "grad norm", "tokens/s", "seconds",
                 "data wait", "MiB");
    log_info("%10lld %10.5f %11.4e %10.4f %11.0f %9.3f %9.3f %8.0f", (long long)row->step, mean, row->learning_rate,
             row->grad_norm, rate, seconds, meter->data_wait, mebibytes);
    if (meter->lines != NULL)
        fprintf(meter->lines,
                "{\"event\":\"step\",\"step\":%lld,\"loss\":%.17g,\"mean_loss\":%.17g,\"lr\":%.17g,\"grad_norm\":%.9g,"
                "\"tokens_per_second\":%.1f,\"seconds\":%.4f,\"data_wait\":%.4f,\"memory\":%.0f}\n",
                (long long)row->step, row->loss, mean, row->learning_rate, row->grad_norm, rate, seconds,
                meter->data_wait, mebibytes * (1 << 20));
    meter->tokens = 0;
    meter->loss_sum = meter->labels = 0;
    meter->since = now;
    meter->data_wait = meter->idle = 0;
}

void meter_validation(struct meter *meter, int64_t step, double loss, double labels)
{
    log_info("#%9lld validation loss %.5f nats over %.0f labels", (long long)step, loss, labels);
    if (meter->lines != NULL)
        fprintf(meter->lines, "{\"event\":\"validation\",\"step\":%lld,\"loss\":%.17g,\"labels\":%.0f}\n",
                (long long)step, loss, labels);
}

void meter_checkpoint(struct meter *meter, int64_t step, const char *path, uint64_t digest, double seconds)
{
    log_info("#%9lld checkpoint %s digest %016llx (%.2f s)", (long long)step, path, (unsigned long long)digest,
             seconds);
    if (meter->lines != NULL)
        fprintf(meter->lines, "{\"event\":\"checkpoint\",\"step\":%lld,\"digest\":\"%016llx\",\"seconds\":%.3f}\n",
                (long long)step, (unsigned long long)digest, seconds);
}

void meter_note(struct meter *meter, int64_t step, const char *event, const char *text)
{
    log_info("#%9lld %s", (long long)step, text);
    if (meter->lines != NULL)
        fprintf(meter->lines, "{\"event\":\"%s\",\"step\":%lld,\"text\":\"%s\"}\n", event, (long long)step, text);
}

static void summary_row(struct meter *meter, const char *name, int64_t calls, double seconds, double whole)
{
    struct comm_spread spread = comm_spread(meter->world, seconds);
    log_info("# %-20s %10lld %10.3f %10.3f %10.3f %7.1f", name, (long long)calls, spread.minimum, spread.mean,
             spread.maximum, whole > 0 ? 100 * spread.mean / whole : 0);
}

void meter_summary(struct meter *meter)
{
    static const char *const names[METER_TIMERS] = {"training steps", "waiting for data", "validation", "checkpoints"};
    double whole = clock_seconds() - meter->started;
    log_info("# %-20s %10s %10s %10s %10s %7s", "seconds over ranks", "calls", "minimum", "mean", "maximum", "percent");
    for (int i = 0; i < METER_TIMERS; i++)
        summary_row(meter, names[i], meter->calls[i], meter->seconds[i], whole);
    const struct launch_timer *ops = launch_timers();
    for (int op = 0; op < OP_COUNT; op++)
        if (comm_max_i64(meter->world, ops[op].calls) > 0)
            summary_row(meter, op_info((enum op)op)->name, ops[op].calls, ops[op].seconds, whole);
    summary_row(meter, "all", 1, whole, whole);
}
