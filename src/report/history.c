#include "report/history.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one element after `count`; the capacity doubles at powers of two. */
static void *grow(void *array, int64_t count, size_t bytes)
{
    bool full = (count & (count - 1)) == 0; /* 0, 1, 2, 4, 8, ... */
    return full ? memory_grow(array, (count > 0 ? 2 * count : 1) * (int64_t)bytes) : array;
}

/* Appends an element to history->ARRAY; the value is the element. */
#define APPEND(array, count) ((array) = grow((array), (count), sizeof *(array)), &(array)[(count)++])

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Returns the number of a key that ends with a convention's name, such as "mfu_causal". */
static double of_convention(const json_t *object, const char *begin, int convention)
{
    char *key = memory_format("%s_%s", begin, flops_name((enum flops_convention)convention));
    double value = number(object, key);
    free(key);
    return value;
}

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Returns a text of the line, made printable because it may go to a terminal. */
static char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    size_t capacity = value != NULL ? 4 * strlen(value) + 1 : 1;
    char *printable = memory_grow(NULL, (int64_t)capacity);
    text_printable(printable, capacity, value != NULL ? value : "");
    return printable;
}

/* -- Kinds of lines ---------------------------------------------------------------------------------------------- */

static void drop_timers(struct run_history *history)
{
    for (int64_t i = 0; i < history->timer_count; i++) {
        free((char *)history->timers[i].name);
        free((char *)history->timers[i].kind);
    }
    history->timer_count = 0;
}

static void add_start(struct run_history *history, const json_t *line)
{
    drop_timers(history);
    struct history_start *start = APPEND(history->starts, history->start_count);
    *start = (struct history_start){
        .step = integer(line, "step"),
        .steps_total = integer(line, "steps_total"),
        .ranks = integer(line, "ranks"),
        .threads = integer(line, "threads"),
        .parameters = integer(line, "parameters"),
        .peak = number(line, "peak"),
        .time = number(line, "time"),
        .version = text(line, "version"),
        .host = text(line, "host"),
        .job = text(line, "job"),
        .device = text(line, "device"),
        .device_name = text(line, "device_name"),
    };
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        start->flops_per_token[c] = of_convention(line, "flops_per_token", c);
}

static struct run_numbers metrics(const json_t *object)
{
    struct run_numbers numbers;
    for (const struct run_metric *metric = run_metrics; metric < run_metrics + RUN_METRICS; metric++)
        run_metric_set(metric, &numbers, metric->log.key != NULL ? number(object, metric->log.key) : (double)NAN);
    numbers.steps = NAN;
    numbers.time = number(object, "time");
    return numbers;
}

static void add_last_steps(struct run_history *history, const json_t *line)
{
    size_t i;
    json_t *value;
    history->last_count = 0;
    json_array_foreach(json_object_get(line, "last_steps"), i, value)
    {
        *APPEND(history->last_steps, history->last_count) =
            (struct history_row){.step = integer(value, "step"), .numbers = metrics(value)};
    }
}

/* Combines a metric of all GPUs; NaN if the line does not have it, or a value is not a number. */
static double gpus_together(const struct gpu_metric *metric, const json_t *line)
{
    const json_t *list = json_object_get(line, metric->key);
    const int64_t count = (int64_t)json_array_size(list);
    double *values = memory_allocate((count + 1) * (int64_t)sizeof *values), together;
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        values[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    together = gpu_metric_together(metric, values, count);
    memory_free(values);
    return together;
}

static void add_row(struct run_history *history, const json_t *line)
{
    struct history_row *row = APPEND(history->rows, history->row_count);
    *row = (struct history_row){.step = integer(line, "step"), .numbers = metrics(line)};
    for (int m = 0; m < GPU_METRICS; m++)
        row->gpus[m] = gpus_together(&gpu_metrics[m], line);
    row->first_time = history->step_count;
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(line, "step_seconds"), i, value)
    {
        if (json_is_number(value))
            *APPEND(history->step_seconds, history->step_count) = json_number_value(value);
    }
    row->times = history->step_count - row->first_time;
}

static void add_timers(struct run_history *history, const json_t *line)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(line, "timers"), i, value)
    {
        *APPEND(history->timers, history->timer_count) = (struct timer){
            .name = text(value, "name"),
            .kind = text(value, "kind"),
            .calls = integer(value, "calls"),
            .minimum = number(value, "minimum"),
            .mean = number(value, "mean"),
            .maximum = number(value, "maximum"),
        };
    }
}

/* Adds the layers of a line "statistics", in which operands of a layer are consecutive. */
static void add_statistics(struct run_history *history, const json_t *line)
{
    const int64_t step = integer(line, "step");
    struct history_layer *layer = NULL;
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(line, "operands"), i, value)
    {
        const int64_t own = integer(value, "layer");
        const char *linear = json_string_value(json_object_get(value, "linear"));
        const char *operand = json_string_value(json_object_get(value, "operand"));
        const double underflow = number(value, "underflow"), error = number(value, "error");
        if (own < 1 || own > INT32_MAX || linear == NULL || operand == NULL)
            continue;
        if (layer == NULL || layer->layer != own) {
            layer = APPEND(history->layers, history->layer_count);
            *layer = (struct history_layer){.step = step, .layer = (int)own, .underflow = NAN, .error = NAN};
        }
        if (isnan(layer->error) || error > layer->error)
            layer->error = error;
        if (strcmp(operand, "gradient") != 0 || !(isnan(layer->underflow) || underflow > layer->underflow))
            continue;
        layer->underflow = underflow;
        text_printable(layer->linear, sizeof layer->linear, linear);
    }
}

