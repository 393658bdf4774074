#include "records/parquet.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/parquet_entries.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT, NAME, COLUMNS = NAME + 1 + RECORD_LABELS };

struct parquet {
    struct record_source *source;
    enum record_content content;
    int64_t *skipped; /* settings->skipped */
    struct parquet_footer *footer;
    struct parquet_column columns[COLUMNS];
    struct parquet_entries *entries[COLUMNS];
    int count;                                   /* number of columns: the text, perhaps names, then labels */
    bool named;                                  /* column NAME has names */
    int label_count, label_next;                 /* label_next: the label that is returned next */
    struct parquet_string labels[RECORD_LABELS]; /* of the current row; empty: none */
    int64_t group, end;                          /* number of the row group; end of its bytes in the file */
    int64_t group_row, group_rows;
    int64_t row, part;           /* row of the current record, and its index in a list, from 1 */
    struct parquet_string given; /* name of the current row, as in the file */
    struct parquet_string text;  /* text of the current record, not returned yet */
    char *name, *clean;          /* of the current record; clean[clean_capacity]; freed with free() */
    int64_t clean_capacity;
};

static void destroy(void *reader)
{
    struct parquet *parquet = reader;
    if (parquet == NULL)
        return;
    for (int i = 0; i < COLUMNS; i++) {
        parquet_entries_destroy(parquet->entries[i]);
        free(parquet->columns[i].name);
    }
    parquet_footer_destroy(parquet->footer);
    free(parquet->name);
    free(parquet->clean);
    memory_free(parquet);
}

static int create(void **reader, struct record_source *source, const struct record_settings *settings)
{
    struct parquet *parquet = memory_allocate(sizeof *parquet);
    parquet->source = source;
    parquet->content = settings->content;
    parquet->skipped = settings->skipped;
    *reader = parquet;
    int code = parquet_footer_read(&parquet->footer, source);
    if (code == ERROR_NONE)
        code = parquet_footer_find(parquet->footer, settings->field, &parquet->columns[TEXT]);
    bool named = false;
    if (code == ERROR_NONE)
        code = parquet_footer_names(parquet->footer, "record", &parquet->columns[NAME], &named);
    if (code == ERROR_NONE && !named)
        code = parquet_footer_names(parquet->footer, "id", &parquet->columns[NAME], &named);
    parquet->named = named;
    parquet->count = 1 + named;
    parquet->label_count = parquet->label_next = settings->label_count;
    for (int i = 0; i < settings->label_count && code == ERROR_NONE; i++)
        code = parquet_footer_label(parquet->footer, settings->labels[i], &parquet->columns[parquet->count++]);
    if (code != ERROR_NONE)
        return code;
    for (int i = 0; i < parquet->count; i++)
        parquet->entries[i] = parquet_entries_create(source, &parquet->columns[i]);
    return ERROR_NONE;
}

/* Moves to the next row group, and passes over the file up to the end of the previous one. */
static int next_group(struct parquet *parquet, bool *more)
{
    struct parquet_chunk chunks[COLUMNS];
    int code = source_pass(parquet->source, parquet->end);
    if (code == ERROR_NONE)
        code =
            parquet_footer_next(parquet->footer, parquet->columns, parquet->count, chunks, &parquet->group_rows, more);
    parquet->group++;
    parquet->group_row = 0;
    for (int i = 0; i < parquet->count && code == ERROR_NONE && *more; i++) {
        code = parquet_entries_start(parquet->entries[i], &chunks[i], parquet->group);
        if (chunks[i].start + chunks[i].bytes > parquet->end)
            parquet->end = chunks[i].start + chunks[i].bytes;
    }
    return code;
}

static int refuse_rows(const struct parquet *parquet, int column)
{
    return error_user("%s: column \"%s\", row group %lld: its rows are not the %lld that the footer announces",
                      source_name(parquet->source), parquet->columns[column].name, (long long)parquet->group,
                      (long long)parquet->group_rows);
}

static int next_row(struct parquet *parquet)
{
    struct parquet_entry entry = {0};
    bool more = true;
    int code = ERROR_NONE;
    if (++parquet->group_row > parquet->group_rows)
        return refuse_rows(parquet, TEXT);
    parquet->row++;
    parquet->part = 0;
    if (parquet->named)
        code = parquet_entries_next(parquet->entries[NAME], &entry, &more);
    parquet->given = entry.present ? entry.string : (struct parquet_string){(const uint8_t *)"", 0};
    if (code == ERROR_NONE && !more)
        return refuse_rows(parquet, NAME);
    for (int i = 0; i < parquet->label_count && code == ERROR_NONE; i++) {
        const int column = parquet->count - parquet->label_count + i;
        code = parquet_entries_next(parquet->entries[column], &entry, &more);
        if (code == ERROR_NONE && !more)
            return refuse_rows(parquet, column);
        parquet->labels[i] = entry.present ? entry.string : (struct parquet_string){(const uint8_t *)"", 0};
    }
    return code;
}

