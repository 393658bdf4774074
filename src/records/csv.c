#include "records/csv.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "records/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20, FIRST_BYTES = 64, NAMES_LISTED = 8 };

struct csv_cell {
    char *text; /* [capacity], freed with free() */
    int64_t length, capacity;
};

struct csv {
    struct record_source *source;
    const char *field;
    enum record_content content;
    int64_t *skipped; /* settings->skipped */
    char delimiter;
    char *buffer; /* [BUFFER_BYTES]; begin .. end - 1 is not consumed yet */
    int64_t begin, end;
    bool at_end;
    int64_t line;                     /* line of `begin`, from 1 */
    int64_t row_line;                 /* line in which the current row begins */
    int64_t row;                      /* number of the current row, from 1; 0: the header */
    int64_t columns;                  /* number of columns; 0 before the header is read */
    int64_t text_column, name_column; /* -1: none */
    struct csv_cell text, name;       /* cells of the current row */
    const char *const *label_names;   /* [label_count] settings->labels */
    int label_count, label_next;      /* label_next: the label that is returned next */
    int64_t label_columns[RECORD_LABELS];
    struct csv_cell labels[RECORD_LABELS];
    bool waits;  /* the text was not returned yet */
    char *label; /* the record's name, freed with free() */
};

static int create(void **reader, struct record_source *source, const struct record_settings *settings, char delimiter)
{
    struct csv *csv = memory_allocate(sizeof *csv);
    const uint8_t *head;
    int64_t bytes;
    csv->source = source;
    csv->field = settings->field;
    csv->content = settings->content;
    csv->skipped = settings->skipped;
    csv->buffer = memory_allocate(BUFFER_BYTES);
    csv->text = (struct csv_cell){memory_grow(NULL, FIRST_BYTES), 0, FIRST_BYTES};
    csv->name = (struct csv_cell){memory_grow(NULL, FIRST_BYTES), 0, FIRST_BYTES};
    csv->line = 1;
    csv->label_names = settings->labels;
    csv->label_count = csv->label_next = settings->label_count;
    *reader = csv;
    int code = source_head(source, &head, &bytes);
    if (code == ERROR_NONE)
        csv->delimiter = csv_delimiter((const char *)head, bytes, csv->field, delimiter);
    if (csv->delimiter == '\0')
        csv->delimiter = delimiter;
    return code;
}

static int create_csv(void **reader, struct record_source *source, const struct record_settings *settings)
{
    return create(reader, source, settings, ',');
}

static int create_tsv(void **reader, struct record_source *source, const struct record_settings *settings)
{
    return create(reader, source, settings, '\t');
}

static void destroy(void *reader)
{
    struct csv *csv = reader;
    if (csv == NULL)
        return;
    memory_free(csv->buffer);
    free(csv->text.text);
    free(csv->name.text);
    free(csv->label);
    for (int i = 0; i < csv->label_count; i++)
        free(csv->labels[i].text);
    memory_free(csv);
}

/* -- Cells --------------------------------------------------------------------------------------------------------- */

/* Sets *byte to the unread byte at index `ahead`; EOF after the file's end. */
static int peek(struct csv *csv, int64_t ahead, int *byte)
{
    while (csv->end - csv->begin <= ahead && !csv->at_end) {
        int64_t kept = csv->end - csv->begin, got;
        memmove(csv->buffer, csv->buffer + csv->begin, (size_t)kept);
        csv->begin = 0;
        csv->end = kept;
        int code = source_read(csv->source, csv->buffer + kept, BUFFER_BYTES - kept, &got);
        if (code != ERROR_NONE)
            return code;
        csv->end += got;
        csv->at_end = got == 0;
    }
    *byte = csv->end - csv->begin > ahead ? (unsigned char)csv->buffer[csv->begin + ahead] : EOF;
    return ERROR_NONE;
}

static int refuse(const struct csv *csv, int64_t line, const char *what)
{
    return error_user("%s:%lld: %s", source_name(csv->source), (long long)line, what);
}

