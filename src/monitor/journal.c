#include "monitor/journal.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "base/thousands.h"
#include "file/draft.h"
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

static bool stays(const struct run_journal *journal, const char *event, int64_t step)
{
    bool again = journal->validates && step == journal->step && strcmp(event, "validation") == 0;
    return of_program(event) || (step <= journal->step && !again);
}

/* Copies the lines to keep. Returns the number of damaged lines, which are not copied. */
static int64_t copy_lines(struct run_journal *journal, FILE *from, FILE *to)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t damaged = 0;
    for (ssize_t length; (length = getline(&line, &capacity, from)) > 0 && line[length - 1] == '\n';) {
        json_t *object = json_loadb(line, (size_t)length, 0, NULL);
        const json_t *step = json_object_get(object, "step");
        const char *event = json_string_value(json_object_get(object, "event"));
        if (!json_is_integer(step) || event == NULL)
            damaged++;
        else if (stays(journal, event, json_integer_value(step)))
            fwrite(line, 1, (size_t)length, to);
        if (event != NULL && (strcmp(event, "start") == 0 || strcmp(event, "end") == 0))
            journal->unfinished = strcmp(event, "start") == 0;
        json_decref(object);
    }
    free(line);
    return damaged;
}

static int drop_later_lines(struct run_journal *journal)
{
    const char *path = journal->path;
    FILE *old = open_stream(path);
    if (old == NULL)
        return errno == ENOENT ? ERROR_NONE : error_environment("%s: cannot open it: %s", path, open_failure());
    struct file_draft kept;
    int code = draft_open(&kept, path);
    if (code == ERROR_NONE) {
        int64_t damaged = copy_lines(journal, old, kept.file);
        if (damaged > 0)
            log_warn("%s: %lld damaged lines are removed; was the disk full, or was the file edited?", path,
                     (long long)damaged);
        if (ferror(old) != 0)
            code = error_environment("%s: cannot read it", path);
        code = draft_close(&kept, code);
    }
    fclose(old);
    return code;
}

/* -- The file ---------------------------------------------------------------------------------------------------- */

static int open_log(struct run_journal *journal)
{
    int code = drop_later_lines(journal);
    if (code != ERROR_NONE)
        return code;
    journal->descriptor = open_own(journal->path, O_WRONLY | O_APPEND | O_CREAT);
    return journal->descriptor >= 0 ? ERROR_NONE
                                    : error_environment("%s: cannot open it: %s", journal->path, open_failure());
}

static void begin_failing(struct run_journal *journal, const char *why)
{
    if (!journal->failing)
        log_warn("%s; the run continues, and its lines are written later", why);
    journal->failing = true;
}

/* Opens the log if it is not open; returns whether it is. It does not try at each line, since opening reads the whole
 * file. */
static bool is_open(struct run_journal *journal, bool try_now)
{
    if (journal->descriptor >= 0)
        return true;
    if (!try_now && clock_seconds() < journal->tried + RETRY_SECONDS)
        return false;
    journal->tried = clock_seconds();
    if (open_log(journal) == ERROR_NONE)
        return true;
    begin_failing(journal, error_message());
    error_clear();
    return false;
}

