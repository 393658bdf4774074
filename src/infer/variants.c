/* The list of variants: how readers of files add to it and check, the scan, and names and rows as they are written. */
#include "infer/variants_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "records/csv.h"
#include "records/source.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char residues[] = "ACDEFGHIKLMNPQRSTVWY", bases[] = "ACGT";

/* -- Building the list --------------------------------------------------------------------------------------------- */

int64_t variants_add_text(struct variant_list *v, const char *text, int64_t bytes)
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

struct sequence_variant *variants_add(struct variant_list *v, int64_t record)
{
    if (v->count == v->capacity) {
        v->capacity = 2 * v->capacity + 64;
        v->list = memory_grow(v->list, v->capacity * (int64_t)sizeof *v->list);
    }
    v->list[v->count] = (struct sequence_variant){.record = record, .first = v->edit_count, .measured = NAN};
    return &v->list[v->count++];
}

void variants_add_name(struct variant_list *v, const char *name)
{
    struct sequence_variant *variant = &v->list[v->count - 1];
    variant->name_bytes = (int64_t)strlen(name);
    variant->name = variants_add_text(v, name, variant->name_bytes);
}

void variants_add_edit(struct variant_list *v, int64_t position, int64_t removed, const char *letters, int64_t count)
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

int variant_refuse(const struct variant_place *at, const char *why)
{
    return error_user("%s:%lld: %s: %s", at->variants->path, (long long)at->line, at->what, why);
}

int variant_refuse_text(const struct variant_place *at, char *why)
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

int variant_check_letters(const struct variant_place *at, const char *letters, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!is_letter(at->variants, letters[i]))
            return variant_refuse_text(at, memory_format("'%c' is not a letter of tokenizer %s", letters[i],
                                                         at->variants->references->census.tokenizer->name));
    return ERROR_NONE;
}

int variant_check_wild_type(const struct variant_place *at, int64_t record, int64_t position, const char *letters,
                            int64_t count)
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