/* Appends text to a cell; cell NULL: discards it. */
static int add(const struct csv *csv, struct csv_cell *cell, const char *text, int64_t bytes)
{
    if (cell == NULL)
        return ERROR_NONE;
    if (cell->length + bytes > CSV_CELL_BYTES)
        return refuse(csv, csv->row_line, "a cell is longer than 1 GiB; split its sequence into several records");
    if (cell->length + bytes > cell->capacity) {
        cell->capacity = 2 * (cell->length + bytes);
        cell->text = memory_grow(cell->text, cell->capacity);
    }
    if (bytes > 0)
        memcpy(cell->text + cell->length, text, (size_t)bytes);
    cell->length += bytes;
    return ERROR_NONE;
}

/* Appends text up to the next quote (quoted), or the next delimiter or line end. *stop is that byte, which is not
 * consumed, or EOF. */
static int take_until(struct csv *csv, bool quoted, struct csv_cell *cell, int *stop)
{
    for (;;) {
        int code = peek(csv, 0, stop);
        if (code != ERROR_NONE || *stop == EOF)
            return code;
        const char *text = csv->buffer + csv->begin;
        const int64_t available = csv->end - csv->begin;
        int64_t length = 0;
        for (; length < available; length++) {
            if (quoted ? text[length] == '"' : text[length] == csv->delimiter || text[length] == '\n')
                break;
            csv->line += text[length] == '\n';
        }
        csv->begin += length;
        code = add(csv, cell, text, length);
        if (code != ERROR_NONE || length < available)
            return code == ERROR_NONE ? peek(csv, 0, stop) : code;
    }
}

/* Reads a quoted cell, from its opening quote to its closing one. */
static int take_quoted(struct csv *csv, struct csv_cell *cell)
{
    const int64_t line = csv->line;
    int code, next;
    do {
        csv->begin++;
        code = take_until(csv, true, cell, &next);
        if (code == ERROR_NONE && next == EOF)
            return refuse(csv, line, "a cell that begins with a quote here does not end");
        if (code == ERROR_NONE)
            code = peek(csv, 1, &next);
        if (code != ERROR_NONE)
            return code;
        csv->begin++;
        if (next == '"')
            code = add(csv, cell, "\"", 1);
    } while (code == ERROR_NONE && next == '"');
    return code;
}

/* Reads a cell and the delimiter or line end after it; *last: the cell ends the row. */
static int take_cell(struct csv *csv, struct csv_cell *cell, bool *last)
{
    int next, after;
    int code = peek(csv, 0, &next);
    const bool quoted = next == '"';
    if (cell != NULL)
        cell->length = 0;
    if (code == ERROR_NONE)
        code = quoted ? take_quoted(csv, cell) : take_until(csv, false, cell, &next);
    if (code == ERROR_NONE)
        code = peek(csv, 0, &next);
    if (code == ERROR_NONE && quoted && next == '\r') {
        code = peek(csv, 1, &after);
        if (code == ERROR_NONE && (after == '\n' || after == EOF)) {
            csv->begin++;
            next = after;
        }
    }
    if (code != ERROR_NONE)
        return code;
    *last = next != (unsigned char)csv->delimiter;
    if (quoted && *last && next != '\n' && next != EOF)
        return refuse(csv, csv->line, "text follows a quoted cell; a quote inside a quoted cell must be written twice");
    if (!quoted && *last && cell != NULL && cell->length > 0 && cell->text[cell->length - 1] == '\r')
        cell->length--;
    csv->begin += next != EOF;
    csv->line += next == '\n';
    return ERROR_NONE;
}

/* Moves to the next line that is not blank; *there is false at the file's end. */
static int begin_row(struct csv *csv, bool *there)
{
    int next, after;
    for (;;) {
        int code = peek(csv, 0, &next);
        if (code == ERROR_NONE)
            code = peek(csv, 1, &after);
        const bool carriage = next == '\r' && (after == '\n' || after == EOF);
        *there = next != EOF;
        csv->row_line = csv->line;
        if (code != ERROR_NONE || (next != '\n' && !carriage))
            return code;
        csv->begin += 1 + (carriage && after == '\n');
        csv->line++;
    }
}

