#include "monitor/prometheus.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "monitor/gpu_numbers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EVERY_SECONDS = 1 };

static const char head[] = "# HELP cistron_info "; /* what a file begins with */

/* -- Lines ------------------------------------------------------------------------------------------------------- */

static void put_label(FILE *file, const char *name, const char *value)
{
    fprintf(file, "%s=\"", name);
    for (; *value != '\0'; value++)
        if (*value == '\n')
            fputs("\\n", file);
        else
            fprintf(file, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    fputc('"', file);
}

static void put_family(FILE *file, const char *name, const char *type, const char *help)
{
    fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct metric {
    const char *name, *type, *help;
    double value; /* NaN: not known, left out */
};

static void put_metric(FILE *file, const char *run, const struct metric *metric)
{
    if (isnan(metric->value))
        return;
    put_family(file, metric->name, metric->type, metric->help);
    fprintf(file, "%s{", metric->name);
    put_label(file, "run", run);
    if (isinf(metric->value))
        fprintf(file, "} %sInf\n", metric->value > 0 ? "+" : "-");
    else
        fprintf(file, "} %.17g\n", metric->value);
}

static void put_numbers(FILE *file, const char *run, const struct shown_numbers *s)
{
    enum { WITHOUT_ROW = 3 /* what is known before the first row */ };
    const double steps = (double)s->steps;
    const struct metric metrics[] = {
        {"cistron_step", "gauge", "Steps that the run has done.", (double)s->step},
        {"cistron_steps_wanted", "gauge", "Steps of the whole run (train.steps).", (double)s->steps_total},
        {"cistron_update_timestamp_seconds", "gauge", "When this file was written, Unix time.", clock_of_day()},
        {"cistron_tokens_total", "counter", "Tokens that the run has learnt from, padding included.",
         (double)s->tokens},
        {"cistron_unpadded_tokens_total", "counter", "Tokens that the run has learnt from, without padding.",
         (double)s->unpadded},
        {"cistron_samples_total", "counter", "Rows that the run has learnt from.", (double)s->samples},
        {"cistron_loss", "gauge", "Training loss in nats per label, mean since the row before.", s->mean_loss},
        {"cistron_perplexity", "gauge", "Exponential of the training loss.", exp(s->mean_loss)},
        {"cistron_validation_loss", "gauge", "Last validation loss in nats per label.", s->validation_loss},
        {"cistron_learning_rate", "gauge", "Learning rate of the last step.", s->learning_rate},
        {"cistron_gradient_norm", "gauge", "L2 norm of the gradient before clipping.", s->grad_norm},
        {"cistron_gradient_norm_outliers_total", "counter", "Steps whose gradient norm was far above those before.",
         (double)s->outliers},
        {"cistron_step_seconds", "gauge", "Time of a step, mean since the row before.", s->seconds / steps},
        {"cistron_data_wait_ratio", "gauge", "Share of that time in which rank 0 waited for data.",
         s->data_wait / s->seconds},
        {"cistron_collectives_ratio", "gauge", "Share of that time that ranks were in collectives, mean over ranks.",
         s->collectives / s->seconds},
        {"cistron_tokens_per_second", "gauge", "Tokens a second without padding, all ranks.", s->rate},
        {"cistron_padded_tokens_per_second", "gauge", "Positions computed a second, padding included, all ranks.",
         s->padded_rate},
        {"cistron_mfu_ratio", "gauge", "Model FLOPs utilisation, of causal attention.", s->utilisation[FLOPS_CAUSAL]},
        {"cistron_memory_peak_bytes", "gauge", "Peak resident set of rank 0.", s->memory},
        {"cistron_device_memory_max_bytes", "gauge", "Memory in use on the GPU that has the most in use.",
         s->device_max},
        {"cistron_device_memory_mean_bytes", "gauge", "Memory in use on a GPU, mean over ranks.", s->device_mean},
    };
    const size_t count = s->steps > 0 ? sizeof metrics / sizeof *metrics : WITHOUT_ROW;
    for (size_t i = 0; i < count; i++)
        put_metric(file, run, &metrics[i]);
}

static void put_gpu_labels(FILE *file, const char *name, const char *run, const struct shown_gpu *gpu)
{
    char number[16];
    fprintf(file, "%s{", name);
    put_label(file, "run", run);
    fputc(',', file);
    put_label(file, "host", gpu->host);
    snprintf(number, sizeof number, "%d", gpu->reading.index);
    fputc(',', file);
    put_label(file, "gpu", number);
}

static void put_gpus(FILE *file, const char *run, const struct shown_numbers *s)
{
    for (int n = 0; n < GPU_NUMBERS; n++) {
        const struct gpu_number *number = &gpu_numbers[n];
        put_family(file, number->metric, number->type, number->help);
        for (int g = 0; g < s->gpu_count; g++) {
            const double value = gpu_number_of(number, &s->gpus[g]);
            if (isnan(value))
                continue;
            put_gpu_labels(file, number->metric, run, &s->gpus[g]);
            fprintf(file, "} %.17g\n", value);
        }
    }
    put_family(file, "cistron_gpu_throttled", "gauge", "1: this holds the clocks down.");
    for (int g = 0; g < s->gpu_count; g++)
        for (int t = 0; t < NVML_THROTTLES; t++) {
            put_gpu_labels(file, "cistron_gpu_throttled", run, &s->gpus[g]);
            fputc(',', file);
            put_label(file, "reason", nvml_throttle_name((enum nvml_throttle)t));
            fprintf(file, "} %d\n", (int)(s->gpus[g].reading.throttles >> t & 1));
        }
}

/* -- The file ---------------------------------------------------------------------------------------------------- */

static char *path_of(const char *folder, const char *name)
{
    return strchr(name, '/') != NULL ? memory_string(name) : memory_format("%s/%s", folder, name);
}

static bool is_own(const char *path)
{
    char beginning[sizeof head] = "";
    FILE *file = open_stream(path);
    const size_t got = file != NULL ? fread(beginning, 1, sizeof head - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    return file != NULL && (got == 0 || strcmp(beginning, head) == 0);
}

/* A folder of that name is left to the warning that each failure to write gives. */
int prometheus_check(const char *folder, const char *name)
{
    struct stat status;
    char *path = path_of(folder, name);
    int code = ERROR_NONE;
    if (name[0] != '\0' && stat(path, &status) == 0 && !S_ISDIR(status.st_mode) && !is_own(path))
        code =
            error_user("key log.prometheus = \"%s\": %s is there and is not a file of a run's metrics; choose another "
                       "name",
                       name, path);
    free(path);
    return code;
}

void prometheus_open(struct prometheus *prometheus, const char *folder, const char *name)
{
    *prometheus = (struct prometheus){.written = -EVERY_SECONDS};
    if (name[0] == '\0')
        return;
    prometheus->path = path_of(folder, name);
    char *whole = realpath(folder, NULL);
    prometheus->run = whole != NULL ? whole : memory_string(folder);
}

void prometheus_close(struct prometheus *prometheus)
{
    free(prometheus->path);
    free(prometheus->run);
    *prometheus = (struct prometheus){NULL};
}

/* The collector reads names that end in ".prom" alone. It may read at any time, so the file is never half-written; but
 * nobody needs it after a crash of the machine, so it is not flushed to the disk. */
static bool exchange(const char *path, const char *text, size_t bytes)
{
    char *draft = memory_format("%s.tmp-%ld", path, (long)getpid());
    const int descriptor = open_new(draft);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    bool good = file != NULL && fwrite(text, 1, bytes, file) == bytes;
    good = (file == NULL || fclose(file) == 0) && good && rename(draft, path) == 0;
    const int failure = errno;
    if (!good && descriptor >= 0)
        unlink(draft);
    free(draft);
    errno = failure;
    return good;
}

static void write_file(struct prometheus *p, const struct shown_numbers *shown, bool ended, int code)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = memory_stream(&text, &bytes);
    put_family(file, "cistron_info", "gauge", "1; its label is the program's version.");
    fputs("cistron_info{", file);
    put_label(file, "run", p->run);
    fputs(",version=\"" PACKAGE_VERSION "\"} 1\n", file);
    put_numbers(file, p->run, shown);
    if (shown->gpu_count > 0)
        put_gpus(file, p->run, shown);
    put_metric(file, p->run, &(struct metric){"cistron_finished", "gauge", "1: the program has ended.", ended});
    put_metric(file, p->run,
               &(struct metric){"cistron_exit_code", "gauge", "Of the program, once it has ended.",
                                ended ? code : (double)NAN});
    memory_stream_end(file);
    const bool failing = !exchange(p->path, text, bytes);
    if (failing && !p->failing)
        log_warn("%s: cannot write it: %s; the run goes on, and it is tried again", p->path, strerror(errno));
    p->failing = failing;
    free(text);
}

void prometheus_write(struct prometheus *prometheus, const struct shown_numbers *shown)
{
    if (prometheus->path == NULL || clock_seconds() < prometheus->written + EVERY_SECONDS)
        return;
    write_file(prometheus, shown, false, 0);
    prometheus->written = clock_seconds();
}

void prometheus_end(struct prometheus *prometheus, const struct shown_numbers *shown, int code)
{
    if (prometheus->path != NULL)
        write_file(prometheus, shown, true, code);
}
