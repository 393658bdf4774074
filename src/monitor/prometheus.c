#include "monitor/prometheus.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/replace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EVERY_SECONDS = 1 };

static const char head[] = "# HELP cistron_info "; /* every file begins with this */

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

/* Writes a family with one metric, unless its value is not known. */
static void put_metric(FILE *file, const char *run, const struct run_metric *metric, double value)
{
    const char *name = metric->prometheus.name;
    if (isnan(value))
        return;
    put_family(file, name, metric->prometheus.type, metric->help);
    fprintf(file, "%s{", name);
    put_label(file, "run", run);
    if (isinf(value))
        fprintf(file, "} %sInf\n", value > 0 ? "+" : "-");
    else
        fprintf(file, "} %.17g\n", value);
}

/* Metrics of the program itself. */
static const struct run_metric finished = {.help = "1: the program has ended.",
                                           .prometheus = {0, "cistron_finished", "gauge"}},
                               exit_code = {.help = "Exit code of the program, once it has ended.",
                                            .prometheus = {0, "cistron_exit_code", "gauge"}};

static const struct run_metric *metric_at(int place)
{
    for (int m = 0; m < RUN_METRICS; m++)
        if (run_metrics[m].prometheus.place == place)
            return &run_metrics[m];
    return NULL;
}

static void put_numbers(FILE *file, const char *run, const struct run_numbers *shown)
{
    struct run_numbers numbers = *shown;
    numbers.time = clock_of_day();
    const struct run_metric *metric;
    for (int place = 1; (metric = metric_at(place)) != NULL; place++)
        if (numbers.steps > 0 || metric->prometheus.at_start)
            put_metric(file, run, metric, run_metric_of(metric, &numbers));
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

static void put_gpus(FILE *file, const char *run, const struct shown_row *s)
{
    for (int m = 0; m < GPU_METRICS; m++) {
        const struct gpu_metric *metric = &gpu_metrics[m];
        put_family(file, metric->name, metric->type, metric->help);
        for (int g = 0; g < s->gpu_count; g++) {
            const double value = gpu_metric_of(metric, &s->gpus[g]);
            if (isnan(value))
                continue;
            put_gpu_labels(file, metric->name, run, &s->gpus[g]);
            fprintf(file, "} %.17g\n", value);
        }
    }
    put_family(file, "cistron_gpu_throttled", "gauge", "1: this reason limits the clocks.");
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

/* A folder of this name is not refused here; each write to it fails with a warning. */
int prometheus_check(const char *folder, const char *name)
{
    struct stat status;
    char *path = path_of(folder, name);
    int code = ERROR_NONE;
    if (name[0] != '\0' && stat(path, &status) == 0 && !S_ISDIR(status.st_mode) && !is_own(path))
        code =
            error_user("key log.prometheus = \"%s\": %s exists and is not a metrics file of a run; choose another name",
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

/* Replaces the file. node_exporter may read it at any time, so it is never half-written, and ignores the temporary
 * file, whose name does not end in ".prom". It is not flushed to the disk, since nobody needs it after a crash of the
 * machine. */
static bool exchange(const char *path, const char *text, size_t bytes)
{
    struct file_replacement replacement;
    replace_begin(&replacement, path);
    const int descriptor = open_new(replacement.temporary);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    bool good = file != NULL && fwrite(text, 1, bytes, file) == bytes;
    good = (file == NULL || fclose(file) == 0) && good && replace_commit(&replacement, false) == ERROR_NONE;
    const int failure = errno;
    error_clear(); /* the caller reports errno */
    replace_discard(&replacement);
    errno = failure;
    return good;
}

static void write_file(struct prometheus *p, const struct shown_row *shown, bool ended, int code)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = memory_stream(&text, &bytes);
    put_family(file, "cistron_info", "gauge", "1; its label is the program's version.");
    fputs("cistron_info{", file);
    put_label(file, "run", p->run);
    fputs(",version=\"" PACKAGE_VERSION "\"} 1\n", file);
    put_numbers(file, p->run, &shown->numbers);
    if (shown->gpu_count > 0)
        put_gpus(file, p->run, shown);
    put_metric(file, p->run, &finished, ended);
    put_metric(file, p->run, &exit_code, ended ? code : (double)NAN);
    memory_stream_end(file);
    const bool failing = !exchange(p->path, text, bytes);
    if (failing && !p->failing)
        log_warn("%s: cannot write it: %s; the run continues, and writing is retried", p->path, strerror(errno));
    p->failing = failing;
    free(text);
}

void prometheus_write(struct prometheus *prometheus, const struct shown_row *shown)
{
    if (prometheus->path == NULL || clock_seconds() < prometheus->written + EVERY_SECONDS)
        return;
    write_file(prometheus, shown, false, 0);
    prometheus->written = clock_seconds();
}

void prometheus_end(struct prometheus *prometheus, const struct shown_row *shown, int code)
{
    if (prometheus->path != NULL)
        write_file(prometheus, shown, true, code);
}