/* -- The header ---------------------------------------------------------------------------------------------------- */

char csv_delimiter(const char *head, int64_t bytes, const char *column, char first)
{
    const char delimiters[] = {first, ',', '\t', ';', '\0'};
    const int64_t length = (int64_t)strlen(column);
    const char *newline = memchr(head, '\n', (size_t)bytes);
    const char *end = newline != NULL ? newline : head + bytes;
    if (end > head && end[-1] == '\r')
        end--;
    for (const char *delimiter = delimiters; *delimiter != '\0'; delimiter++)
        for (const char *cell = head, *stop; cell < end; cell = stop + 1) {
            const int64_t quote = *cell == '"';
            const char *from = quote ? memchr(cell + 1, '"', (size_t)(end - cell - 1)) : cell;
            stop = from != NULL ? memchr(from, *delimiter, (size_t)(end - from)) : NULL;
            if (stop == NULL)
                stop = end;
            if (stop - cell - 2 * quote == length && memcmp(cell + quote, column, (size_t)length) == 0)
                return *delimiter;
        }
    return '\0';
}

static bool is_name(const struct csv_cell *cell, const char *name)
{
    return cell->length == (int64_t)strlen(name) && memcmp(cell->text, name, (size_t)cell->length) == 0;
}

/* Sets *column to the current column if its name is `name`. *column is -1 before. */
static int note(const struct csv *csv, const char *name, int64_t *column)
{
    if (!is_name(&csv->text, name))
        return ERROR_NONE;
    if (*column >= 0)
        return error_user("%s: has two columns \"%s\"", source_name(csv->source), name);
    *column = csv->columns;
    return ERROR_NONE;
}

/* Notes the current column if it is one of the labels. */
static int note_labels(struct csv *csv)
{
    int code = ERROR_NONE;
    for (int i = 0; i < csv->label_count && code == ERROR_NONE; i++)
        code = note(csv, csv->label_names[i], &csv->label_columns[i]);
    return code;
}

static int check_labels(const struct csv *csv, const char *list)
{
    for (int i = 0; i < csv->label_count; i++)
        if (csv->label_columns[i] < 0)
            return error_user("%s: has no column \"%s\" (--labels or --split-column). It has: %s%s",
                              source_name(csv->source), csv->label_names[i], list,
                              csv->columns > NAMES_LISTED ? ", ..." : "");
    return ERROR_NONE;
}

static int read_header(struct csv *csv)
{
    int64_t record = -1, id = -1;
    bool last = false;
    char *list = memory_string("");
    int code = ERROR_NONE;
    csv->text_column = -1;
    for (int i = 0; i < csv->label_count; i++)
        csv->label_columns[i] = -1;
    for (; code == ERROR_NONE && !last; csv->columns++) {
        code = take_cell(csv, &csv->text, &last);
        if (code == ERROR_NONE)
            code = note(csv, csv->field, &csv->text_column);
        if (code == ERROR_NONE)
            code = note(csv, "record", &record);
        if (code == ERROR_NONE)
            code = note(csv, "id", &id);
        if (code == ERROR_NONE)
            code = note_labels(csv);
        if (code != ERROR_NONE || csv->columns >= NAMES_LISTED)
            continue;
        char *longer = memory_format("%s%s%.*s", list, csv->columns > 0 ? ", " : "", (int)MIN(csv->text.length, 100),
                                     csv->text.text);
        free(list);
        list = longer;
    }
    csv->name_column = record >= 0 ? record : id;
    if (code == ERROR_NONE && csv->text_column < 0)
        code = error_user("%s: has no column \"%s\"; name the column of the sequence with --field. It has: %s%s",
                          source_name(csv->source), csv->field, list, csv->columns > NAMES_LISTED ? ", ..." : "");
    if (code == ERROR_NONE)
        code = check_labels(csv, list);
    free(list);
    return code;
}

/* -- Records ------------------------------------------------------------------------------------------------------- */

