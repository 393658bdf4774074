#include "prepare/jsonl.h"
#include "base/error.h"
#include "base/memory.h"
#include "prepare/source.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 20 };

struct jsonl {
    struct source *source;
    const char *field;
    enum record_content content;
    char *buffer; /* [room], of which begin .. end - 1 is not used up yet */
    int64_t room, begin, end;
    int64_t line; /* number of the present line, from 1; 0 before the first */
    int64_t records;
    bool at_end;
    char *name;     /* of the present record, freed with free() */
    char *sequence; /* of the present record, not handed on yet: in the buffer, over its line; NULL */
    int64_t sequence_length;
};

static int create(void **reader, struct source *source, const struct record_settings *settings)
{
    struct jsonl *jsonl = memory_allocate(sizeof *jsonl);
    jsonl->source = source;
    jsonl->field = settings->field;
    jsonl->content = settings->content;
    *reader = jsonl;
    return ERROR_NONE;
}

static void destroy(void *reader)
{
    struct jsonl *jsonl = reader;
    if (jsonl == NULL)
        return;
    free(jsonl->buffer);
    free(jsonl->name);
    memory_free(jsonl);
}

/* Reads on behind what is not used up, which moves to the buffer's start. */
static int refill(struct jsonl *jsonl)
{
    int64_t kept = jsonl->end - jsonl->begin, got;
    if (kept > JSONL_LINE_BYTES)
        return error_user("%s:%lld: line longer than %d bytes; cut its sequence into several records",
                          source_name(jsonl->source), (long long)jsonl->line, JSONL_LINE_BYTES);
    if (jsonl->begin > 0)
        memmove(jsonl->buffer, jsonl->buffer + jsonl->begin, (size_t)kept);
    if (kept == jsonl->room) {
        jsonl->room = jsonl->room == 0 ? FIRST_BYTES : 2 * jsonl->room;
        jsonl->buffer = memory_grow(jsonl->buffer, jsonl->room);
    }
    int code = source_read(jsonl->source, jsonl->buffer + kept, jsonl->room - kept, &got);
    if (code != ERROR_NONE)
        return code;
    jsonl->begin = 0;
    jsonl->end = kept + got;
    jsonl->at_end = got == 0;
    return ERROR_NONE;
}

/* The next line, which may be written over until the next call; *text is NULL behind the last. */
static int take_line(struct jsonl *jsonl, char **text, int64_t *length)
{
    int64_t searched = 0;
    *text = NULL;
    jsonl->line++;
    for (;;) {
        int64_t available = jsonl->end - jsonl->begin;
        char *newline = available == searched
                            ? NULL
                            : memchr(jsonl->buffer + jsonl->begin + searched, '\n', (size_t)(available - searched));
        if (newline != NULL || (jsonl->at_end && available > 0)) {
            *text = jsonl->buffer + jsonl->begin;
            *length = newline != NULL ? newline - *text : available;
            jsonl->begin += *length + (newline != NULL);
            return ERROR_NONE;
        }
        if (jsonl->at_end)
            return ERROR_NONE;
        searched = available;
        int code = refill(jsonl);
        if (code != ERROR_NONE)
            return code;
    }
}

static bool is_blank_line(const char *text, int64_t length)
{
    int64_t i = 0;
    while (i < length && memchr(" \t\r", text[i], 3) != NULL)
        i++;
    return i == length;
}

static int refuse_json(const struct jsonl *jsonl, json_error_t *error)
{
    char *near = strstr(error->text, " near "); /* it cites the line, which may be anything */
    if (near != NULL)
        *near = '\0';
    return error_user("%s:%lld: no JSON: %s (column %d)", source_name(jsonl->source), (long long)jsonl->line,
                      error->text, error->column);
}

