#include "prepare/labels.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/record.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IGNORED = -100, UNLABELLED = '?' };

/* A text that grows. */
struct label_text {
    char *text; /* [capacity], terminated; freed with free() */
    int64_t length, capacity;
};

/* A class as records name it. */
struct label_class {
    char *name;     /* freed with free() */
    int32_t number; /* set by labels_finish, or given */
};

struct record_labels {
    enum store_label kind;
    char *words; /* the fields, with NUL between them */
    const char *fields[RECORD_LABELS];
    int field_count;
    struct label_text texts[RECORD_LABELS]; /* of the current record */
    int text_count;
    bool given;                  /* the classes were given */
    struct label_class *classes; /* [class_count] in order of appearance */
    int32_t *sorted;             /* [class_count] indexes of classes, by name */
    int64_t class_count, class_capacity;
    int64_t count; /* classes or numbers of a store */
    char *names;   /* of classes or numbers, each with a newline; freed with free() */
    int64_t records, record_capacity;
    int32_t *indexes; /* CLASS: [records] index of the record's class */
    float *numbers;   /* NUMBER: [records * field_count] */
    int64_t *ends;    /* TOKEN: [records] end of the record's characters */
    struct label_text characters;
    int32_t of_character[256]; /* TOKEN: the class of a character */
};

/* -- Names --------------------------------------------------------------------------------------------------------- */

/* Splits a comma-separated text in place; returns the number of words, at most `most`, or -1. */
static int64_t split_words(char *text, const char **words, int64_t most)
{
    int64_t count = 0;
    for (char *word = text; word != NULL;) {
        char *comma = strchr(word, ',');
        if (count == most || *word == '\0' || comma == word)
            return -1;
        if (comma != NULL)
            *comma++ = '\0';
        words[count++] = word;
        word = comma;
    }
    return count;
}

