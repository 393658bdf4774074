#include "records/jsonl.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/json_members.h"
#include "records/source.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 20 };

struct jsonl {
    struct record_source *source;
    const char *field;
    enum record_content content;
    int64_t *skipped;               /* settings->skipped */
    const char *const *label_names; /* [label_count] settings->labels */
    int label_count, label_next;    /* label_next: the next label of the current record to return */
    char *labels[RECORD_LABELS];    /* of the current record; NULL: none; freed with free() */
    char *buffer;                   /* [capacity]; begin .. end - 1 is not consumed yet */
    int64_t capacity, begin, end;
    int64_t line;       /* line in which the current record begins, from 1; 0 before the first */
    int64_t lines_more; /* array: line ends in the current element */
    int64_t element;    /* array: number of the current element, from 1 */
    bool array, opened, at_end;
    char *name;     /* name of the current record, freed with free() */
    char *sequence; /* sequence of the current record, not returned yet, in the buffer; or NULL */
    int64_t sequence_length;
};

static int create(void **reader, struct record_source *source, const struct record_settings *settings)
{
    struct jsonl *jsonl = memory_allocate(sizeof *jsonl);
    jsonl->source = source;
    jsonl->field = settings->field;
    jsonl->content = settings->content;
    jsonl->skipped = settings->skipped;
    jsonl->label_names = settings->labels;
    jsonl->label_next = jsonl->label_count = settings->label_count;
    *reader = jsonl;
    return ERROR_NONE;
}

static int create_array(void **reader, struct record_source *source, const struct record_settings *settings)
{
    int code = create(reader, source, settings);
    struct jsonl *jsonl = *reader;
    jsonl->array = true;
    jsonl->line = 1;
    return code;
}

static void destroy(void *reader)
{
    struct jsonl *jsonl = reader;
    if (jsonl == NULL)
        return;
    free(jsonl->buffer);
    free(jsonl->name);
    for (int i = 0; i < jsonl->label_count; i++)
        free(jsonl->labels[i]);
    memory_free(jsonl);
}

/* Moves unread bytes to the buffer's start, and reads more after them. */
static int refill(struct jsonl *jsonl)
{
    int64_t kept = jsonl->end - jsonl->begin, got;
    if (kept > JSONL_LINE_BYTES)
        return error_user("%s:%lld: %s longer than %d bytes; split its sequence into several records",
                          source_name(jsonl->source), (long long)jsonl->line, jsonl->array ? "element" : "line",
                          JSONL_LINE_BYTES);
    if (jsonl->begin > 0)
        memmove(jsonl->buffer, jsonl->buffer + jsonl->begin, (size_t)kept);
    if (kept == jsonl->capacity) {
        jsonl->capacity = jsonl->capacity == 0 ? FIRST_BYTES : 2 * jsonl->capacity;
        jsonl->buffer = memory_grow(jsonl->buffer, jsonl->capacity);
    }
    int code = source_read(jsonl->source, jsonl->buffer + kept, jsonl->capacity - kept, &got);
    if (code != ERROR_NONE)
        return code;
    jsonl->begin = 0;
    jsonl->end = kept + got;
    jsonl->at_end = got == 0;
    return ERROR_NONE;
}

/* -- Lines -------------------------------------------------------------------------------------------------------- */

/* Returns the next line, which may be overwritten until the next call; *text is NULL after the last one. */
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

/* As take_line, but skips blank lines. */
static int take_filled_line(struct jsonl *jsonl, char **text, int64_t *length)
{
    int code;
    do
        code = take_line(jsonl, text, length);
    while (code == ERROR_NONE && *text != NULL && is_blank_line(*text, *length));
    return code;
}

/* -- Elements of an array ------------------------------------------------------------------------------------------ */

static int refuse_array(const struct jsonl *jsonl, const char *what)
{
    return error_user("%s:%lld: is not a JSON array of objects: %s", source_name(jsonl->source), (long long)jsonl->line,
                      what);
}

/* Skips blanks and sets *next to the next byte; EOF at the file's end. */
static int peek(struct jsonl *jsonl, int *next)
{
    for (;;) {
        for (; jsonl->begin < jsonl->end; jsonl->begin++) {
            *next = (unsigned char)jsonl->buffer[jsonl->begin];
            if (memchr(" \t\r\n", *next, 4) == NULL)
                return ERROR_NONE;
            jsonl->line += *next == '\n';
        }
        *next = EOF;
        if (jsonl->at_end)
            return ERROR_NONE;
        int code = refill(jsonl);
        if (code != ERROR_NONE)
            return code;
    }
}