/* Adds a note. The text of an end begins with its kind: "stopped: a signal requests a stop". */
static void add_note(struct run_history *history, const json_t *line, const char *event)
{
    bool ends = strcmp(event, "end") == 0;
    char *how = text(line, "how"), *why = text(line, "text");
    *APPEND(history->notes, history->note_count) =
        (struct history_note){.step = integer(line, "step"),
                              .time = number(line, "time"),
                              .event = memory_string(event),
                              .text = memory_format("%s%s%s", ends ? how : "", ends ? ": " : "", why)};
    free(how);
    free(why);
}

static void add_validation(struct run_history *history, const json_t *line, int64_t step)
{
    struct history_validation *validation = APPEND(history->validations, history->validation_count);
    *validation = (struct history_validation){
        .step = step, .loss = number(line, "loss"), .labels = number(line, "labels"), .time = number(line, "time")};
    for (int m = 0; m < VALIDATION_METRICS; m++)
        validation->metrics[m] = number(line, validation_metrics[m].key);
}

static void add_line(struct run_history *history, const json_t *line, const char *event)
{
    int64_t step = integer(line, "step");
    if (strcmp(event, "start") == 0)
        add_start(history, line);
    else if (strcmp(event, "step") == 0)
        add_row(history, line);
    else if (strcmp(event, "validation") == 0)
        add_validation(history, line, step);
    else if (strcmp(event, "checkpoint") == 0)
        *APPEND(history->checkpoints, history->checkpoint_count) =
            (struct history_checkpoint){step, text(line, "digest")};
    else if (strcmp(event, "timers") == 0)
        add_timers(history, line);
    else if (strcmp(event, "statistics") == 0)
        add_statistics(history, line);
    else if (strcmp(event, "diverged") == 0)
        add_last_steps(history, line);
    else if (strcmp(event, "end") == 0)
        *APPEND(history->ends, history->end_count) = (struct history_end){
            step, history->start_count, number(line, "time"), text(line, "how"), text(line, "text")};
    if (json_is_string(json_object_get(line, "text")))
        add_note(history, line, event);
    history->time = number(line, "time");
    time_account_add(&history->account, line);
}

/* -- The file ---------------------------------------------------------------------------------------------------- */

int history_read(struct run_history *history, const char *path)
{
    *history = (struct run_history){.time = NAN, .account = time_account_create()};
    FILE *file = open_stream(path);
    if (file == NULL)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    char *bytes = NULL;
    size_t capacity = 0;
    int64_t number_of_line = 0;
    for (ssize_t length; (length = getline(&bytes, &capacity, file)) > 0 && bytes[length - 1] == '\n';) {
        number_of_line++;
        json_t *line = json_loadb(bytes, (size_t)length, 0, NULL);
        const char *event = json_string_value(json_object_get(line, "event"));
        if (event != NULL && json_is_integer(json_object_get(line, "step")))
            add_line(history, line, event);
        else if (history->damaged++ == 0)
            history->first_damaged = number_of_line;
        json_decref(line);
    }
    int code = ferror(file) != 0 ? error_environment("%s: cannot read it: %s", path, strerror(errno)) : ERROR_NONE;
    free(bytes);
    fclose(file);
    return code;
}

void history_destroy(struct run_history *history)
{
    drop_timers(history);
    for (int64_t i = 0; i < history->start_count; i++) {
        free(history->starts[i].version);
        free(history->starts[i].host);
        free(history->starts[i].job);
        free(history->starts[i].device);
        free(history->starts[i].device_name);
    }
    for (int64_t i = 0; i < history->end_count; i++) {
        free(history->ends[i].how);
        free(history->ends[i].text);
    }
    for (int64_t i = 0; i < history->checkpoint_count; i++)
        free(history->checkpoints[i].digest);
    for (int64_t i = 0; i < history->note_count; i++) {
        free(history->notes[i].event);
        free(history->notes[i].text);
    }
    free(history->starts);
    free(history->rows);
    free(history->validations);
    free(history->checkpoints);
    free(history->ends);
    free(history->layers);
    free(history->notes);
    free(history->last_steps);
    free(history->timers);
    free(history->step_seconds);
}

void history_warn(const struct run_history *h, const char *path)
{
    if (h->damaged > 0)
        log_warn("%s: %lld damaged lines are left out, the first is line %lld; was the file edited?", path,
                 (long long)h->damaged, (long long)h->first_damaged);
}

const struct history_validation *history_best(const struct run_history *history)
{
    const struct history_validation *best = history->validation_count > 0 ? history->validations : NULL;
    for (int64_t i = 0; i < history->validation_count; i++)
        if (history->validations[i].loss < best->loss || isnan(best->loss))
            best = &history->validations[i];
    return best;
}

struct history_peaks history_peaks(const struct run_history *history)
{
    struct history_peaks peaks = {NAN, NAN};
    for (int64_t i = 0; i < history->row_count; i++) { /* fmax(NaN, number) is the number */
        peaks.memory = fmax(peaks.memory, history->rows[i].numbers.memory);
        peaks.device_memory = fmax(peaks.device_memory, history->rows[i].numbers.device_memory);
    }
    return peaks;
}
