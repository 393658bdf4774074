/* Variants of a VCF. */
#include "infer/variants_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "records/csv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

int variants_read_vcf(struct variant_list *v, const char *content, int64_t bytes)
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
