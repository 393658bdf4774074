#include "infer/variants.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "records/csv.h"
#include "records/source.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char residues[] = "ACDEFGHIKLMNPQRSTVWY", bases[] = "ACGT";
static const char wild_type[] = "WT";

/* -- Building the list --------------------------------------------------------------------------------------------- */

static int64_t variants_add_text(struct variant_list *v, const char *text, int64_t bytes)
{
    const int64_t at = v->text_bytes;
    if (at + bytes > v->text_capacity) {
        v->text_capacity = 2 * (at + bytes);
        v->text = memory_grow(v->text, v->text_capacity);
    }
    memcpy(v->text + at, text, (size_t)bytes);
    v->text_bytes += bytes;
    return at;
}

static struct sequence_variant *variants_add(struct variant_list *v, int64_t record)
{
    if (v->count == v->capacity) {
        v->capacity = 2 * v->capacity + 64;
        v->list = memory_grow(v->list, v->capacity * (int64_t)sizeof *v->list);
    }
    v->list[v->count] = (struct sequence_variant){.record = record, .first = v->edit_count, .measured = NAN};
    return &v->list[v->count++];
}

/* Names the last variant. */
static void variants_add_name(struct variant_list *v, const char *name)
{
    struct sequence_variant *variant = &v->list[v->count - 1];
    variant->name_bytes = (int64_t)strlen(name);
    variant->name = variants_add_text(v, name, variant->name_bytes);
}

/* Adds an edit to the last variant. */
static void variants_add_edit(struct variant_list *v, int64_t position, int64_t removed, const char *letters,
                              int64_t count)
{
    if (v->edit_count == v->edit_capacity) {
        v->edit_capacity = 2 * v->edit_capacity + 64;
        v->edits = memory_grow(v->edits, v->edit_capacity * (int64_t)sizeof *v->edits);
    }
    if (v->id_count + count > v->id_capacity) {
        v->id_capacity = 2 * (v->id_count + count) + 64;
        v->ids = memory_grow(v->ids, v->id_capacity);
    }
    v->edits[v->edit_count++] = (struct variant_edit){position, removed, v->id_count, count};
    for (int64_t i = 0; i < count; i++)
        v->ids[v->id_count++] = v->references->census.id_of[(uint8_t)letters[i]];
    v->list[v->count - 1].count++;
    if (removed != count && v->first_resized < 0)
        v->first_resized = v->count - 1;
}

/* -- Checks ---------------------------------------------------------------------------------------------------------
 */

/* The place of a variant in its file, for messages. */
struct variant_place {
    const struct variant_list *variants;
    int64_t line;
    const char *what; /* "mutation A42G" */
};

static int variant_refuse(const struct variant_place *at, const char *why)
{
    return error_user("%s:%lld: %s: %s", at->variants->path, (long long)at->line, at->what, why);
}

static int variant_refuse_text(const struct variant_place *at, char *why)
{
    const int code = variant_refuse(at, why);
    free(why);
    return code;
}

static bool is_letter(const struct variant_list *v, char c)
{
    const struct text_census *census = &v->references->census;
    return isalpha((unsigned char)c) && !census->unknown[(uint8_t)c];
}

static int variant_check_letters(const struct variant_place *at, const char *letters, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!is_letter(at->variants, letters[i]))
            return variant_refuse_text(at, memory_format("'%c' is not a letter of tokenizer %s", letters[i],
                                                         at->variants->references->census.tokenizer->name));
    return ERROR_NONE;
}

/* Checks that the record has these letters from `position` (from 0) on. */
static int variant_check_wild_type(const struct variant_place *at, int64_t record, int64_t position,
                                   const char *letters, int64_t count)
{
    const struct reference_list *s = at->variants->references;
    const struct reference_record *reference = &s->list[record];
    char name[TEXT_SHORT], token[TOKENIZER_TEXT];
    text_short(name, reference->name);
    if (position < 0 || position + count > reference->length)
        return variant_refuse_text(at, memory_format("position %lld is not in record %s of %s, which has %lld %s",
                                                     (long long)(position < 0 ? position + 1 : position + count), name,
                                                     s->path, (long long)reference->length,
                                                     tokenizer_token_noun(s->census.tokenizer)));
    for (int64_t i = 0; i < count; i++) {
        const uint8_t found = reference_ids(s, record)[position + i];
        if (found != s->census.id_of[(uint8_t)letters[i]])
            return variant_refuse_text(
                at, memory_format("position %lld of record %s of %s is %s, not %c", (long long)(position + i + 1), name,
                                  s->path, tokenizer_token(s->census.tokenizer, found, token), letters[i]));
    }
    return ERROR_NONE;
}

/* -- Tables ---------------------------------------------------------------------------------------------------------
 */

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

static int variants_read_table(struct variant_list *v, const char *content, int64_t bytes, const char *measured)
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

/* -- VCF ------------------------------------------------------------------------------------------------------------
 */

enum { VCF_CHROM, VCF_POS, VCF_ID, VCF_REF, VCF_ALT, VCF_COLUMNS };

