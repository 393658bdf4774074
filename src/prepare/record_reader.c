#include "prepare/record_reader.h"
#include "base/error.h"
#include "base/memory.h"
#include "prepare/fasta.h"
#include "prepare/jsonl.h"
#include "prepare/source.h"

#include <string.h>

struct record_reader {
    struct fasta *fasta; /* this one or */
    struct jsonl *jsonl; /* this one */
};

static bool ends_with(const char *text, int64_t length, const char *end)
{
    int64_t bytes = (int64_t)strlen(end);
    return length >= bytes && memcmp(text + length - bytes, end, (size_t)bytes) == 0;
}

static bool is_named_jsonl(const char *path)
{
    int64_t length = (int64_t)strlen(path);
    if (ends_with(path, length, ".gz"))
        length -= 3;
    else if (ends_with(path, length, ".zst"))
        length -= 4;
    return ends_with(path, length, ".jsonl");
}

int record_reader_create(struct record_reader **out, struct source *source, const char *field)
{
    char first = '\0';
    int code = source_peek(source, &first);
    *out = NULL;
    if (code != ERROR_NONE)
        return code;
    struct record_reader *reader = memory_allocate(sizeof *reader);
    if (first == '{' || is_named_jsonl(source_name(source)))
        reader->jsonl = jsonl_create(source, field);
    else
        reader->fasta = fasta_create(source);
    *out = reader;
    return ERROR_NONE;
}

int record_reader_next(struct record_reader *reader, struct record_piece *piece)
{
    return reader->jsonl != NULL ? jsonl_next(reader->jsonl, piece) : fasta_next(reader->fasta, piece);
}

void record_reader_destroy(struct record_reader *reader)
{
    if (reader == NULL)
        return;
    fasta_destroy(reader->fasta);
    jsonl_destroy(reader->jsonl);
    memory_free(reader);
}