/* Reads the next entry of the text column, of any row group; *more is false after the last one. */
static int next_entry(struct parquet *parquet, struct parquet_entry *entry, bool *more)
{
    for (;;) {
        int code = ERROR_NONE;
        *more = false;
        if (parquet->group > 0)
            code = parquet_entries_next(parquet->entries[TEXT], entry, more);
        if (code != ERROR_NONE || *more)
            return code;
        if (parquet->group_row != parquet->group_rows)
            return refuse_rows(parquet, TEXT);
        code = next_group(parquet, more);
        if (code != ERROR_NONE || !*more)
            return code;
    }
}

static int make_name(struct parquet *parquet)
{
    const char *word;
    int64_t length;
    unsigned char wrong;
    if (!record_first_word((const char *)parquet->given.text, parquet->given.length, &word, &length, &wrong))
        return error_user("%s: row %lld: the record's name contains the control character 0x%02x",
                          source_name(parquet->source), (long long)parquet->row, (unsigned)wrong);
    char *name = length > 0 ? memory_format("%.*s", (int)length, word) : memory_format("%lld", (long long)parquet->row);
    free(parquet->name);
    parquet->name = name;
    if (parquet->columns[TEXT].repetition > 0) {
        parquet->name = memory_format("%s.%lld", name, (long long)parquet->part);
        free(name);
    }
    return ERROR_NONE;
}

/* Copies the text without blanks; not in place, since a dictionary's string may be used again. */
static int clean_text(struct parquet *parquet)
{
    int64_t length = parquet->text.length;
    unsigned char wrong;
    if (length > parquet->clean_capacity) {
        parquet->clean_capacity = 2 * length;
        free(parquet->clean);
        parquet->clean = memory_grow(NULL, parquet->clean_capacity);
    }
    if (length > 0)
        memcpy(parquet->clean, parquet->text.text, (size_t)length);
    if (!record_clean(parquet->clean, &length, &wrong))
        return error_user("%s: row %lld: column \"%s\" contains byte 0x%02x, so it is not a sequence",
                          source_name(parquet->source), (long long)parquet->row, parquet->columns[TEXT].name,
                          (unsigned)wrong);
    parquet->text = (struct parquet_string){(const uint8_t *)parquet->clean, length};
    return ERROR_NONE;
}

/* Finds the next entry that is not null or is an empty list. Nulls are errors or skipped. */
static int next_record(struct parquet *parquet, struct parquet_entry *entry, bool *more)
{
    for (;;) {
        int code = next_entry(parquet, entry, more);
        if (code != ERROR_NONE || !*more)
            return code;
        if (entry->begins_row)
            code = next_row(parquet);
        else if (parquet->part == 0)
            code = refuse_rows(parquet, TEXT);
        parquet->part++;
        if (code != ERROR_NONE || entry->present || entry->empty_list)
            return code;
        if (parquet->skipped == NULL)
            return error_user("%s: row %lld: column \"%s\" is null; --skip-bad skips such records",
                              source_name(parquet->source), (long long)parquet->row, parquet->columns[TEXT].name);
        ++*parquet->skipped;
    }
}

static int next(void *reader, struct record_piece *piece)
{
    struct parquet *parquet = reader;
    struct parquet_entry entry;
    bool more;
    if (parquet->label_next < parquet->label_count) {
        const struct parquet_string *label = &parquet->labels[parquet->label_next++];
        *piece = (struct record_piece){RECORD_LABEL, (const char *)label->text, label->length};
        return ERROR_NONE;
    }
    if (parquet->text.length > 0) {
        *piece = (struct record_piece){RECORD_SEQUENCE, (const char *)parquet->text.text, parquet->text.length};
        parquet->text.length = 0;
        return ERROR_NONE;
    }
    int code = next_record(parquet, &entry, &more);
    if (code != ERROR_NONE)
        return code;
    if (!more) {
        *piece = (struct record_piece){.kind = RECORD_END};
        return source_pass(parquet->source, INT64_MAX);
    }
    code = make_name(parquet);
    parquet->label_next = 0;
    parquet->text = entry.string;
    if (code == ERROR_NONE && parquet->content == RECORD_CHARACTERS)
        code = clean_text(parquet);
    if (code != ERROR_NONE)
        return code;
    *piece = (struct record_piece){RECORD_NAME, parquet->name, (int64_t)strlen(parquet->name)};
    return ERROR_NONE;
}

const struct record_class parquet_class = {"parquet", create, next, destroy, true};