/* Adds the cells of a row to the text. */
static void add_row(struct variant_list *v, const char *const *cells, int count)
{
    char *text;
    size_t bytes;
    FILE *row = memory_stream(&text, &bytes);
    for (int c = 0; c < count; c++) {
        if (c > 0)
            putc(v->delimiter, row);
        csv_write_cell(row, v->delimiter, cells[c]);
    }
    memory_stream_end(row);
    variants_add_text(v, text, (int64_t)bytes);
    free(text);
}

/* Adds the variant of one of a line's ALT: where REF and ALT have equal lengths, an edit for each letter that differs,
 * else one edit without the letters that both begin with. */
static int take_alternative(struct variant_list *v, char *const *cells, int64_t line, const char *alt)
{
    char short_ref[TEXT_SHORT], short_alt[TEXT_SHORT], *end;
    const char *ref = cells[VCF_REF];
    const int64_t removed = (int64_t)strlen(ref), added = (int64_t)strlen(alt);
    char *what = memory_format("POS %.20s REF %s ALT %s", cells[VCF_POS], text_short(short_ref, ref),
                               text_short(short_alt, alt));
    const struct variant_place at = {v, line, what};
    const long long position = strtoll(cells[VCF_POS], &end, 10);
    const int64_t record = references_find(v->references, cells[VCF_CHROM]);
    int code = ERROR_NONE;
    if (record < 0)
        code = error_user("%s:%lld: CHROM %s: %s does not have a record of this name", v->path, (long long)line,
                          text_short(short_ref, cells[VCF_CHROM]), v->references->path);
    else if (*end != '\0' || end == cells[VCF_POS])
        code = variant_refuse(&at, "POS must be a number");
    else if (removed == 0 || added == 0 || !isalpha((unsigned char)alt[0]))
        code = variant_refuse(&at, "REF and ALT must be letters; leave symbolic and missing alleles out");
    if (code == ERROR_NONE)
        code = variant_check_letters(&at, ref, removed);
    if (code == ERROR_NONE)
        code = variant_check_letters(&at, alt, added);
    if (code == ERROR_NONE)
        code = variant_check_wild_type(&at, record, position - 1, ref, removed);
    free(what);
    if (code != ERROR_NONE)
        return code;
    struct sequence_variant *variant = variants_add(v, record);
    variant->text = v->text_bytes;
    add_row(v, (const char *const[]){cells[VCF_CHROM], cells[VCF_POS], cells[VCF_ID], ref, alt}, VCF_COLUMNS);
    variant->bytes = v->text_bytes - variant->text;
    char *name = memory_format("%s%lld%s", ref, position, alt);
    variants_add_name(v, name);
    free(name);
    const uint8_t *id_of = v->references->census.id_of;
    for (int64_t i = 0; i < removed && removed == added; i++)
        if (id_of[(uint8_t)ref[i]] != id_of[(uint8_t)alt[i]])
            variants_add_edit(v, position - 1 + i, 1, alt + i, 1);
    int64_t same = 0;
    while (same < removed && same < added && id_of[(uint8_t)ref[same]] == id_of[(uint8_t)alt[same]])
        same++;
    if (removed != added)
        variants_add_edit(v, position - 1 + same, removed - same, alt + same, added - same);
    return ERROR_NONE;
}

static int take_line(struct variant_list *v, char *text, int64_t line)
{
    char *cells[VCF_COLUMNS], *rest = text;
    for (int c = 0; c < VCF_COLUMNS; c++) {
        cells[c] = strsep(&rest, "\t");
        if (cells[c] == NULL)
            return error_user("%s:%lld: has %d columns; a VCF has CHROM, POS, ID, REF and ALT, separated by tabs",
                              v->path, (long long)line, c);
    }
    for (char *alt; (alt = strsep(&cells[VCF_ALT], ",")) != NULL;) {
        int code = take_alternative(v, cells, line, alt);
        if (code != ERROR_NONE)
            return code;
    }
    return ERROR_NONE;
}

static int variants_read_vcf(struct variant_list *v, const char *content, int64_t bytes)
{
    static const char header[] = "chrom,pos,id,ref,alt";
    int64_t line = 1;
    int code = ERROR_NONE;
    v->header = variants_add_text(v, header, v->header_bytes = sizeof header - 1);
    v->delimiter = ',';
    for (const char *at = content, *end = content + bytes; at < end && code == ERROR_NONE; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline != NULL ? newline : end;
        const int64_t length = stop - at - (stop > at && stop[-1] == '\r');
        if (length > 0 && *at != '#') {
            char *text = memory_format("%.*s", (int)length, at);
            code = take_line(v, text, line);
            free(text);
        }
        at = stop + (newline != NULL);
    }
    return code;
}

/* -- Files ----------------------------------------------------------------------------------------------------------
 */

