#include "records/record_reader.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thousands.h"
#include "records/csv.h"
#include "records/fasta.h"
#include "records/fastq.h"
#include "records/flat.h"
#include "records/foreign.h"
#include "records/jsonl.h"
#include "records/parquet.h"
#include "records/source.h"
#include "records/text.h"
#include "records/twobit.h"

#include <string.h>

struct record_reader {
    const struct record_class *class;
    void *reader; /* NULL: the file has only blanks */
    const char *name;
    struct record_settings settings;
    int64_t records, skipped_before;
};

static const struct record_class *const classes[] = {&fasta_class,  &fastq_class, &genbank_class, &embl_class,
                                                     &twobit_class, &jsonl_class, &json_class,    &csv_class,
                                                     &tsv_class,    &text_class,  &lines_class,   &parquet_class};
enum { CLASSES = sizeof classes / sizeof *classes };

/* Formats by file name. Names such as .txt mean text only if bytes are requested; files of sequences may have any
 * name. */
static const struct {
    const char *ending;
    const struct record_class *class;
    bool bytes_only;
} endings[] = {
    {".jsonl", &jsonl_class, false},     {".ndjson", &jsonl_class, false}, {".json", &json_class, false},
    {".csv", &csv_class, false},         {".tsv", &tsv_class, false},      {".tab", &tsv_class, false},
    {".parquet", &parquet_class, false}, {".fa", &fasta_class, true},      {".fasta", &fasta_class, true},
    {".fna", &fasta_class, true},        {".faa", &fasta_class, true},     {".ffn", &fasta_class, true},
    {".txt", &text_class, true},         {".text", &text_class, true},     {".md", &text_class, true},
};

static const char default_field[] = "text";

static bool ends_with(const char *text, int64_t length, const char *end)
{
    int64_t bytes = (int64_t)strlen(end);
    return length >= bytes && memcmp(text + length - bytes, end, (size_t)bytes) == 0;
}

static const struct record_class *class_by_name(const char *path, enum record_content content)
{
    int64_t length = (int64_t)strlen(path);
    if (ends_with(path, length, ".gz"))
        length -= 3;
    else if (ends_with(path, length, ".zst"))
        length -= 4;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(path, length, endings[i].ending) && (content == RECORD_BYTES || !endings[i].bytes_only))
            return endings[i].class;
    return NULL;
}

static int64_t skip_blanks(const uint8_t *head, int64_t bytes, int64_t at)
{
    while (at < bytes && memchr(" \t\r\n", head[at], 4) != NULL)
        at++;
    return at;
}

static bool is_at(const uint8_t *head, int64_t bytes, int64_t at, char c)
{
    return at < bytes && head[at] == (uint8_t)c;
}

/* Returns the format of sequences, other than FASTA, that a file has; NULL: none. */
static const struct record_class *sequences_of(const uint8_t *head, int64_t bytes)
{
    return fastq_begins(head, bytes)     ? &fastq_class
           : genbank_begins(head, bytes) ? &genbank_class
           : embl_begins(head, bytes)    ? &embl_class
           : twobit_begins(head, bytes)  ? &twobit_class
                                         : NULL;
}

static const struct record_class *class_by_content(const uint8_t *head, int64_t bytes,
                                                   const struct record_settings *settings)
{
    const bool characters = settings->content == RECORD_CHARACTERS;
    const int64_t at = skip_blanks(head, bytes, 0);
    if (bytes >= 4 && memcmp(head, "PAR1", 4) == 0)
        return &parquet_class;
    if (is_at(head, bytes, at, '{'))
        return &jsonl_class;
    if (is_at(head, bytes, at, '[') && is_at(head, bytes, skip_blanks(head, bytes, at + 1), '{'))
        return &json_class;
    if (characters && is_at(head, bytes, at, '>'))
        return &fasta_class;
    if (characters && sequences_of(head, bytes) != NULL)
        return sequences_of(head, bytes);
    if (settings->field != NULL && csv_delimiter((const char *)head, bytes, settings->field, ',') != '\0')
        return &csv_class;
    if (settings->lines)
        return &lines_class;
    return characters ? &fasta_class : &text_class;
}

static int find_format(const struct record_class **class, const char *name)
{
    for (int i = 0; i < CLASSES; i++)
        if (strcmp(name, classes[i]->name) == 0)
            *class = classes[i];
    if (*class == NULL)
        return error_user("--input-format %s: must be one of fasta, fastq, genbank, embl, 2bit, jsonl, json, csv, tsv, "
                          "parquet, text, lines",
                          name);
    return ERROR_NONE;
}

static bool is_text(const struct record_class *class)
{
    return class == &text_class || class == &lines_class;
}