/* Returns the place of a name in labels->sorted, or where it would be. */
static int64_t place_of(const struct record_labels *labels, const char *name, bool *found)
{
    int64_t first = 0, end = labels->class_count;
    *found = false;
    while (first < end && !*found) {
        const int64_t middle = (first + end) / 2;
        const int order = strcmp(labels->classes[labels->sorted[middle]].name, name);
        *found = order == 0;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return *found ? end : first;
}

/* Adds a class of this name at a place of the order. */
static void add_class(struct record_labels *labels, const char *name, int64_t place)
{
    if (labels->class_count == labels->class_capacity) {
        labels->class_capacity = 2 * labels->class_capacity + 16;
        labels->classes = memory_grow(labels->classes, labels->class_capacity * (int64_t)sizeof *labels->classes);
        labels->sorted = memory_grow(labels->sorted, labels->class_capacity * (int64_t)sizeof *labels->sorted);
    }
    memmove(labels->sorted + place + 1, labels->sorted + place,
            (size_t)(labels->class_count - place) * sizeof *labels->sorted);
    labels->sorted[place] = (int32_t)labels->class_count;
    labels->classes[labels->class_count] = (struct label_class){memory_string(name), (int32_t)labels->class_count};
    labels->class_count++;
}

/* Finds or adds a class; `record` is named in messages. */
static int find_class(struct record_labels *labels, const char *name, const char *record, int32_t *index)
{
    bool found;
    const int64_t place = place_of(labels, name, &found);
    if (!found && labels->given)
        return error_user("--labels %s: record %s has the class \"%s\", which --classes does not name",
                          labels->fields[0], record, name);
    if (!found && labels->class_count == LABEL_CLASSES)
        return error_user("--labels %s: has more than %d different values; --label-kind number reads numbers",
                          labels->fields[0], LABEL_CLASSES);
    if (!found)
        add_class(labels, name, place);
    *index = labels->sorted[place];
    return ERROR_NONE;
}

static int take_classes(struct record_labels *labels, const char *text)
{
    const char **words = memory_allocate(LABEL_CLASSES * (int64_t)sizeof *words);
    char *copy = memory_string(text);
    const int64_t count = split_words(copy, words, LABEL_CLASSES);
    bool found = count < 1;
    for (int64_t i = 0; i < count && !found; i++) {
        const int64_t place = place_of(labels, words[i], &found);
        found |= labels->kind == STORE_LABEL_TOKEN && (strlen(words[i]) != 1 || *words[i] == UNLABELLED);
        if (!found)
            add_class(labels, words[i], place);
    }
    labels->given = true;
    free(copy);
    memory_free(words);
    if (found)
        return error_user("--classes %s: must be different names, separated by commas%s", text,
                          labels->kind == STORE_LABEL_TOKEN ? ", of one character each" : "");
    return ERROR_NONE;
}

int labels_create(struct record_labels **out, const char *fields, const char *kind, const char *classes)
{
    struct record_labels *labels = *out = memory_allocate(sizeof *labels);
    labels->kind = kind == NULL ? STORE_LABEL_CLASS : STORE_LABEL_NONE;
    for (int k = 0; k < STORE_LABEL_KINDS && kind != NULL; k++)
        if (strcmp(kind, store_labels[k]) == 0)
            labels->kind = (enum store_label)k;
    if (labels->kind == STORE_LABEL_NONE)
        return error_user("--label-kind %s: must be class, number or token", kind);
    labels->words = memory_string(fields);
    labels->field_count = (int)split_words(labels->words, labels->fields, RECORD_LABELS);
    if (labels->field_count < 1 || (labels->field_count > 1 && labels->kind != STORE_LABEL_NUMBER))
        return error_user("--labels %s: must name %s", fields,
                          labels->kind == STORE_LABEL_NUMBER ? "one to 64 fields, separated by commas" : "one field");
    if (classes == NULL)
        return ERROR_NONE;
    if (labels->kind == STORE_LABEL_NUMBER)
        return error_user("--classes: not with --label-kind number");
    return take_classes(labels, classes);
}

void labels_destroy(struct record_labels *labels)
{
    if (labels == NULL)
        return;
    for (int i = 0; i < RECORD_LABELS; i++)
        free(labels->texts[i].text);
    for (int64_t i = 0; i < labels->class_count; i++)
        free(labels->classes[i].name);
    free(labels->words);
    free(labels->classes);
    free(labels->sorted);
    free(labels->names);
    free(labels->indexes);
    free(labels->numbers);
    free(labels->ends);
    free(labels->characters.text);
    memory_free(labels);
}

const char *const *labels_fields(const struct record_labels *labels, int *count)
{
    *count = labels->field_count;
    return labels->fields;
}

/* -- Records ------------------------------------------------------------------------------------------------------- */

static void append_text(struct label_text *to, const char *text, int64_t length)
{
    if (to->length + length >= to->capacity) {
        to->capacity = 2 * (to->length + length) + 64;
        to->text = memory_grow(to->text, to->capacity);
    }
    if (length > 0)
        memcpy(to->text + to->length, text, (size_t)length);
    to->length += length;
    to->text[to->length] = '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void labels_begin(struct record_labels *labels)
{
    labels->text_count = 0;
}

void labels_add(struct record_labels *labels, const char *text, int64_t length)
{
    struct label_text *to = &labels->texts[labels->text_count++];
    while (length > 0 && is_blank(text[length - 1]))
        length--;
    while (length > 0 && is_blank(*text)) {
        text++;
        length--;
    }
    to->length = 0;
    append_text(to, text, length);
}

const char *labels_lacking(const struct record_labels *labels)
{
    for (int i = 0; i < labels->field_count; i++)
        if (i >= labels->text_count || labels->texts[i].length == 0)
            return labels->fields[i];
    return NULL;
}

static int keep_class(struct record_labels *labels, const char *name)
{
    const struct label_text *text = &labels->texts[0];
    if (memchr(text->text, '\n', (size_t)text->length) != NULL || (int64_t)strlen(text->text) != text->length)
        return error_user("--labels %s: the class of record %s has a line end or a NUL", labels->fields[0], name);
    return find_class(labels, text->text, name, &labels->indexes[labels->records]);
}

static int keep_numbers(struct record_labels *labels, const char *name)
{
    for (int i = 0; i < labels->field_count; i++) {
        char *end;
        errno = 0;
        const double number = strtod(labels->texts[i].text, &end);
        if (*end != '\0' || !isfinite((float)number))
            return error_user("--labels %s: \"%s\" of record %s is not a number that fp32 has", labels->fields[i],
                              labels->texts[i].text, name);
        labels->numbers[labels->records * labels->field_count + i] = (float)number;
    }
    return ERROR_NONE;
}

static int keep_characters(struct record_labels *labels, const char *name, int64_t tokens)
{
    const struct label_text *text = &labels->texts[0];
    if (text->length != tokens)
        return error_user("--labels %s: record %s has %lld tokens, but %lld labels", labels->fields[0], name,
                          (long long)tokens, (long long)text->length);
    for (int64_t i = 0; i < text->length; i++) {
        const unsigned char c = (unsigned char)text->text[i];
        const char word[2] = {(char)c, '\0'};
        int32_t index;
        if (c < ' ')
            return error_user("--labels %s: record %s has the byte 0x%02x as a label", labels->fields[0], name, c);
        int code = c == UNLABELLED ? ERROR_NONE : find_class(labels, word, name, &index);
        if (code != ERROR_NONE)
            return code;
    }
    append_text(&labels->characters, text->text, text->length);
    labels->ends[labels->records] = labels->characters.length;
    return ERROR_NONE;
}

static void make_room(struct record_labels *labels)
{
    if (labels->records < labels->record_capacity)
        return;
    const int64_t capacity = labels->record_capacity = 2 * labels->record_capacity + 1024;
    if (labels->kind == STORE_LABEL_CLASS)
        labels->indexes = memory_grow(labels->indexes, capacity * (int64_t)sizeof *labels->indexes);
    else if (labels->kind == STORE_LABEL_NUMBER)
        labels->numbers =
            memory_grow(labels->numbers, capacity * labels->field_count * (int64_t)sizeof *labels->numbers);
    else
        labels->ends = memory_grow(labels->ends, capacity * (int64_t)sizeof *labels->ends);
}

int labels_keep(struct record_labels *labels, const char *name, int64_t tokens, bool *missing)
{
    *missing = labels_lacking(labels) != NULL;
    if (*missing)
        return ERROR_NONE;
    make_room(labels);
    int code = labels->kind == STORE_LABEL_CLASS    ? keep_class(labels, name)
               : labels->kind == STORE_LABEL_NUMBER ? keep_numbers(labels, name)
                                                    : keep_characters(labels, name, tokens);
    labels->records += code == ERROR_NONE;
    return code;
}

/* -- Numbers of classes -------------------------------------------------------------------------------------------- */

/* Returns the value of a whole number without leading zeros, at most INT32_MAX; -1: the name is none. */
static int64_t whole_number(const char *name)
{
    const size_t digits = strspn(name, "0123456789");
    if (digits == 0 || name[digits] != '\0' || (digits > 1 && *name == '0'))
        return -1;
    const long long value = strtoll(name, NULL, 10);
    return digits > 9 ? INT32_MAX : (int64_t)value;
}

/* Numbers classes whose names are whole numbers by these. Returns whether all are. */
static bool number_by_value(struct record_labels *labels)
{
    int64_t most = -1;
    for (int64_t i = 0; i < labels->class_count; i++) {
        const int64_t value = whole_number(labels->classes[i].name);
        if (value < 0)
            return false;
        labels->classes[i].number = (int32_t)value;
        most = value > most ? value : most;
    }
    labels->count = most + 1;
    return true;
}

static void number_by_name(struct record_labels *labels)
{
    for (int64_t i = 0; i < labels->class_count && !labels->given; i++)
        labels->classes[labels->sorted[i]].number = (int32_t)i;
    labels->count = labels->class_count;
}

/* Writes the names of all classes, in order of their numbers. */
static void name_classes(struct record_labels *labels)
{
    struct label_text list = {0};
    const char **names = memory_allocate(labels->count * (int64_t)sizeof *names);
    char digits[24];
    for (int64_t i = 0; i < labels->class_count; i++)
        names[labels->classes[i].number] = labels->classes[i].name;
    for (int64_t i = 0; i < labels->count; i++) {
        snprintf(digits, sizeof digits, "%lld", (long long)i);
        const char *name = names[i] != NULL ? names[i] : digits;
        append_text(&list, name, (int64_t)strlen(name));
        append_text(&list, "\n", 1);
    }
    labels->names = list.text;
    memory_free(names);
}

int labels_finish(struct record_labels *labels)
{
    struct label_text list = {0};
    if (labels->kind == STORE_LABEL_NUMBER) {
        labels->count = labels->field_count;
        for (int i = 0; i < labels->field_count; i++) {
            append_text(&list, labels->fields[i], (int64_t)strlen(labels->fields[i]));
            append_text(&list, "\n", 1);
        }
        labels->names = list.text;
        return ERROR_NONE;
    }
    if (labels->class_count == 0)
        return error_user("--labels %s: no token has a label", labels->fields[0]);
    if (labels->given || labels->kind == STORE_LABEL_TOKEN || !number_by_value(labels))
        number_by_name(labels);
    if (labels->count > LABEL_CLASSES)
        return error_user("--labels %s: has the class %lld; whole numbers from 0 to %d are classes, --label-kind "
                          "number reads numbers",
                          labels->fields[0], (long long)labels->count - 1, LABEL_CLASSES - 1);
    name_classes(labels);
    for (int c = 0; c < 256; c++)
        labels->of_character[c] = IGNORED;
    for (int64_t i = 0; i < labels->class_count && labels->kind == STORE_LABEL_TOKEN; i++)
        labels->of_character[(unsigned char)*labels->classes[i].name] = labels->classes[i].number;
    return ERROR_NONE;
}

struct store_labels labels_of_store(const struct record_labels *labels)
{
    return (struct store_labels){labels->kind, labels->count, labels->names};
}

int labels_write(const struct record_labels *labels, int64_t record, struct store_writer *writer)
{
    if (labels->kind == STORE_LABEL_CLASS) {
        const int32_t number = labels->classes[labels->indexes[record]].number;
        return token_store_writer_label(writer, &number, sizeof number);
    }
    if (labels->kind == STORE_LABEL_NUMBER)
        return token_store_writer_label(writer, labels->numbers + record * labels->field_count,
                                        labels->field_count * (int64_t)sizeof *labels->numbers);
    int code = ERROR_NONE;
    for (int64_t i = record > 0 ? labels->ends[record - 1] : 0; i < labels->ends[record] && code == ERROR_NONE; i++) {
        const int16_t number = (int16_t)labels->of_character[(unsigned char)labels->characters.text[i]];
        code = token_store_writer_label(writer, &number, sizeof number);
    }
    return code;
}