/* Writes as much of the waiting text as possible. The rest of a partly written line is written first next time. */
static void write_waiting(struct run_journal *journal, bool try_now)
{
    int64_t done = 0;
    if (!is_open(journal, try_now))
        return;
    while (done < journal->waiting_bytes) {
        ssize_t written = write(journal->descriptor, journal->waiting + done, (size_t)(journal->waiting_bytes - done));
        if (written <= 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        done += written;
    }
    int failure = errno;
    journal->waiting_bytes -= done;
    if (journal->waiting_bytes > 0) {
        memmove(journal->waiting, journal->waiting + done, (size_t)journal->waiting_bytes);
        char *why = memory_format("%s: cannot write it: %s", journal->path, strerror(failure));
        begin_failing(journal, why);
        free(why);
    } else if (journal->failing) {
        log_info("# %s is written again", journal->path);
        journal->failing = false;
    }
}

static void wait_for_writing(struct run_journal *journal, const char *line, int64_t bytes)
{
    if (journal->waiting_bytes + bytes > WAITING_BYTES) {
        journal->lost_lines++;
        return;
    }
    if (journal->waiting_bytes + bytes > journal->waiting_room) {
        journal->waiting_room = 2 * (journal->waiting_bytes + bytes);
        journal->waiting = memory_grow(journal->waiting, journal->waiting_room);
    }
    memcpy(journal->waiting + journal->waiting_bytes, line, (size_t)bytes);
    journal->waiting_bytes += bytes;
}

void journal_open(struct run_journal *journal, const char *path, int64_t step, bool validates)
{
    *journal = (struct run_journal){
        .path = memory_string(path), .step = step, .validates = validates, .descriptor = -1, .tried = -RETRY_SECONDS};
    write_waiting(journal, true);
}

void journal_close(struct run_journal *journal)
{
    if (journal->path == NULL)
        return;
    write_waiting(journal, true);
    for (int64_t i = 0; i < journal->waiting_bytes; i++)
        journal->lost_lines += journal->waiting[i] == '\n';
    if (journal->descriptor >= 0 && close(journal->descriptor) != 0)
        log_warn("%s: cannot close it: %s; its last lines may be lost", journal->path, strerror(errno));
    if (journal->lost_lines > 0)
        log_warn("%s: %lld line%s at its end could not be written: lost", journal->path, (long long)journal->lost_lines,
                 plural(journal->lost_lines));
    free(journal->waiting);
    free(journal->path);
    *journal = (struct run_journal){NULL};
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

static void put_comma(struct run_journal *journal)
{
    if (journal->follow)
        fputc(',', journal->line);
    journal->follow = true;
}

/* Writes the key of the next member. Returns false if no line is being made. */
static bool put_key(struct run_journal *journal, const char *key)
{
    if (journal->line == NULL)
        return false;
    put_comma(journal);
    fprintf(journal->line, "\"%s\":", key);
    return true;
}

void journal_integer(struct run_journal *journal, const char *key, int64_t value)
{
    if (put_key(journal, key))
        fprintf(journal->line, "%lld", (long long)value);
}

void journal_truth(struct run_journal *journal, const char *key, bool value)
{
    if (put_key(journal, key))
        fputs(value ? "true" : "false", journal->line);
}

void journal_real(struct run_journal *journal, const char *key, double value, int digits)
{
    if (put_key(journal, key))
        put_real(journal->line, value, digits);
}

void journal_reals(struct run_journal *journal, const char *key, const double *values, int64_t count, int digits)
{
    if (!put_key(journal, key))
        return;
    fputc('[', journal->line);
    for (int64_t i = 0; i < count; i++) {
        if (i > 0)
            fputc(',', journal->line);
        put_real(journal->line, values[i], digits);
    }
    fputc(']', journal->line);
}

void journal_text(struct run_journal *journal, const char *key, const char *value)
{
    if (put_key(journal, key))
        put_text(journal->line, value);
}

/* -- Lines, lists, objects --------------------------------------------------------------------------------------- */

/* Writes an opening or closing bracket; no comma follows an opening one. */
static void put_bracket(struct run_journal *journal, char bracket)
{
    if (journal->line == NULL)
        return;
    fputc(bracket, journal->line);
    journal->follow = bracket == ']' || bracket == '}';
}

void journal_begin(struct run_journal *journal, const char *event, int64_t step)
{
    if (journal->path == NULL)
        return;
    journal->line = memory_stream(&journal->line_bytes, &journal->line_length);
    put_bracket(journal, '{');
    journal_text(journal, "event", event);
    journal_integer(journal, "step", step);
}

void journal_end(struct run_journal *journal)
{
    if (journal->line == NULL)
        return;
    put_bracket(journal, '}');
    fputc('\n', journal->line);
    memory_stream_end(journal->line);
    journal->line = NULL;
    wait_for_writing(journal, journal->line_bytes, (int64_t)journal->line_length);
    free(journal->line_bytes);
    write_waiting(journal, false);
}

void journal_list(struct run_journal *journal, const char *key)
{
    if (put_key(journal, key))
        put_bracket(journal, '[');
}

void journal_list_end(struct run_journal *journal)
{
    put_bracket(journal, ']');
}

void journal_object(struct run_journal *journal)
{
    if (journal->line != NULL)
        put_comma(journal);
    put_bracket(journal, '{');
}

void journal_object_end(struct run_journal *journal)
{
    put_bracket(journal, '}');
}
