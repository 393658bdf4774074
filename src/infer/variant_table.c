/* Variants of a table, CSV or TSV. */
#include "infer/variants_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "records/csv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char wild_type[] = "WT";

struct text_cell {
    const char *text;
    int64_t bytes;
    bool quoted; /* text is what is between the quotes, in which quotes are doubled */
};

/* Reads the cells of a row that begins at *at, of which the first `most` are stored, and moves *at behind its line end.
 * *count: number of cells; *bytes: the row without its line end. Returns NULL, or what is wrong. */
static const char *read_row(const char **at, const char *end, char delimiter, struct text_cell *cells, int most,
                            int *count, int64_t *bytes)
{
    const char *from = *at, *begin = *at;
    for (*count = 0;; from++) {
        struct text_cell cell = {.text = from, .quoted = from < end && *from == '"'};
        if (cell.quoted) {
            cell.text = ++from;
            while (from < end && (*from != '"' || (from + 1 < end && from[1] == '"')))
                from += *from == '"' ? 2 : 1;
            if (from >= end)
                return "a cell that begins with a quote here does not end";
            cell.bytes = from++ - cell.text;
        }
        const char *stop = from;
        while (stop < end && *stop != delimiter && *stop != '\n')
            stop++;
        const bool last = stop == end || *stop == '\n';
        const char *text_end = last && stop > from && stop[-1] == '\r' ? stop - 1 : stop;
        if (cell.quoted && text_end != from)
            return "text follows a quoted cell; a quote inside a quoted cell must be written twice";
        if (!cell.quoted)
            cell.bytes = text_end - cell.text;
        if (*count < most)
            cells[*count] = cell;
        ++*count;
        from = stop;
        if (last) {
            *bytes = text_end - begin;
            *at = stop < end ? stop + 1 : end;
            return NULL;
        }
    }
}

/* Returns the content of a cell without blanks around it, freed with free(). */
static char *cell_text(const struct text_cell *cell)
{
    char *text = memory_grow(NULL, cell->bytes + 1);
    int64_t used = 0, first = 0;
    for (int64_t i = 0; i < cell->bytes; i++) {
        text[used++] = cell->text[i];
        i += cell->quoted && cell->text[i] == '"';
    }
    while (used > 0 && isspace((unsigned char)text[used - 1]))
        used--;
    while (first < used && isspace((unsigned char)text[first]))
        first++;
    memmove(text, text + first, (size_t)(used - first));
    text[used - first] = '\0';
    return text;
}

/* Parses "A42G:L50P" into edits of the last variant. */
static int parse_mutation(struct variant_list *v, const struct variant_place *at, const char *mutation)
{
    const int64_t record = v->list[v->count - 1].record, first = v->list[v->count - 1].first;
    if (strcmp(mutation, wild_type) == 0)
        return ERROR_NONE;
    for (const char *part = mutation;; part++) {
        char *end = NULL;
        errno = 0;
        const long long position = part[0] != '\0' && isdigit((unsigned char)part[1]) ? strtoll(part + 1, &end, 10) : 0;
        if (end == NULL || errno != 0 || *end == '\0' || *end == ':' || (end[1] != '\0' && end[1] != ':'))
            return variant_refuse(at,
                                  "must be letter, position, letter (A42G), several joined by ':' (A42G:L50P), or WT");
        int code = variant_check_letters(at, part, 1);
        if (code == ERROR_NONE)
            code = variant_check_letters(at, end, 1);
        if (code == ERROR_NONE)
            code = variant_check_wild_type(at, record, position - 1, part, 1);
        if (code != ERROR_NONE)
            return code;
        for (int64_t i = first; i < v->edit_count; i++)
            if (v->edits[i].position == position - 1)
                return variant_refuse_text(at, memory_format("has two changes of position %lld", position));
        variants_add_edit(v, position - 1, 1, end, 1);
        part = end + 1;
        if (*part == '\0')
            return ERROR_NONE;
    }
}

static int by_position(const void *a, const void *b)
{
    const struct variant_edit *first = a, *second = b;
    return (first->position > second->position) - (first->position < second->position);
}

struct table_columns {
    int mutation, name, measured, count; /* -1: none */
};

static int find_columns(struct variant_list *v, const struct text_cell *cells, int count, const char *measured,
                        struct table_columns *columns)
{
    int mutant = -1, scores = -1;
    *columns = (struct table_columns){-1, -1, -1, count};
    for (int c = 0; c < count; c++) {
        char *name = cell_text(&cells[c]);
        const struct {
            const char *name;
            int *column;
        } known[] = {{"mutation", &columns->mutation},
                     {"mutant", &mutant},
                     {"name", &columns->name},
                     {measured != NULL ? measured : "", &columns->measured},
                     {"DMS_score", &scores}};
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (known[k].name[0] != '\0' && strcmp(name, known[k].name) == 0)
                *known[k].column = c;
        free(name);
    }
    if (columns->mutation < 0)
        columns->mutation = mutant;
    if (columns->mutation < 0)
        return error_user("%s:1: has neither a column \"mutation\" nor \"mutant\"", v->path);
    if (columns->name < 0 && v->references->count > 1)
        return error_user("%s:1: does not have a column \"name\", and %s has %lld records", v->path,
                          v->references->path, (long long)v->references->count);
    if (measured != NULL && columns->measured < 0)
        return error_user("%s:1: does not have a column \"%s\" (--measured)", v->path, measured);
    if (columns->measured < 0)
        columns->measured = scores;
    if (columns->measured >= 0)
        v->measured = cell_text(&cells[columns->measured]);
    return ERROR_NONE;
}

