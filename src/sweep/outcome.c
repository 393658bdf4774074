#include "sweep/outcome.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/path.h"
#include "file/run_folder.h"
#include "base/text.h"
#include "report/throughput.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMED_OUT = 124, KILLED = 137 /* exit codes of timeout */ };

/* -- Reading files ------------------------------------------------------------------------------------------------ */

/* Reads the output of `cistron plan`; an empty or damaged file is ignored. */
static void take_plan(struct run_outcome *o, const struct sweep_place *place, const struct sweep_case *c)
{
    char *path = sweep_job_path(place, c, "plan.json");
    json_t *plan = json_load_file(path, 0, NULL);
    double need = 0, batches = 0, offloaded = 0, seconds = 0, exposed = 0;
    if (json_unpack(plan, "{s:{s:F}, s:F, s:F, s?{s:F, s:F}}", "fit", "need", &need, "host_batches", &batches,
                    "host_offloaded", &offloaded, "time", "seconds", &seconds, "exposed", &exposed) == 0) {
        o->planned_memory = need;
        o->planned_host = batches + offloaded;
        o->planned_step = seconds > 0 ? seconds : NAN;
        o->planned_exposed = seconds > 0 ? exposed / seconds : NAN;
    }
    json_decref(plan);
    free(path);
}

/* Reads the log of one of the case's trainings. Returns false if there is none. */
static bool read_log(struct run_history *history, const struct sweep_place *place, const struct sweep_case *c,
                     const char *run, int *code)
{
    char *name = memory_format("%s/" RUN_LOG, run), *path = sweep_job_path(place, c, name);
    const bool there = access(path, F_OK) == 0;
    *code = there ? history_read(history, path) : ERROR_NONE;
    free(path);
    free(name);
    return there;
}

/* Keeps the curves, and what they end with: single steps of a short training vary too much to be compared. */
static void take_losses(struct run_outcome *o, const struct run_history *history)
{
    curves_create(&o->curves, history);
    const struct loss_curves *c = &o->curves;
    const double from = c->rows > 0 ? 0.9 * c->step[c->rows - 1] : 0;
    double sum = 0;
    int64_t steps = 0;
    for (int64_t i = 0; i < c->rows; i++)
        if (c->step[i] > from) {
            sum += c->loss[i];
            steps++;
        }
    o->loss = steps > 0 ? sum / (double)steps : NAN;
    o->validation_loss = c->validations > 0 ? c->validation[c->validations - 1] : NAN;
}

static int take_log(struct run_outcome *o, const struct sweep_place *place, const struct sweep_case *c)
{
    struct run_history history = {0};
    int code;
    if (!read_log(&history, place, c, "run", &code))
        return code;
    const struct throughput speed = throughput_of(&history, c->group->warm_up);
    o->steps = speed.steps;
    o->step_least = speed.least;
    o->step_median = speed.median;
    o->step_most = speed.most;
    o->step_tokens = speed.tokens;
    o->rate = speed.rate;
    o->rank_rate = speed.rate / (double)c->ranks;
    o->padded_rate = speed.padded_rate;
    o->waited = speed.waited;
    memcpy(o->utilisation, speed.utilisation, sizeof speed.utilisation);
    const struct history_peaks peaks = history_peaks(&history);
    o->device_memory = peaks.device_memory;
    o->resident = peaks.memory;
    take_losses(o, &history);
    if (history.start_count > 0) {
        free(o->device);
        free(o->host);
        o->device = memory_string(history.starts[history.start_count - 1].device_name);
        o->host = memory_string(history.starts[history.start_count - 1].host);
    }
    history_destroy(&history);
    return code;
}

/* Computes the exposed communication, from the step time of the training whose transfers take no time. */
static int take_exposed(struct run_outcome *o, const struct sweep_place *place, const struct sweep_case *c)
{
    struct run_history history = {0};
    int code;
    if (!read_log(&history, place, c, "free", &code))
        return code;
    o->exposed = 1 - throughput_of(&history, c->group->warm_up).median / o->step_median;
    history_destroy(&history);
    return code;
}

/* Returns the program's own error message, else the last line of the launcher. Freed with free(). */
static char *last_words(const struct sweep_place *place, const struct sweep_case *c)
{
    static const char begin[] = "cistron: ";
    char *path = sweep_job_path(place, c, "out.txt"), *line = NULL, *words = memory_string("");
    FILE *file = open_stream(path);
    size_t capacity = 0;
    bool found = false, framed = false, first = true; /* mpirun frames its messages with lines of dashes */
    while (file != NULL && !found && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, begin, strlen(begin)) == 0 && strncmp(line + strlen(begin), "warning", 7) != 0;
        const bool empty = line[strspn(line, " -")] == '\0', dashes = empty && line[0] == '-';
        framed = framed || dashes;
        if (!empty && (found || first || !framed)) {
            free(words);
            words = memory_string(found ? line + strlen(begin) : line);
        }
        first = dashes || (first && empty);
    }
    const size_t printable = 4 * strlen(words) + 1;
    char *text = memory_grow(NULL, (int64_t)printable);
    text_printable(text, printable, words);
    if (file != NULL)
        fclose(file);
    free(words);
    free(line);
    free(path);
    return text;
}

