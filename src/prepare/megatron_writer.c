#include "prepare/megatron_writer.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/open.h"
#include "file/replace.h"
#include "data/megatron_store.h"
#include "data/token_store.h"
#include "prepare/column.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { INDEX, BIN, FILES };
enum { TOKENS, HEADER, LENGTHS, STARTS, DOCUMENTS, COLUMNS };
enum { CONVERTED = 4096 /* tokens converted at a time */, U16_VOCABULARY = 65500 };

struct megatron_writer {
    struct store_writer writer;
    struct file_replacement targets[FILES];
    int files[FILES];
    struct column_writer *columns[COLUMNS];
    int64_t given_bytes, token_bytes; /* bytes per token, given and written */
    int32_t eod;                      /* end token; -1: none */
    int64_t length, start, sequences; /* current sequence: tokens, first byte, number */
};

static struct megatron_writer *self_of(struct store_writer *writer)
{
    return (struct megatron_writer *)writer; /* the first member */
}

static int32_t token_at(const struct megatron_writer *writer, const void *tokens, int64_t i)
{
    if (writer->given_bytes == 1)
        return ((const uint8_t *)tokens)[i];
    return writer->given_bytes == 2 ? ((const uint16_t *)tokens)[i] : (int32_t)((const uint32_t *)tokens)[i];
}

static int put_tokens(struct megatron_writer *writer, const int32_t *tokens, int64_t count)
{
    uint16_t narrow[CONVERTED];
    writer->length += count;
    if (writer->token_bytes == 4)
        return column_put(writer->columns[TOKENS], tokens, count * 4);
    for (int64_t i = 0; i < count; i++)
        narrow[i] = (uint16_t)tokens[i];
    return column_put(writer->columns[TOKENS], narrow, count * 2);
}

static int append(struct store_writer *self, const void *tokens, int64_t count)
{
    struct megatron_writer *writer = self_of(self);
    int32_t part[CONVERTED];
    int code = ERROR_NONE;
    for (int64_t done = 0; done < count && code == ERROR_NONE;) {
        const int64_t rest = count - done, size = MIN(rest, CONVERTED);
        for (int64_t i = 0; i < size; i++)
            part[i] = token_at(writer, tokens, done + i);
        code = put_tokens(writer, part, size);
        done += size;
    }
    return code;
}

static int end(struct store_writer *self, const char *name)
{
    struct megatron_writer *writer = self_of(self);
    int code = writer->eod >= 0 ? put_tokens(writer, &writer->eod, 1) : ERROR_NONE;
    if (code == ERROR_NONE && writer->length > INT32_MAX)
        code =
            error_user("%s: has %lld tokens, but sequences of a Megatron data set must have fewer than 2^31; split it",
                       name, (long long)writer->length);
    const int32_t length = (int32_t)writer->length;
    if (code == ERROR_NONE)
        code = column_put(writer->columns[LENGTHS], &length, sizeof length);
    if (code == ERROR_NONE)
        code = column_put(writer->columns[STARTS], &writer->start, sizeof writer->start);
    if (code == ERROR_NONE)
        code = column_put(writer->columns[DOCUMENTS], &writer->sequences, sizeof writer->sequences);
    writer->sequences++;
    writer->start += writer->length * writer->token_bytes;
    writer->length = 0;
    return code;
}

static int cannot_write(const struct megatron_writer *writer, int file, const char *why)
{
    return error_environment("%s: cannot write: %s", writer->targets[file].temporary, why);
}

static int finish(struct store_writer *self, char *const *sources, int64_t source_count, uint64_t *checksum)
{
    struct megatron_writer *writer = self_of(self);
    uint64_t hashes[COLUMNS];
    (void)sources, (void)source_count; /* the format does not have them */
    int code = column_put(writer->columns[DOCUMENTS], &writer->sequences, sizeof writer->sequences);
    for (int i = 0; i < COLUMNS && code == ERROR_NONE; i++)
        code = column_finish(writer->columns[i], &hashes[i]);
    for (int i = 0; i < FILES && code == ERROR_NONE; i++)
        if (fsync(writer->files[i]) != 0)
            code = cannot_write(writer, i, strerror(errno));
    if (code == ERROR_NONE)
        *checksum = XXH3_64bits(hashes, sizeof hashes);
    return code;
}

