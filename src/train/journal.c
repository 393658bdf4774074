#include "train/journal.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/open.h"
#include "io/draft.h"
#include "io/jsontext.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool stays(const json_t *line, int64_t step, bool validates)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    int64_t own = json_integer_value(json_object_get(line, "step"));
    bool again = validates && own == step && event != NULL && strcmp(event, "validation") == 0;
    return own <= step && !again;
}

/* Copies the lines that stay. Returns how many damaged ones did not. */
static int64_t copy_lines(FILE *from, FILE *to, int64_t step, bool validates)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t damaged = 0;
    for (ssize_t length; (length = getline(&line, &capacity, from)) > 0 && line[length - 1] == '\n';) {
        json_t *object = json_loadb(line, (size_t)length, 0, NULL);
        if (!json_is_integer(json_object_get(object, "step")))
            damaged++;
        else if (stays(object, step, validates))
            fwrite(line, 1, (size_t)length, to);
        json_decref(object);
    }
    free(line);
    return damaged;
}

static int drop_later_lines(const char *path, int64_t step, bool validates)
{
    FILE *old = open_stream(path);
    if (old == NULL)
        return errno == ENOENT ? ERROR_NONE : error_environment("%s: cannot open it: %s", path, open_failure());
    struct draft kept;
    int code = draft_open(&kept, path);
    if (code == ERROR_NONE) {
        int64_t damaged = copy_lines(old, kept.file, step, validates);
        if (damaged > 0)
            log_warn("%s: %lld damaged lines are left out from here on; was the disk full, or was the file edited?",
                     path, (long long)damaged);
        if (ferror(old) != 0)
            code = error_environment("%s: cannot read it", path);
        code = draft_close(&kept, code);
    }
    fclose(old);
    return code;
}

int journal_open(struct journal *journal, const char *path, int64_t step, bool validates)
{
    *journal = (struct journal){NULL};
    int code = drop_later_lines(path, step, validates);
    if (code != ERROR_NONE)
        return code;
    int descriptor = open_own(path, O_WRONLY | O_APPEND | O_CREAT);
    journal->file = descriptor < 0 ? NULL : fdopen(descriptor, "a");
    if (journal->file == NULL)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    setvbuf(journal->file, NULL, _IOLBF, 0);
    return ERROR_NONE;
}

void journal_close(struct journal *journal)
{
    if (journal->file != NULL && (ferror(journal->file) | fclose(journal->file)) != 0)
        log_warn("log.jsonl could not be written in full; look for space on the disk of output.folder");
    journal->file = NULL;
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

static void put_comma(struct journal *journal)
{
    if (journal->follow)
        fputc(',', journal->file);
    journal->follow = true;
}

/* The key of the next member; false when nothing is written. */
static bool put_key(struct journal *journal, const char *key)
{
    if (journal->file == NULL)
        return false;
    put_comma(journal);
    fprintf(journal->file, "\"%s\":", key);
    return true;
}

void journal_integer(struct journal *journal, const char *key, int64_t value)
{
    if (put_key(journal, key))
        fprintf(journal->file, "%lld", (long long)value);
}

void journal_real(struct journal *journal, const char *key, double value, int digits)
{
    if (put_key(journal, key))
        put_real(journal->file, value, digits);
}

void journal_reals(struct journal *journal, const char *key, const double *values, int64_t count, int digits)
{
    if (!put_key(journal, key))
        return;
    fputc('[', journal->file);
    for (int64_t i = 0; i < count; i++) {
        if (i > 0)
            fputc(',', journal->file);
        put_real(journal->file, values[i], digits);
    }
    fputc(']', journal->file);
}

void journal_text(struct journal *journal, const char *key, const char *value)
{
    if (put_key(journal, key))
        put_text(journal->file, value);
}

/* -- Lines, lists, objects --------------------------------------------------------------------------------------- */

/* An opening or closing bracket; what comes behind an opening one follows nothing. */
static void put_bracket(struct journal *journal, char bracket)
{
    if (journal->file == NULL)
        return;
    fputc(bracket, journal->file);
    journal->follow = bracket == ']' || bracket == '}';
}

void journal_begin(struct journal *journal, const char *event, int64_t step)
{
    put_bracket(journal, '{');
    journal_text(journal, "event", event);
    journal_integer(journal, "step", step);
}

void journal_end(struct journal *journal)
{
    put_bracket(journal, '}');
    if (journal->file != NULL)
        fputc('\n', journal->file);
}

void journal_list(struct journal *journal, const char *key)
{
    if (put_key(journal, key))
        put_bracket(journal, '[');
}

void journal_list_end(struct journal *journal)
{
    put_bracket(journal, ']');
}

void journal_object(struct journal *journal)
{
    if (journal->file != NULL)
        put_comma(journal);
    put_bracket(journal, '{');
}

void journal_object_end(struct journal *journal)
{
    put_bracket(journal, '}');
}