/* -- The whole outcome -------------------------------------------------------------------------------------------- */

static void take_exit(struct run_outcome *o, const struct sweep_place *place, const struct sweep_case *c)
{
    char *code = sweep_job_line(place, c, "exit");
    o->exit_code = code != NULL ? strtoll(code, NULL, 10) : ERROR_ENVIRONMENT;
    free(code);
    o->state = o->exit_code == ERROR_NONE ? "done" : "failed";
    if (o->exit_code == ERROR_NONE)
        return;
    free(o->message);
    o->message = o->exit_code == TIMED_OUT || o->exit_code == KILLED
                     ? memory_format("took longer than %g s, or was killed", c->group->seconds)
                     : last_words(place, c);
}

/* Without steps the case failed: a launcher may exit with 0 although the training failed or never began, as in
 * `{command} | tee log`. */
static void expect_steps(struct run_outcome *o, const struct sweep_place *place, const struct sweep_case *c)
{
    if (o->steps > 0)
        return;
    char *words = last_words(place, c);
    free(o->message);
    o->message =
        memory_format("launch has ended with 0, but no step was measured%s%s", words[0] != '\0' ? ": " : "", words);
    o->state = "failed";
    free(words);
}

static char *text_or_empty(char *text)
{
    return text != NULL ? text : memory_string("");
}

int outcome_read(struct run_outcome *o, const struct sweep_place *place, const struct sweep_case *c)
{
    static char *const states[] = {"new", "waiting", "running"};
    *o = (struct run_outcome){.name = c->name,
                              .deck = c->deck,
                              .scaling = (char *)sweep_scaling_names[c->group->scaling],
                              .varied = c->varied,
                              .shard = c->shard,
                              .compute = c->compute,
                              .recipe = c->recipe,
                              .series = c->series,
                              .ranks = c->ranks,
                              .nodes = c->nodes,
                              .tensor = c->tensor,
                              .pipeline = c->pipeline,
                              .context = c->context,
                              .micro_batch = c->micro_batch,
                              .global_batch = c->global_batch,
                              .state = "failed",
                              .exit_code = c->refusal != NULL ? ERROR_USER : -1,
                              .message = memory_string(c->refusal != NULL ? c->refusal : ""),
                              .build = memory_string(""),
                              .device = memory_string(""),
                              .host = memory_string("")};
    double *const unknown[] = {&o->step_least,     &o->step_median,    &o->step_most,     &o->step_tokens,
                               &o->rate,           &o->rank_rate,      &o->padded_rate,   &o->efficiency,
                               &o->waited,         &o->exposed,        &o->planned_step,  &o->planned_exposed,
                               &o->planned_memory, &o->planned_host,   &o->device_memory, &o->resident,
                               &o->loss,           &o->validation_loss};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        *unknown[i] = NAN;
    for (int i = 0; i < FLOPS_CONVENTIONS; i++)
        o->utilisation[i] = NAN;
    if (c->refusal != NULL)
        return ERROR_NONE;
    const enum sweep_state state = sweep_job_state(place, c);
    if (state != SWEEP_ENDED)
        o->state = states[state];
    if (state == SWEEP_NEW)
        return ERROR_NONE;
    free(o->build);
    o->build = text_or_empty(sweep_job_line(place, c, "build"));
    if (state != SWEEP_ENDED)
        return ERROR_NONE;
    take_exit(o, place, c);
    take_plan(o, place, c);
    if (o->exit_code != ERROR_NONE)
        return ERROR_NONE;
    int code = take_log(o, place, c);
    expect_steps(o, place, c);
    return code == ERROR_NONE ? take_exposed(o, place, c) : code;
}

void outcome_destroy(struct run_outcome *o)
{
    free(o->message);
    free(o->build);
    free(o->device);
    free(o->host);
    if (o->curves.step != NULL)
        curves_destroy(&o->curves);
}

char *outcome_label(const struct run_outcome *o)
{
    char *stem = path_stem(o->deck), *label = memory_format("%s%s%s", stem, o->varied[0] != '\0' ? " " : "", o->varied);
    free(stem);
    return label;
}

double outcome_loss(const struct run_outcome *o)
{
    return isfinite(o->validation_loss) ? o->validation_loss : o->loss;
}

void outcome_compare(struct run_outcome *outcomes, int count)
{
    for (struct run_outcome *o = outcomes; o < outcomes + count; o++) {
        const struct run_outcome *least = NULL;
        for (const struct run_outcome *other = outcomes; other < outcomes + count; other++)
            if (other->series == o->series && isfinite(other->rank_rate) &&
                (least == NULL || other->ranks < least->ranks))
                least = other;
        if (least != NULL && strcmp(o->scaling, sweep_scaling_names[SWEEP_NO_SCALING]) != 0)
            o->efficiency = o->rank_rate / least->rank_rate;
    }
}