/* Rejects UTF-16 and UTF-32, recognised by the byte order mark, and UTF-16 also by zero bytes next to ASCII. */
static int refuse_wide(const char *path, const uint8_t *head, int64_t bytes)
{
    const char *kind = NULL;
    if (bytes >= 4 && (memcmp(head, "\xff\xfe\0", 4) == 0 || memcmp(head, "\0\0\xfe\xff", 4) == 0))
        kind = "UTF-32";
    else if (bytes >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
        kind = "UTF-16";
    for (int zero = 0; zero < 2 && kind == NULL && bytes >= 8; zero++) {
        int pairs = 0;
        while (pairs < 4 && head[2 * pairs + zero] == 0 && head[2 * pairs + 1 - zero] >= '\t' &&
               head[2 * pairs + 1 - zero] <= '~')
            pairs++;
        if (pairs == 4)
            kind = zero == 1 ? "UTF-16LE" : "UTF-16BE";
    }
    if (kind == NULL)
        return ERROR_NONE;
    return error_user("%s: is %s, but must be UTF-8; convert it: iconv -f %s -t UTF-8", path, kind, kind);
}

/* Detects the format by the file's name, or else by its first bytes. */
static const struct record_class *class_of(const char *path, const uint8_t *head, int64_t bytes,
                                           const struct record_settings *settings)
{
    const struct record_class *class = class_by_name(path, settings->content);
    if (class == &json_class && is_at(head, bytes, skip_blanks(head, bytes, 0), '{'))
        class = &jsonl_class; /* a common name for JSON lines */
    if (class == NULL || (is_text(class) && settings->field != NULL))
        class = class_by_content(head, bytes, settings);
    return settings->lines && class == &text_class ? &lines_class : class;
}

static int choose(const struct record_class **class, struct record_source *source,
                  const struct record_settings *settings, bool *blank)
{
    const char *path = source_name(source);
    const uint8_t *head;
    int64_t bytes;
    *class = NULL;
    int code = source_head(source, &head, &bytes);
    const bool all = bytes < SOURCE_HEAD;
    if (code == ERROR_NONE && settings->format != NULL)
        code = find_format(class, settings->format);
    if (code == ERROR_NONE)
        code = refuse_wide(path, head, bytes);
    if (code == ERROR_NONE && bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) { /* written by Windows programs */
        source_skip(source, 3);
        head += 3;
        bytes -= 3;
    }
    const struct record_class *sequences = settings->content == RECORD_CHARACTERS ? sequences_of(head, bytes) : NULL;
    const bool as_named = sequences != NULL && (*class == NULL || *class == sequences);
    if (code == ERROR_NONE && !as_named && (*class == NULL || !is_text(*class)))
        code = foreign_refuse(path, head, bytes);
    if (code == ERROR_NONE && *class == NULL)
        *class = class_of(path, head, bytes, settings);
    if (code != ERROR_NONE)
        return code;
    const bool fields = !is_text(*class) || settings->field != NULL;
    *blank = fields && *class != &parquet_class && all && skip_blanks(head, bytes, 0) == bytes;
    if (fields && is_text(*class) && !*blank)
        code = error_user("%s: --field %s: plain text has no fields; --input-format names the format of a file that "
                          "does: jsonl, json, csv, tsv, parquet",
                          path, settings->field);
    return code;
}

int record_reader_create(struct record_reader **out, struct record_source *source,
                         const struct record_settings *settings)
{
    const struct record_class *class;
    bool blank;
    *out = NULL;
    int code = choose(&class, source, settings, &blank);
    if (code != ERROR_NONE)
        return code;
    if (settings->label_count > 0 && !class->labelled)
        return error_user("%s: files of format %s have no labels, which --labels and --split-column read; FASTA, CSV, "
                          "TSV, Parquet and JSON have",
                          source_name(source), class->name);
    struct record_reader *reader = memory_allocate(sizeof *reader);
    reader->class = class;
    reader->name = source_name(source);
    reader->settings = *settings;
    if (settings->field == NULL)
        reader->settings.field = default_field;
    if (settings->skipped != NULL)
        reader->skipped_before = *settings->skipped;
    if (!blank)
        code = class->create(&reader->reader, source, &reader->settings);
    *out = reader;
    return code;
}

static int refuse_empty(const struct record_reader *reader)
{
    const int64_t *skipped = reader->settings.skipped;
    if (skipped == NULL || *skipped == reader->skipped_before)
        return error_user("%s: has no record", reader->name);
    return error_user("%s: none of %lld records has field \"%s\"; name the field of the sequence with --field",
                      reader->name, (long long)(*skipped - reader->skipped_before), reader->settings.field);
}

int record_reader_next(struct record_reader *reader, struct record_piece *piece)
{
    int code = ERROR_NONE;
    *piece = (struct record_piece){.kind = RECORD_END};
    if (reader->reader != NULL)
        code = reader->class->next(reader->reader, piece);
    if (code != ERROR_NONE)
        return code;
    reader->records += piece->kind == RECORD_NAME;
    const bool empty = piece->kind == RECORD_END && reader->records == 0;
    return empty && !reader->settings.may_be_empty ? refuse_empty(reader) : ERROR_NONE;
}

void record_reader_destroy(struct record_reader *reader)
{
    if (reader == NULL)
        return;
    reader->class->destroy(reader->reader);
    memory_free(reader);
}

void record_reader_report(int64_t skipped, const char *field)
{
    if (skipped > 0)
        log_info("%lld record%s without field \"%s\" skipped (--skip-bad)", (long long)skipped, plural(skipped),
                 field != NULL ? field : default_field);
}
