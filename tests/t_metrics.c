/* The table of metrics: its rows agree with themselves, and doc/formats_logs.md lists each name that they have in
 * log.jsonl, TensorBoard and the file for Prometheus, and no other. */
#include "check.h"

#include "base/memory.h"
#include "monitor/metrics.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAXIMUM_NAMES = 128 };

/* Names, and which of them were found in the page. */
struct names {
    const char *names[MAXIMUM_NAMES];
    bool found[MAXIMUM_NAMES];
    int count;
};

static void add_name(struct names *names, const char *name)
{
    if (name != NULL && CHECK(names->count < MAXIMUM_NAMES))
        names->names[names->count++] = name;
}

/* -- Rows -------------------------------------------------------------------------------------------------------- */

static bool ends(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* The base unit is in a Prometheus name, and so is "total" in that of a counter. */
static void check_prometheus_name(const char *name, const char *type, const char *unit)
{
    const bool counter = ends(name, "_total");
    CHECK(counter == (strcmp(type, "counter") == 0) && (counter || strcmp(type, "gauge") == 0));
    CHECK((strcmp(unit, "bytes") == 0) == ends(name, "_bytes"));
    CHECK((strcmp(unit, "s") == 0) == ends(name, "_seconds"));
    CHECK((strcmp(unit, "ratio") == 0) == ends(name, "_ratio"));
    CHECK((strcmp(unit, "tokens/s") == 0) == ends(name, "_per_second"));
}

static void check_column(const struct run_metric *metric, const struct metric_column *column)
{
    char text[64];
    if (column->width == 0)
        return;
    CHECK((int)strlen(column->title) <= column->width && (int)strlen(column->unit) <= column->width);
    if (column->format == NULL)
        return;
    CHECK(column->factor > 0);
    CHECK(strcmp(column->unit, "%") != 0 || (column->factor == 100 && strcmp(metric->unit, "ratio") == 0));
    CHECK(snprintf(text, sizeof text, column->format, 1.0) <= column->width);
}

/* Each number has one row, and can be set and read by it. */
static void check_rows(void)
{
    int places = 0;
    struct run_numbers numbers = {0};
    for (int m = 0; m < RUN_METRICS; m++) {
        const struct run_metric *metric = &run_metrics[m];
        CHECK(metric->unit != NULL && ends(metric->help, "."));
        CHECK(run_metric_of(metric, &numbers) == 0); /* no other row has set it */
        run_metric_set(metric, &numbers, m + 1);
        CHECK(run_metric_of(metric, &numbers) == m + 1);
        check_column(metric, &metric->wide);
        check_column(metric, &metric->narrow);
        CHECK((metric->wide.width == 0) == (metric->narrow.width == 0));
        CHECK(metric->board.tag == NULL || metric->board.factor > 0);
        if (metric->prometheus.place > 0)
            check_prometheus_name(metric->prometheus.name, metric->prometheus.type, metric->unit);
        places += metric->prometheus.place > 0;
        for (int other = 0; other < m && metric->prometheus.place > 0; other++)
            CHECK(run_metrics[other].prometheus.place != metric->prometheus.place);
    }
    for (int m = 0; m < RUN_METRICS; m++)
        CHECK(run_metrics[m].prometheus.place <= places); /* without gaps */
}

static void check_conventions(void)
{
    struct run_numbers numbers = {0};
    for (int c = 0; c < FLOPS_CONVENTIONS; c++) {
        char *key = memory_format("mfu_%s", flops_name((enum flops_convention)c));
        numbers.utilisation[c] = c + 1;
        int found = 0;
        for (int m = 0; m < RUN_METRICS; m++)
            if (run_metrics[m].log.key != NULL && strcmp(run_metrics[m].log.key, key) == 0)
                found += run_metric_of(&run_metrics[m], &numbers) == c + 1;
        CHECK(found == 1);
        free(key);
    }
}

/* -- The page ---------------------------------------------------------------------------------------------------- */

/* The text of doc/formats_logs.md between two texts; freed with free(). */
static char *part(const char *begin, const char *end)
{
    const char *source = getenv("abs_top_srcdir");
    char *path = memory_format("%s/doc/formats_logs.md", source != NULL ? source : "."),
         *whole = memory_grow(NULL, 1 << 20);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    whole[file != NULL ? fread(whole, 1, (1 << 20) - 1, file) : 0] = '\0';
    if (file != NULL)
        fclose(file);
    char *from = strstr(whole, begin), *to = from != NULL ? strstr(from + strlen(begin), end) : NULL;
    CHECK(from != NULL && to != NULL);
    char *text = to != NULL ? strndup(from, (size_t)(to - from)) : strdup("");
    free(whole);
    free(path);
    return text;
}

static void find_name(struct names *names, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0) {
            names->found[i] = true;
            return;
        }
    if (!CHECK(!"a name of doc/formats_logs.md is that of a metric"))
        fprintf(stderr, "    %s\n", name);
}

/* Finds the names in a column of a table, cells of "a, b" or "`a`, `b`". */
static void find_names(struct names *names, const char *begin, const char *end, int column)
{
    char *table = part(begin, end), *rest = table, *line, *cell, *name;
    while ((line = strsep(&rest, "\n")) != NULL) {
        for (int i = 0; i <= column && line != NULL; i++) {
            strsep(&line, "|");
        }
        cell = line != NULL ? strsep(&line, "|") : NULL;
        while ((name = strsep(&cell, ", `")) != NULL)
            if (name[0] != '\0')
                find_name(names, name);
    }
    free(table);
}

/* The column of the table of metrics that lists the names of a sink. */
enum { LOG, TENSORBOARD, PROMETHEUS };

static void find_metrics(struct names *names, int sink)
{
    find_names(names, "| loss |", "\n\n", sink);
}

static void check_found(const struct names *names)
{
    for (int i = 0; i < names->count; i++)
        if (!CHECK(names->found[i]))
            fprintf(stderr, "    %s is not in doc/formats_logs.md\n", names->names[i]);
}

static void check_log(void)
{
    struct names names = {0};
    for (int m = 0; m < RUN_METRICS; m++)
        add_name(&names, run_metrics[m].log.key);
    for (int m = 0; m < GPU_METRICS; m++)
        add_name(&names, gpu_metrics[m].key);
    add_name(&names, "gpu_throttles");
    add_name(&names, "step_seconds");
    find_metrics(&names, LOG);
    check_found(&names);
}

static void check_prometheus(void)
{
    struct names names = {0};
    for (int m = 0; m < RUN_METRICS; m++)
        add_name(&names, run_metrics[m].prometheus.name);
    for (int m = 0; m < GPU_METRICS; m++)
        add_name(&names, gpu_metrics[m].name);
    add_name(&names, "cistron_info");
    add_name(&names, "cistron_finished");
    add_name(&names, "cistron_exit_code");
    add_name(&names, "cistron_gpu_throttled");
    find_metrics(&names, PROMETHEUS);
    find_names(&names, "| cistron_info |", "\n\n", 0);
    check_found(&names);
}

static void check_tags(void)
{
    struct names names = {0};
    for (int m = 0; m < RUN_METRICS; m++)
        add_name(&names, run_metrics[m].board.tag);
    for (int m = 0; m < GPU_METRICS; m++)
        add_name(&names, gpu_metrics[m].tag);
    find_metrics(&names, TENSORBOARD);
    check_found(&names);
}

int main(void)
{
    check_rows();
    check_conventions();
    check_log();
    check_prometheus();
    check_tags();
    return check_end();
}