/* Returns where the cell of a column goes; NULL: nowhere. */
static struct csv_cell *cell_of(struct csv *csv, int64_t column)
{
    for (int i = 0; i < csv->label_count; i++)
        if (column == csv->label_columns[i])
            return &csv->labels[i];
    return column == csv->text_column ? &csv->text : column == csv->name_column ? &csv->name : NULL;
}

/* Reads the rest of a row. *whole is false if it has more or fewer cells than the header and is skipped. */
static int read_row(struct csv *csv, bool *whole)
{
    int64_t cells = 0;
    csv->row++;
    csv->name.length = 0;
    for (bool last = false; !last; cells++) {
        int code = take_cell(csv, cell_of(csv, cells), &last);
        if (code != ERROR_NONE)
            return code;
    }
    *whole = cells == csv->columns;
    if (*whole)
        return ERROR_NONE;
    if (csv->skipped == NULL)
        return error_user("%s:%lld: has %lld cells, the header has %lld; --skip-bad skips such rows",
                          source_name(csv->source), (long long)csv->row_line, (long long)cells,
                          (long long)csv->columns);
    ++*csv->skipped;
    return ERROR_NONE;
}

static int make_record(struct csv *csv)
{
    const char *word = NULL;
    int64_t length = 0;
    unsigned char wrong = 0;
    if (csv->name_column == csv->text_column) /* with --field id or --field record */
        add(csv, &csv->name, csv->text.text, csv->text.length);
    if (!record_first_word(csv->name.text, csv->name.length, &word, &length, &wrong))
        return error_user("%s:%lld: the record's name contains the control character 0x%02x", source_name(csv->source),
                          (long long)csv->row_line, (unsigned)wrong);
    free(csv->label);
    csv->label = length > 0 ? memory_format("%.*s", (int)length, word) : memory_format("%lld", (long long)csv->row);
    if (csv->content == RECORD_CHARACTERS ? !record_clean(csv->text.text, &csv->text.length, &wrong)
                                          : memchr(csv->text.text, '\0', (size_t)csv->text.length) != NULL)
        return error_user("%s:%lld: column \"%s\" contains byte 0x%02x, so it is not a %s", source_name(csv->source),
                          (long long)csv->row_line, csv->field, (unsigned)wrong,
                          csv->content == RECORD_CHARACTERS ? "sequence" : "text");
    csv->waits = csv->text.length > 0;
    csv->label_next = 0;
    return ERROR_NONE;
}

static int next(void *reader, struct record_piece *piece)
{
    struct csv *csv = reader;
    if (csv->label_next < csv->label_count) {
        const struct csv_cell *label = &csv->labels[csv->label_next++];
        *piece = (struct record_piece){RECORD_LABEL, label->text, label->length};
        return ERROR_NONE;
    }
    if (csv->waits) {
        *piece = (struct record_piece){RECORD_SEQUENCE, csv->text.text, csv->text.length};
        csv->waits = false;
        return ERROR_NONE;
    }
    for (bool whole = false; !whole;) {
        bool there;
        int code = begin_row(csv, &there);
        if (code == ERROR_NONE && there && csv->columns == 0) {
            code = read_header(csv);
            if (code == ERROR_NONE)
                continue;
        }
        if (code == ERROR_NONE && there)
            code = read_row(csv, &whole);
        if (code != ERROR_NONE)
            return code;
        if (!there) {
            *piece = (struct record_piece){.kind = RECORD_END};
            return ERROR_NONE;
        }
    }
    int code = make_record(csv);
    *piece = (struct record_piece){RECORD_NAME, csv->label, csv->label != NULL ? (int64_t)strlen(csv->label) : 0};
    return code;
}

void csv_write_cell(FILE *file, char delimiter, const char *text)
{
    const char special[] = {delimiter, '"', '\n', '\r', '\0'}; /* strpbrk may be a macro, which takes no braces */
    if (strpbrk(text, special) == NULL) {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putc('"', file);
        putc(*text, file);
    }
    putc('"', file);
}

const struct record_class csv_class = {"csv", create_csv, next, destroy, true};
const struct record_class tsv_class = {"tsv", create_tsv, next, destroy, true};