static int commit(struct store_writer *self)
{
    struct megatron_writer *writer = self_of(self);
    if (unlink(writer->targets[INDEX].path) != 0 && errno != ENOENT)
        return error_environment("%s: cannot remove the old one: %s", writer->targets[INDEX].path, strerror(errno));
    int code = disk_sync_folder(writer->targets[INDEX].path);
    if (code == ERROR_NONE)
        code = replace_commit(&writer->targets[BIN], true);
    return code == ERROR_NONE ? replace_commit(&writer->targets[INDEX], true) : code;
}

static void destroy(struct store_writer *self)
{
    struct megatron_writer *writer = self_of(self);
    for (int i = 0; i < COLUMNS; i++)
        column_destroy(writer->columns[i]);
    for (int i = 0; i < FILES; i++) {
        if (writer->files[i] >= 0)
            close(writer->files[i]);
        replace_discard(&writer->targets[i]);
    }
    memory_free(writer);
}

static int open_file_of(struct megatron_writer *writer, int file, const char *prefix)
{
    static const char *const endings[FILES] = {".idx", ".bin"};
    char *path = memory_format("%s%s", prefix, endings[file]);
    replace_begin(&writer->targets[file], path);
    free(path);
    writer->files[file] = open_new(writer->targets[file].temporary);
    return writer->files[file] >= 0 ? ERROR_NONE : cannot_write(writer, file, open_failure());
}

static void add_column(struct megatron_writer *writer, int column, int64_t *position, int64_t bytes)
{
    writer->columns[column] = column_create(writer->files[INDEX], writer->targets[INDEX].temporary, *position, bytes);
    *position += bytes;
}

/* Lays out the index's tables one after the other, and writes its header. */
static int lay_out(struct megatron_writer *writer, int64_t sequences, int64_t tokens)
{
    unsigned char header[MEGATRON_HEADER];
    const int64_t version = MEGATRON_VERSION, entries = sequences + 1;
    int64_t position = 0;
    memcpy(header, megatron_magic, MEGATRON_MAGIC);
    memcpy(header + MEGATRON_VERSION_AT, &version, sizeof version);
    header[MEGATRON_TYPE_AT] = writer->token_bytes == 2 ? MEGATRON_U16 : MEGATRON_I32;
    memcpy(header + MEGATRON_SEQUENCES_AT, &sequences, sizeof sequences);
    memcpy(header + MEGATRON_ENTRIES_AT, &entries, sizeof entries);
    writer->columns[TOKENS] =
        column_create(writer->files[BIN], writer->targets[BIN].temporary, 0, tokens * writer->token_bytes);
    add_column(writer, HEADER, &position, sizeof header);
    add_column(writer, LENGTHS, &position, sequences * (int64_t)sizeof(int32_t));
    add_column(writer, STARTS, &position, sequences * (int64_t)sizeof(int64_t));
    add_column(writer, DOCUMENTS, &position, entries * (int64_t)sizeof(int64_t));
    return column_put(writer->columns[HEADER], header, sizeof header);
}

int megatron_writer_create(struct store_writer **out, const char *prefix, const struct tokenizer *tokenizer, bool eod,
                           int64_t sequences, int64_t tokens)
{
    static const struct store_writer_class class = {append, end, finish, commit, destroy};
    struct megatron_writer *writer = memory_allocate(sizeof *writer);
    writer->writer.class = &class;
    writer->given_bytes = token_store_token_bytes(tokenizer->vocabulary);
    writer->token_bytes = tokenizer->vocabulary < U16_VOCABULARY ? 2 : 4;
    writer->eod = eod ? tokenizer->eos : -1;
    for (int i = 0; i < FILES; i++)
        writer->files[i] = -1;
    int code = eod && tokenizer->eos < 0
                   ? error_user("--append-eod: the tokenizer %s has no end token", tokenizer->name)
                   : ERROR_NONE;
    for (int i = 0; i < FILES && code == ERROR_NONE; i++)
        code = open_file_of(writer, i, prefix);
    if (code == ERROR_NONE)
        code = lay_out(writer, sequences, tokens + (eod ? sequences : 0));
    *out = code == ERROR_NONE ? &writer->writer : NULL;
    if (code != ERROR_NONE)
        destroy(&writer->writer);
    return code;
}
