#include "prepare/record_reader.h"
#include "base/error.h"
#include "base/memory.h"
#include "prepare/fasta.h"
#include "prepare/foreign.h"
#include "prepare/jsonl.h"
#include "prepare/parquet.h"
#include "prepare/source.h"
#include "prepare/text.h"

#include <string.h>

struct record_reader {
    const struct record_class *class;
    void *reader;
};

static const struct record_class *const classes[] = {&fasta_class, &jsonl_class, &text_class, &lines_class,
                                                     &parquet_class};
enum { CLASSES = sizeof classes / sizeof *classes };

/* What a name alone tells. A name such as .txt tells a text where bytes are wanted; sequences are found in files of
 * any name. */
static const struct {
    const char *ending;
    const struct record_class *class;
    bool bytes_only;
} endings[] = {
    {".jsonl", &jsonl_class, false}, {".ndjson", &jsonl_class, false}, {".parquet", &parquet_class, false},
    {".fa", &fasta_class, true},     {".fasta", &fasta_class, true},   {".fna", &fasta_class, true},
    {".faa", &fasta_class, true},    {".ffn", &fasta_class, true},     {".txt", &text_class, true},
    {".text", &text_class, true},    {".md", &text_class, true},
};

static bool ends_with(const char *text, int64_t length, const char *end)
{
    int64_t bytes = (int64_t)strlen(end);
    return length >= bytes && memcmp(text + length - bytes, end, (size_t)bytes) == 0;
}

static const struct record_class *told_by_name(const char *path, enum record_content content)
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

static const struct record_class *told_by_content(const uint8_t *head, int64_t bytes,
                                                  const struct record_settings *settings)
{
    const bool characters = settings->content == RECORD_CHARACTERS;
    int64_t at = 0;
    if (bytes >= 4 && memcmp(head, "PAR1", 4) == 0)
        return &parquet_class;
    while (at < bytes && memchr(" \t\r\n", head[at], 4) != NULL)
        at++;
    if (at < bytes && head[at] == '{')
        return &jsonl_class;
    if (settings->lines && !(characters && at < bytes && head[at] == '>'))
        return &lines_class;
    return characters ? &fasta_class : &text_class;
}

static int find_format(const struct record_class **class, const char *name)
{
    for (int i = 0; i < CLASSES; i++)
        if (strcmp(name, classes[i]->name) == 0)
            *class = classes[i];
    if (*class == NULL)
        return error_user("--input-format %s: unknown; there is: fasta, jsonl, text, lines, parquet", name);
    return ERROR_NONE;
}

/* What editors on Windows put before UTF-8. It is part of a text, but of nothing else. */
static int refuse_mark(const char *path, const uint8_t *head, int64_t bytes)
{
    if (bytes < 3 || memcmp(head, "\xef\xbb\xbf", 3) != 0)
        return ERROR_NONE;
    return error_user("%s: it begins with a byte order mark; save it as UTF-8 without one", path);
}

static int choose(const struct record_class **class, struct source *source, const struct record_settings *settings)
{
    const uint8_t *head;
    int64_t bytes;
    *class = NULL;
    int code = source_head(source, &head, &bytes);
    if (code == ERROR_NONE && settings->content == RECORD_CHARACTERS)
        code = refuse_mark(source_name(source), head, bytes);
    if (code != ERROR_NONE)
        return code;
    if (settings->format != NULL)
        return find_format(class, settings->format);
    code = foreign_refuse(source_name(source), head, bytes);
    if (code == ERROR_NONE)
        *class = told_by_name(source_name(source), settings->content);
    if (code == ERROR_NONE && *class == NULL)
        *class = told_by_content(head, bytes, settings);
    if (settings->lines && *class == &text_class)
        *class = &lines_class;
    return code;
}

int record_reader_create(struct record_reader **out, struct source *source, const struct record_settings *settings)
{
    const struct record_class *class;
    *out = NULL;
    int code = choose(&class, source, settings);
    if (code != ERROR_NONE)
        return code;
    struct record_reader *reader = memory_allocate(sizeof *reader);
    reader->class = class;
    code = class->create(&reader->reader, source, settings);
    *out = reader;
    return code;
}

int record_reader_next(struct record_reader *reader, struct record_piece *piece)
{
    return reader->class->next(reader->reader, piece);
}

void record_reader_destroy(struct record_reader *reader)
{
    if (reader == NULL)
        return;
    reader->class->destroy(reader->reader);
    memory_free(reader);
}