static int read_measured(const struct variant_list *v, int64_t line, const struct text_cell *cell, double *value)
{
    char *text = cell_text(cell), *end;
    int code = ERROR_NONE;
    *value = NAN;
    if (*text != '\0' && strcmp(text, "NA") != 0) {
        *value = strtod(text, &end);
        if (*end != '\0')
            code = error_user("%s:%lld: %s = %s: is not a number", v->path, (long long)line, v->measured,
                              text_short((char[TEXT_SHORT]){0}, text));
    }
    free(text);
    return code;
}

static int take_row(struct variant_list *v, const struct table_columns *columns, const struct text_cell *cells,
                    int64_t line)
{
    char *name = columns->name >= 0 ? cell_text(&cells[columns->name]) : NULL;
    char *mutation = cell_text(&cells[columns->mutation]), short_name[TEXT_SHORT];
    char *what = memory_format("mutation %s", text_short(short_name, mutation));
    const int64_t record = name != NULL ? references_find(v->references, name) : 0;
    int code = ERROR_NONE;
    if (record < 0)
        code = error_user("%s:%lld: name %s: %s does not have a record of this name", v->path, (long long)line,
                          text_short(short_name, name), v->references->path);
    if (code == ERROR_NONE) {
        struct sequence_variant *variant = variants_add(v, record);
        if (columns->measured >= 0)
            code = read_measured(v, line, &cells[columns->measured], &variant->measured);
    }
    if (code == ERROR_NONE)
        code = parse_mutation(v, &(struct variant_place){v, line, what}, mutation);
    if (code == ERROR_NONE) {
        const struct sequence_variant *variant = &v->list[v->count - 1];
        qsort(v->edits + variant->first, (size_t)variant->count, sizeof *v->edits, by_position);
        variants_add_name(v, mutation);
    }
    free(name);
    free(mutation);
    free(what);
    return code;
}

static int64_t lines_in(const char *text, int64_t bytes)
{
    int64_t lines = 0;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + bytes - at))) != NULL; at++)
        lines++;
    return lines;
}

int variants_read_table(struct variant_list *v, const char *content, int64_t bytes, const char *measured)
{
    enum { COLUMNS = 4096 };
    struct text_cell *cells = memory_allocate(COLUMNS * (int64_t)sizeof *cells);
    const char *at = content, *end = content + bytes;
    struct table_columns columns = {0};
    int64_t line = 1;
    int code = ERROR_NONE;
    v->delimiter = csv_delimiter(content, bytes, "mutation", ',');
    if (v->delimiter == '\0')
        v->delimiter = csv_delimiter(content, bytes, "mutant", ',');
    if (v->delimiter == '\0')
        v->delimiter = ',';
    while (at < end && code == ERROR_NONE) {
        const char *row = at;
        int count;
        int64_t row_bytes;
        const char *wrong = read_row(&at, end, v->delimiter, cells, COLUMNS, &count, &row_bytes);
        const bool blank = wrong == NULL && row_bytes == 0;
        if (wrong != NULL)
            code = error_user("%s:%lld: %s", v->path, (long long)line, wrong);
        else if (!blank && columns.count == 0 && count > COLUMNS)
            code = error_user("%s:%lld: has more than %d columns", v->path, (long long)line, COLUMNS);
        else if (!blank && columns.count == 0) {
            code = find_columns(v, cells, count, measured, &columns);
            v->header = variants_add_text(v, row, row_bytes);
            v->header_bytes = row_bytes;
        } else if (!blank && count != columns.count) {
            code =
                error_user("%s:%lld: has %d cells, the header has %d", v->path, (long long)line, count, columns.count);
        } else if (!blank) {
            code = take_row(v, &columns, cells, line);
            if (code == ERROR_NONE) {
                v->list[v->count - 1].text = variants_add_text(v, row, row_bytes);
                v->list[v->count - 1].bytes = row_bytes;
            }
        }
        line += lines_in(row, at - row);
    }
    memory_free(cells);
    return code;
}

bool variants_has_column(const struct variant_list *v, const char *name)
{
    enum { COLUMNS = 4096 };
    struct text_cell *cells = memory_allocate(COLUMNS * (int64_t)sizeof *cells);
    const char *at = v->text + v->header;
    int count;
    int64_t bytes;
    bool found = false;
    if (read_row(&at, at + v->header_bytes, v->delimiter, cells, COLUMNS, &count, &bytes) == NULL)
        for (int c = 0; c < count && c < COLUMNS && !found; c++) {
            char *text = cell_text(&cells[c]);
            found = strcmp(text, name) == 0;
            free(text);
        }
    memory_free(cells);
    return found;
}