/* Measures the element that begins here, up to the comma or bracket after it, exclusive. */
static int measure_element(struct jsonl *jsonl, int64_t *length)
{
    int64_t depth = 0, at = 0;
    bool quoted = false, escaped = false;
    jsonl->lines_more = 0;
    for (;; at++) {
        if (jsonl->begin + at == jsonl->end) {
            int code = jsonl->at_end ? refuse_array(jsonl, "the file ends within this element") : refill(jsonl);
            if (code != ERROR_NONE)
                return code;
            if (jsonl->begin + at == jsonl->end)
                return refuse_array(jsonl, "the file ends within this element");
        }
        const char c = jsonl->buffer[jsonl->begin + at];
        if (!quoted && depth == 0 && (c == ',' || c == ']' || c == '}'))
            break;
        jsonl->lines_more += c == '\n';
        if (!quoted)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
    }
    *length = at;
    return ERROR_NONE;
}

/* Moves to the next element. *there is false after the last one, where the file must end. */
static int find_element(struct jsonl *jsonl, bool *there)
{
    int next;
    int code = peek(jsonl, &next);
    *there = false;
    if (code != ERROR_NONE || (next == EOF && !jsonl->opened)) /* an empty file has no record */
        return code;
    if (next != (!jsonl->opened ? '[' : ',') && !(jsonl->opened && next == ']'))
        return refuse_array(jsonl, jsonl->opened ? "',' or ']' is expected" : "it does not begin with [");
    jsonl->begin++;
    const bool first = !jsonl->opened;
    jsonl->opened = true;
    *there = next != ']';
    code = peek(jsonl, &next);
    if (code == ERROR_NONE && first && next == ']') {
        *there = false;
        jsonl->begin++;
        code = peek(jsonl, &next);
    }
    return code == ERROR_NONE && !*there && next != EOF ? refuse_array(jsonl, "text follows its end") : code;
}

/* As take_line, for elements of an array. */
static int take_element(struct jsonl *jsonl, char **text, int64_t *length)
{
    bool there;
    *text = NULL;
    jsonl->line += jsonl->lines_more;
    jsonl->lines_more = 0;
    int code = find_element(jsonl, &there);
    if (code == ERROR_NONE && there)
        code = measure_element(jsonl, length);
    if (code != ERROR_NONE || !there)
        return code;
    jsonl->element++;
    *text = jsonl->buffer + jsonl->begin;
    jsonl->begin += *length;
    return ERROR_NONE;
}

/* -- Records ------------------------------------------------------------------------------------------------------- */

static int refuse_json(const struct jsonl *jsonl, const char *what, int64_t column)
{
    if (what == json_no_object)
        return error_user("%s:%lld: is not a JSON object", source_name(jsonl->source), (long long)jsonl->line);
    return error_user("%s:%lld: is not JSON: %s (column %lld)", source_name(jsonl->source), (long long)jsonl->line,
                      what, (long long)column);
}

static int refuse_twice(const struct jsonl *jsonl, const struct json_member *member)
{
    return error_user("%s:%lld: has member \"%.*s\" %lld times", source_name(jsonl->source), (long long)jsonl->line,
                      (int)member->key_bytes, member->key, (long long)member->count);
}

static bool is_there(const struct json_member *member)
{
    return member->count > 0 && *member->value != 'n'; /* null */
}

static bool is_integer(const struct json_member *member)
{
    int64_t digits = *member->value == '-';
    while (digits < member->bytes && member->value[digits] >= '0' && member->value[digits] <= '9')
        digits++;
    return digits == member->bytes;
}

/* Decodes a member's string into *string, which the caller releases with json_decref. `column` is its place in the
 * record's text, for messages. */
static int decode(const struct jsonl *jsonl, const struct json_member *member, int64_t column, json_t **string)
{
    json_error_t error;
    const size_t flags = JSON_DECODE_ANY | (jsonl->content == RECORD_BYTES ? JSON_ALLOW_NUL : 0);
    *string = json_loadb(member->value, (size_t)member->bytes, flags, &error);
    if (*string != NULL)
        return ERROR_NONE;
    char *near = strstr(error.text, " near "); /* drops the quoted input, which may contain any bytes */
    if (near != NULL)
        *near = '\0';
    return refuse_json(jsonl, error.text, column + error.column);
}