/* Reads a whole file into *content, freed with free(). */
static int read_content(const char *path, char **content, int64_t *bytes)
{
    enum { PART = 1 << 20 };
    struct record_source *source;
    int64_t got = 1, capacity = 0;
    *content = NULL;
    *bytes = 0;
    int code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    while (code == ERROR_NONE && got > 0) {
        if (*bytes + PART > capacity)
            *content = memory_grow(*content, capacity = 2 * (*bytes + PART));
        code = source_read(source, *content + *bytes, PART, &got);
        *bytes += code == ERROR_NONE ? got : 0;
    }
    source_close(source);
    return code;
}

static bool is_vcf(const char *path, const char *content, int64_t bytes)
{
    static const char magic[] = "##fileformat=VCF";
    const char *name = strrchr(path, '/');
    const bool begins = bytes >= (int64_t)sizeof magic - 1 && memcmp(content, magic, sizeof magic - 1) == 0;
    return begins || strstr(name != NULL ? name : path, ".vcf") != NULL;
}

int variants_read(struct variant_list *v, const struct reference_list *references, const char *path,
                  const char *measured)
{
    static const char mark[] = "\xef\xbb\xbf"; /* UTF-8's byte order mark */
    char *content;
    int64_t bytes;
    *v = (struct variant_list){.references = references, .path = memory_string(path), .first_resized = -1};
    int code = read_content(path, &content, &bytes);
    if (code == ERROR_NONE) {
        const int64_t skip = bytes >= 3 && memcmp(content, mark, 3) == 0 ? 3 : 0;
        v->kind = is_vcf(path, content + skip, bytes - skip) ? VARIANTS_VCF : VARIANTS_TABLE;
        if (memchr(content + skip, '\0', (size_t)(bytes - skip)) != NULL)
            code = error_user("%s: contains a zero byte, so it is not a table", path);
        else if (v->kind == VARIANTS_VCF && measured != NULL)
            code = error_user("%s: is a VCF; --measured names a column of a table", path);
        else
            code = v->kind == VARIANTS_VCF ? variants_read_vcf(v, content + skip, bytes - skip)
                                           : variants_read_table(v, content + skip, bytes - skip, measured);
    }
    free(content);
    return code == ERROR_NONE && v->count == 0 ? error_user("%s: does not list a variant", path) : code;
}

int variants_scan(struct variant_list *v, const struct reference_list *references)
{
    static const char header[] = "name,mutation";
    const char *letters = references->census.tokenizer->bases ? bases : residues;
    const uint8_t *id_of = references->census.id_of;
    *v = (struct variant_list){.kind = VARIANTS_SCAN, .references = references, .first_resized = -1, .delimiter = ','};
    v->header = variants_add_text(v, header, v->header_bytes = sizeof header - 1);
    for (int64_t r = 0; r < references->count; r++)
        for (int64_t p = 0; p < references->list[r].length; p++) {
            const uint8_t own = reference_ids(references, r)[p];
            bool standard = false;
            for (const char *letter = letters; *letter != '\0'; letter++)
                standard |= id_of[(uint8_t)*letter] == own;
            v->skipped += !standard;
            for (const char *letter = letters; *letter != '\0' && standard; letter++)
                if (id_of[(uint8_t)*letter] != own) {
                    variants_add(v, r);
                    variants_add_edit(v, p, 1, letter, 1);
                }
        }
    return v->count > 0 ? ERROR_NONE
                        : error_user("%s: does not have a standard letter (%s) to change", references->path, letters);
}

void variants_destroy(struct variant_list *v)
{
    free(v->path);
    free(v->text);
    free(v->measured);
    free(v->list);
    free(v->edits);
    free(v->ids);
    *v = (struct variant_list){0};
}

/* -- Writing --------------------------------------------------------------------------------------------------------
 */

static void put_letter(const struct variant_list *v, uint8_t id, FILE *file)
{
    char token[TOKENIZER_TEXT];
    fputs(tokenizer_token(v->references->census.tokenizer, id, token), file);
}

void variants_name(const struct variant_list *v, int64_t variant, FILE *file)
{
    const struct sequence_variant *of = &v->list[variant];
    if (v->kind != VARIANTS_SCAN) {
        fwrite(v->text + of->name, 1, (size_t)of->name_bytes, file);
        return;
    }
    const struct variant_edit *edit = &v->edits[of->first]; /* the only one */
    put_letter(v, reference_ids(v->references, of->record)[edit->position], file);
    fprintf(file, "%lld", (long long)edit->position + 1);
    put_letter(v, v->ids[edit->added], file);
}

void variants_write_header(const struct variant_list *v, FILE *file)
{
    fwrite(v->text + v->header, 1, (size_t)v->header_bytes, file);
}

void variants_write_row(const struct variant_list *v, int64_t variant, FILE *file)
{
    const struct sequence_variant *of = &v->list[variant];
    if (v->kind != VARIANTS_SCAN) {
        fwrite(v->text + of->text, 1, (size_t)of->bytes, file);
        return;
    }
    csv_write_cell(file, v->delimiter, v->references->list[of->record].name);
    putc(v->delimiter, file);
    variants_name(v, variant, file);
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