static int take_name(struct jsonl *jsonl, const json_t *object)
{
    const json_t *given = json_object_get(object, "record");
    if (!json_is_string(given))
        given = json_object_get(object, "id");
    const char *text = json_is_string(given) ? json_string_value(given) : "", *word;
    int64_t length;
    unsigned char wrong;
    if (!record_first_word(text, (int64_t)strlen(text), &word, &length, &wrong))
        return error_user("%s:%lld: the record's name holds the control character 0x%02x", source_name(jsonl->source),
                          (long long)jsonl->line, (unsigned)wrong);
    free(jsonl->name);
    jsonl->name = length > 0 ? memory_format("%.*s", (int)length, word) : memory_format("%lld", (long long)jsonl->line);
    return ERROR_NONE;
}

/* The member of that name, else the one that its parts between dots lead to; NULL. */
static const json_t *find_member(const json_t *object, const char *field)
{
    const json_t *member = json_object_get(object, field);
    const char *dot;
    while (member == NULL && (dot = strchr(field, '.')) != NULL) {
        char *part = memory_format("%.*s", (int)(dot - field), field);
        object = json_object_get(object, part);
        free(part);
        field = dot + 1;
        member = json_object_get(object, field);
    }
    return member;
}

/* Copies the sequence over the line that it was read from: no JSON string is shorter than what it stands for. */
static int take_sequence(struct jsonl *jsonl, const json_t *object, char *line)
{
    const char *name = source_name(jsonl->source);
    const long long number = (long long)jsonl->line;
    const json_t *member = find_member(object, jsonl->field);
    unsigned char wrong;
    if (member == NULL)
        return error_user("%s:%lld: has no field \"%s\"; --field names the one that holds the sequence", name, number,
                          jsonl->field);
    if (!json_is_string(member))
        return error_user("%s:%lld: field \"%s\" is no string", name, number, jsonl->field);
    int64_t length = (int64_t)json_string_length(member);
    memcpy(line, json_string_value(member), (size_t)length);
    if (jsonl->content == RECORD_CHARACTERS && !record_clean(line, &length, &wrong))
        return error_user("%s:%lld: field \"%s\" holds byte 0x%02x: this is no sequence", name, number, jsonl->field,
                          (unsigned)wrong);
    jsonl->sequence = length > 0 ? line : NULL;
    jsonl->sequence_length = length;
    return ERROR_NONE;
}

static int take_record(struct jsonl *jsonl, char *line, int64_t length)
{
    json_error_t error;
    size_t flags = jsonl->content == RECORD_BYTES ? JSON_ALLOW_NUL : 0;
    json_t *object = json_loadb(line, (size_t)length, flags, &error);
    if (object == NULL)
        return refuse_json(jsonl, &error);
    int code = ERROR_NONE;
    if (!json_is_object(object))
        code = error_user("%s:%lld: is no JSON object", source_name(jsonl->source), (long long)jsonl->line);
    if (code == ERROR_NONE)
        code = take_name(jsonl, object);
    if (code == ERROR_NONE)
        code = take_sequence(jsonl, object, line);
    json_decref(object);
    return code;
}

static int next(void *reader, struct record_piece *piece)
{
    struct jsonl *jsonl = reader;
    if (jsonl->sequence != NULL) {
        *piece = (struct record_piece){RECORD_SEQUENCE, jsonl->sequence, jsonl->sequence_length};
        jsonl->sequence = NULL;
        return ERROR_NONE;
    }
    char *line;
    int64_t length = 0;
    int code;
    do
        code = take_line(jsonl, &line, &length);
    while (code == ERROR_NONE && line != NULL && is_blank_line(line, length));
    if (code == ERROR_NONE && line == NULL && jsonl->records == 0)
        code = error_user("%s: holds no record", source_name(jsonl->source));
    if (code == ERROR_NONE && line != NULL)
        code = take_record(jsonl, line, length);
    if (code != ERROR_NONE)
        return code;
    jsonl->records += line != NULL;
    *piece = line == NULL ? (struct record_piece){.kind = RECORD_END}
                          : (struct record_piece){RECORD_NAME, jsonl->name, (int64_t)strlen(jsonl->name)};
    return ERROR_NONE;
}

const struct record_class jsonl_class = {"jsonl", create, next, destroy};