static int take_name(struct jsonl *jsonl, const struct json_member *record, const struct json_member *id,
                     const char *text)
{
    const struct json_member *given = is_there(record) ? record : id;
    const char *word = given->value;
    int64_t length = 0;
    unsigned char wrong;
    json_t *string = NULL;
    int code = ERROR_NONE;
    if (record->count > 1 || id->count > 1)
        return refuse_twice(jsonl, record->count > 1 ? record : id);
    if (is_there(given) && *given->value != '"') {
        if (!is_integer(given))
            return error_user("%s:%lld: member \"%s\" is the record's name: it must be a string or an integer",
                              source_name(jsonl->source), (long long)jsonl->line, given->key);
        length = given->bytes;
    } else if (is_there(given)) {
        code = decode(jsonl, given, given->value - text, &string);
        if (code == ERROR_NONE &&
            !record_first_word(json_string_value(string), (int64_t)json_string_length(string), &word, &length, &wrong))
            code = error_user("%s:%lld: the record's name contains the control character 0x%02x",
                              source_name(jsonl->source), (long long)jsonl->line, (unsigned)wrong);
    }
    if (code == ERROR_NONE) {
        free(jsonl->name);
        jsonl->name = length > 0 ? memory_format("%.*s", (int)length, word)
                                 : memory_format("%lld", (long long)(jsonl->array ? jsonl->element : jsonl->line));
    }
    json_decref(string);
    return code;
}

/* Sets the keys to look for in an object: the whole field, and its part before the first dot, which may be an object
 * with the rest. */
static void ask(struct json_member members[2], const char *field)
{
    const char *dot = strchr(field, '.');
    const int64_t bytes = (int64_t)strlen(field);
    members[0] = (struct json_member){.key = field, .key_bytes = bytes};
    members[1] = (struct json_member){.key = field, .key_bytes = dot != NULL ? dot - field : bytes};
}

/* Follows a field into nested objects; `found` are the members found in the record's object. member->count is 0 if
 * there is none. */
static int follow(const struct jsonl *jsonl, struct json_member found[2], struct json_member *member)
{
    int64_t at;
    while (found[0].count == 0 && found[1].count == 1 && *found[1].value == '{') {
        const struct json_member outer = found[1];
        ask(found, outer.key + outer.key_bytes + 1);
        json_members_find(outer.value, outer.bytes, found, 2, &at);
    }
    *member = found[0];
    if (found[0].count == 0 && found[1].count > 1)
        *member = found[1];
    return member->count > 1 ? refuse_twice(jsonl, member) : ERROR_NONE;
}

/* Copies a label: a string, or a number, true or false as written. */
static int take_label(struct jsonl *jsonl, const struct json_member *member, const char *text, int number)
{
    char **label = &jsonl->labels[number];
    free(*label);
    *label = NULL;
    if (!is_there(member))
        return ERROR_NONE;
    if (*member->value == '{' || *member->value == '[')
        return error_user("%s:%lld: member \"%s\" is a label (--labels or --split-column): it must be a string or a "
                          "number",
                          source_name(jsonl->source), (long long)jsonl->line, jsonl->label_names[number]);
    if (*member->value != '"') {
        *label = memory_format("%.*s", (int)member->bytes, member->value);
        return ERROR_NONE;
    }
    json_t *string;
    int code = decode(jsonl, member, member->value - text, &string);
    if (code == ERROR_NONE)
        *label = memory_string(json_string_value(string));
    json_decref(string);
    return code;
}

/* members: a pair for each label, as `ask` has set them, found in the record's object. */
static int take_labels(struct jsonl *jsonl, struct json_member *members, const char *text)
{
    int code = ERROR_NONE;
    for (int i = 0; i < jsonl->label_count && code == ERROR_NONE; i++) {
        struct json_member member;
        code = follow(jsonl, &members[2 * i], &member);
        if (code == ERROR_NONE)
            code = take_label(jsonl, &member, text, i);
    }
    jsonl->label_next = 0;
    return code;
}

