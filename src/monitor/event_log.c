#include "monitor/event_log.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "base/thousands.h"
#include "file/atomic_file.h"
#include "file/jsontext.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITING_BYTES = 16 << 20 /* enough for more than a day */, RETRY_SECONDS = 10 };

/* -- Lines of earlier programs ---------------------------------------------------------------------------------- */

/* Returns whether an event is about a program, not a step, so that repeating steps does not repeat it. */
static bool of_program(const char *event)
{
    static const char *const events[] = {"start",     "end",     "diverged", "set_aside",
                                         "stretched", "blended", "rewind",   "evaluation"};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strcmp(event, events[i]) == 0)
            return true;
    return false;
}

static bool stays(const struct event_log *event_log, const char *event, int64_t step)
{
    bool again = event_log->validates && step == event_log->step && strcmp(event, "validation") == 0;
    return of_program(event) || (step <= event_log->step && !again);
}

/* Writes the time of dropped lines as a line, with the time of the last line so far, dropped or kept. */
static void write_lost(struct event_log *event_log, const struct time_lost *lost, FILE *to)
{
    if (lost->seconds <= 0 && lost->counted <= 0 && !(lost->until > event_log->account.until))
        return;
    json_t *line = json_pack("{s:s, s:I, s:I, s:f, s:f}", "event", "lost", "step", (json_int_t)event_log->step, "steps",
                             (json_int_t)lost->steps, "seconds", lost->seconds, "counted", lost->counted);
    const double until = fmax(lost->until, event_log->account.until); /* of NaN and a number: the number */
    json_object_set_new(line, "time", json_real(isfinite(until) ? until : clock_of_day()));
    json_dumpf(line, to, JSON_COMPACT);
    fputc('\n', to);
    time_account_add(&event_log->account, line);
    json_decref(line);
}

/* Copies the lines to keep. Returns the number of damaged lines, which are not copied. */
static int64_t copy_lines(struct event_log *event_log, FILE *from, FILE *to)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t damaged = 0;
    struct time_lost lost = {.until = NAN};
    event_log->account = time_account_create();
    for (ssize_t length; (length = getline(&line, &capacity, from)) > 0 && line[length - 1] == '\n';) {
        json_t *object = json_loadb(line, (size_t)length, 0, NULL);
        const json_t *step = json_object_get(object, "step");
        const char *event = json_string_value(json_object_get(object, "event"));
        if (!json_is_integer(step) || event == NULL)
            damaged++;
        else if (stays(event_log, event, json_integer_value(step))) {
            fwrite(line, 1, (size_t)length, to);
            time_account_add(&event_log->account, object);
        } else {
            time_lost_add(&lost, object, event_log->step);
        }
        if (event != NULL && (strcmp(event, "start") == 0 || strcmp(event, "end") == 0))
            event_log->unfinished = strcmp(event, "start") == 0;
        json_decref(object);
    }
    free(line);
    write_lost(event_log, &lost, to);
    return damaged;
}

static int drop_later_lines(struct event_log *event_log)
{
    const char *path = event_log->path;
    FILE *old = open_stream(path);
    if (old == NULL)
        return errno == ENOENT ? ERROR_NONE : error_environment("%s: cannot open it: %s", path, open_failure());
    struct atomic_file kept;
    int code = atomic_file_open(&kept, path);
    if (code == ERROR_NONE) {
        int64_t damaged = copy_lines(event_log, old, kept.file);
        if (damaged > 0)
            log_warn("%s: %lld damaged lines are removed; was the disk full, or was the file edited?", path,
                     (long long)damaged);
        if (ferror(old) != 0)
            code = error_environment("%s: cannot read it", path);
        code = atomic_file_close(&kept, code);
    }
    fclose(old);
    return code;
}

/* -- The file ---------------------------------------------------------------------------------------------------- */

static int open_log(struct event_log *event_log)
{
    int code = drop_later_lines(event_log);
    if (code != ERROR_NONE)
        return code;
    event_log->descriptor = open_own(event_log->path, O_WRONLY | O_APPEND | O_CREAT);
    return event_log->descriptor >= 0 ? ERROR_NONE
                                      : error_environment("%s: cannot open it: %s", event_log->path, open_failure());
}

static void begin_failing(struct event_log *event_log, const char *why)
{
    if (!event_log->failing)
        log_warn("%s; the run continues, and its lines are written later", why);
    event_log->failing = true;
}

/* Opens the log if it is not open; returns whether it is. It does not try at each line, since opening reads the whole
 * file. */
static bool is_open(struct event_log *event_log, bool try_now)
{
    if (event_log->descriptor >= 0)
        return true;
    if (!try_now && clock_seconds() < event_log->tried + RETRY_SECONDS)
        return false;
    event_log->tried = clock_seconds();
    if (open_log(event_log) == ERROR_NONE)
        return true;
    begin_failing(event_log, error_message());
    error_clear();
    return false;
}