/* Copies the sequence over its own JSON text: no JSON string is shorter than the decoded string. */
static int take_sequence(struct jsonl *jsonl, const struct json_member *member, char *text)
{
    const char *name = source_name(jsonl->source);
    const long long number = (long long)jsonl->line;
    unsigned char wrong;
    json_t *string;
    if (*member->value != '"')
        return error_user("%s:%lld: field \"%s\" is not a string", name, number, jsonl->field);
    int code = decode(jsonl, member, member->value - text, &string);
    if (code != ERROR_NONE)
        return code;
    int64_t length = (int64_t)json_string_length(string);
    memcpy(text, json_string_value(string), (size_t)length);
    json_decref(string);
    if (jsonl->content == RECORD_CHARACTERS && !record_clean(text, &length, &wrong))
        return error_user("%s:%lld: field \"%s\" contains byte 0x%02x, so it is not a sequence", name, number,
                          jsonl->field, (unsigned)wrong);
    jsonl->sequence = length > 0 ? text : NULL;
    jsonl->sequence_length = length;
    return ERROR_NONE;
}

static int refuse_absent(const struct jsonl *jsonl, const struct json_member *member)
{
    const char *name = source_name(jsonl->source);
    if (member->count > 0)
        return error_user("%s:%lld: field \"%s\" is null; --skip-bad skips such records", name, (long long)jsonl->line,
                          jsonl->field);
    return error_user("%s:%lld: has no field \"%s\"; name the field of the sequence with --field, or skip records "
                      "without the field with --skip-bad",
                      name, (long long)jsonl->line, jsonl->field);
}

/* Makes the record of an object; *accepted is false if it is skipped. */
static int take_record(struct jsonl *jsonl, char *text, int64_t length, bool *accepted)
{
    enum { FIELD, RECORD = 2, ID, FIRST_LABEL };
    struct json_member members[FIRST_LABEL + 2 * RECORD_LABELS] = {
        [RECORD] = {.key = "record", .key_bytes = 6}, [ID] = {.key = "id", .key_bytes = 2}};
    struct json_member member;
    int64_t at;
    ask(members + FIELD, jsonl->field);
    for (int i = 0; i < jsonl->label_count; i++)
        ask(members + FIRST_LABEL + 2 * i, jsonl->label_names[i]);
    const char *wrong = json_members_find(text, length, members, FIRST_LABEL + 2 * jsonl->label_count, &at);
    if (wrong != NULL)
        return refuse_json(jsonl, wrong, at + 1);
    int code = follow(jsonl, members + FIELD, &member);
    *accepted = code == ERROR_NONE && is_there(&member);
    if (code != ERROR_NONE)
        return code;
    if (!*accepted) {
        if (jsonl->skipped == NULL)
            return refuse_absent(jsonl, &member);
        ++*jsonl->skipped;
        return ERROR_NONE;
    }
    code = take_name(jsonl, &members[RECORD], &members[ID], text);
    if (code == ERROR_NONE)
        code = take_labels(jsonl, members + FIRST_LABEL, text);
    return code == ERROR_NONE ? take_sequence(jsonl, &member, text) : code; /* last: it overwrites the text */
}

static int next(void *reader, struct record_piece *piece)
{
    struct jsonl *jsonl = reader;
    if (jsonl->label_next < jsonl->label_count) {
        const char *label = jsonl->labels[jsonl->label_next++];
        *piece = (struct record_piece){RECORD_LABEL, label, label != NULL ? (int64_t)strlen(label) : 0};
        return ERROR_NONE;
    }
    if (jsonl->sequence != NULL) {
        *piece = (struct record_piece){RECORD_SEQUENCE, jsonl->sequence, jsonl->sequence_length};
        jsonl->sequence = NULL;
        return ERROR_NONE;
    }
    for (bool accepted = false; !accepted;) {
        char *text;
        int64_t length = 0;
        int code = jsonl->array ? take_element(jsonl, &text, &length) : take_filled_line(jsonl, &text, &length);
        if (code == ERROR_NONE && text == NULL) {
            *piece = (struct record_piece){.kind = RECORD_END};
            return ERROR_NONE;
        }
        if (code == ERROR_NONE)
            code = take_record(jsonl, text, length, &accepted);
        if (code != ERROR_NONE)
            return code;
    }
    *piece = (struct record_piece){RECORD_NAME, jsonl->name, (int64_t)strlen(jsonl->name)};
    return ERROR_NONE;
}

const struct record_class jsonl_class = {"jsonl", create, next, destroy, true};
const struct record_class json_class = {"json", create_array, next, destroy, true};