/* Writes as much of the waiting text as possible. The rest of a partly written line is written first next time. */
static void write_waiting(struct event_log *event_log, bool try_now)
{
    int64_t done = 0;
    if (!is_open(event_log, try_now))
        return;
    while (done < event_log->waiting_bytes) {
        ssize_t written =
            write(event_log->descriptor, event_log->waiting + done, (size_t)(event_log->waiting_bytes - done));
        if (written <= 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        done += written;
    }
    int failure = errno;
    event_log->waiting_bytes -= done;
    if (event_log->waiting_bytes > 0) {
        memmove(event_log->waiting, event_log->waiting + done, (size_t)event_log->waiting_bytes);
        char *why = memory_format("%s: cannot write it: %s", event_log->path, strerror(failure));
        begin_failing(event_log, why);
        free(why);
    } else if (event_log->failing) {
        log_info("# %s is written again", event_log->path);
        event_log->failing = false;
    }
}

static void wait_for_writing(struct event_log *event_log, const char *line, int64_t bytes)
{
    if (event_log->waiting_bytes + bytes > WAITING_BYTES) {
        event_log->lost_lines++;
        return;
    }
    if (event_log->waiting_bytes + bytes > event_log->waiting_capacity) {
        event_log->waiting_capacity = 2 * (event_log->waiting_bytes + bytes);
        event_log->waiting = memory_grow(event_log->waiting, event_log->waiting_capacity);
    }
    memcpy(event_log->waiting + event_log->waiting_bytes, line, (size_t)bytes);
    event_log->waiting_bytes += bytes;
}

void event_log_open(struct event_log *event_log, const char *path, int64_t step, bool validates)
{
    *event_log = (struct event_log){.path = memory_string(path),
                                    .step = step,
                                    .validates = validates,
                                    .descriptor = -1,
                                    .tried = -RETRY_SECONDS,
                                    .account = time_account_create()};
    write_waiting(event_log, true);
}

void event_log_close(struct event_log *event_log)
{
    if (event_log->path == NULL)
        return;
    write_waiting(event_log, true);
    for (int64_t i = 0; i < event_log->waiting_bytes; i++)
        event_log->lost_lines += event_log->waiting[i] == '\n';
    if (event_log->descriptor >= 0 && close(event_log->descriptor) != 0)
        log_warn("%s: cannot close it: %s; its last lines may be lost", event_log->path, strerror(errno));
    if (event_log->lost_lines > 0)
        log_warn("%s: %lld line%s at its end could not be written: lost", event_log->path,
                 (long long)event_log->lost_lines, plural(event_log->lost_lines));
    free(event_log->waiting);
    free(event_log->path);
    *event_log = (struct event_log){NULL};
}

/* -- Members ----------------------------------------------------------------------------------------------------- */

static void put_text(FILE *file, const char *text)
{
    json_t *string = jsontext_create(text, (int64_t)strlen(text));
    json_dumpf(string, file, JSON_ENCODE_ANY);
    json_decref(string);
}

static void put_real(FILE *file, double value, int digits)
{
    if (isfinite(value))
        fprintf(file, "%.*g", digits, value);
    else
        fputs("null", file);
}

static void put_comma(struct event_log *event_log)
{
    if (event_log->follow)
        fputc(',', event_log->line);
    event_log->follow = true;
}

/* Writes the key of the next member. Returns false if no line is being made. */
static bool put_key(struct event_log *event_log, const char *key)
{
    if (event_log->line == NULL)
        return false;
    put_comma(event_log);
    fprintf(event_log->line, "\"%s\":", key);
    return true;
}

void event_log_integer(struct event_log *event_log, const char *key, int64_t value)
{
    if (put_key(event_log, key))
        fprintf(event_log->line, "%lld", (long long)value);
}

void event_log_boolean(struct event_log *event_log, const char *key, bool value)
{
    if (put_key(event_log, key))
        fputs(value ? "true" : "false", event_log->line);
}

void event_log_real(struct event_log *event_log, const char *key, double value, int digits)
{
    if (put_key(event_log, key))
        put_real(event_log->line, value, digits);
}

void event_log_reals(struct event_log *event_log, const char *key, const double *values, int64_t count, int digits)
{
    if (!put_key(event_log, key))
        return;
    fputc('[', event_log->line);
    for (int64_t i = 0; i < count; i++) {
        if (i > 0)
            fputc(',', event_log->line);
        put_real(event_log->line, values[i], digits);
    }
    fputc(']', event_log->line);
}

void event_log_text(struct event_log *event_log, const char *key, const char *value)
{
    if (put_key(event_log, key))
        put_text(event_log->line, value);
}

/* -- Lines, lists, objects --------------------------------------------------------------------------------------- */

/* Writes an opening or closing bracket; no comma follows an opening one. */
static void put_bracket(struct event_log *event_log, char bracket)
{
    if (event_log->line == NULL)
        return;
    fputc(bracket, event_log->line);
    event_log->follow = bracket == ']' || bracket == '}';
}

void event_log_begin(struct event_log *event_log, const char *event, int64_t step)
{
    if (event_log->path == NULL)
        return;
    event_log->line = memory_stream(&event_log->line_bytes, &event_log->line_length);
    put_bracket(event_log, '{');
    event_log_text(event_log, "event", event);
    event_log_integer(event_log, "step", step);
}

void event_log_end(struct event_log *event_log)
{
    if (event_log->line == NULL)
        return;
    put_bracket(event_log, '}');
    fputc('\n', event_log->line);
    memory_stream_end(event_log->line);
    event_log->line = NULL;
    wait_for_writing(event_log, event_log->line_bytes, (int64_t)event_log->line_length);
    free(event_log->line_bytes);
    write_waiting(event_log, false);
}

void event_log_list(struct event_log *event_log, const char *key)
{
    if (put_key(event_log, key))
        put_bracket(event_log, '[');
}

void event_log_list_end(struct event_log *event_log)
{
    put_bracket(event_log, ']');
}

void event_log_object(struct event_log *event_log)
{
    if (event_log->line != NULL)
        put_comma(event_log);
    put_bracket(event_log, '{');
}

void event_log_object_end(struct event_log *event_log)
{
    put_bracket(event_log, '}');
}
