#include "file/spool.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/temporary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

enum { STREAM_TOKENS, STREAM_INDEX, STREAM_NAMES, STREAMS };

/* An entry of the index: a record's tokens and the bytes of its name. */
struct spool_entry {
    int64_t length, name_length;
};

struct spool {
    char *near;
    FILE *streams[STREAMS];
    char *buffers[STREAMS];
    int64_t token_bytes;
    int64_t records, tokens;
    int64_t record_tokens; /* tokens of the current record */
    int64_t next;          /* next record of spool_next */
    char *name;            /* [name_capacity] */
    int64_t name_capacity;
};

static int failed(const struct spool *spool, const char *what)
{
    return error_environment("%s: cannot %s temporary files in its folder: %s", spool->near, what, strerror(errno));
}

/* Opens a file without a name. A signal that ends the program before the unlink removes it too. */
static FILE *open_unnamed(const char *near, int number)
{
    char *own = temporary_own(near), *path = memory_format("%s.%d", own, number);
    temporary_register(path);
    int file = open_new(path);
    if (file >= 0)
        unlink(path);
    temporary_forget(path);
    free(path);
    free(own);
    return file >= 0 ? fdopen(file, "w+b") : NULL;
}

int spool_create(struct spool **out, const char *near, int64_t token_bytes)
{
    struct spool *spool = memory_allocate(sizeof *spool);
    spool->token_bytes = token_bytes;
    spool->near = memory_string(near);
    *out = NULL;
    for (int i = 0; i < STREAMS; i++) {
        spool->streams[i] = open_unnamed(near, i);
        if (spool->streams[i] == NULL) {
            int code = errno == ENOSPC
                           ? failed(spool, "create")
                           : error_user("%s: cannot create temporary files in its folder: %s; name another output",
                                        near, strerror(errno));
            spool_destroy(spool);
            return code;
        }
        spool->buffers[i] = memory_allocate(BUFFER_BYTES);
        setvbuf(spool->streams[i], spool->buffers[i], _IOFBF, BUFFER_BYTES);
    }
    *out = spool;
    return ERROR_NONE;
}

void spool_destroy(struct spool *spool)
{
    if (spool == NULL)
        return;
    for (int i = 0; i < STREAMS; i++) {
        if (spool->streams[i] != NULL)
            fclose(spool->streams[i]);
        memory_free(spool->buffers[i]);
    }
    free(spool->name);
    free(spool->near);
    memory_free(spool);
}

static int write_stream(struct spool *spool, int stream, const void *data, int64_t bytes)
{
    if (fwrite(data, 1, (size_t)bytes, spool->streams[stream]) != (size_t)bytes)
        return failed(spool, "write");
    return ERROR_NONE;
}

static int read_stream(struct spool *spool, int stream, void *data, int64_t bytes)
{
    if (fread(data, 1, (size_t)bytes, spool->streams[stream]) != (size_t)bytes)
        return failed(spool, "read");
    return ERROR_NONE;
}

int spool_append(struct spool *spool, const void *tokens, int64_t count)
{
    spool->record_tokens += count;
    return write_stream(spool, STREAM_TOKENS, tokens, count * spool->token_bytes);
}

int spool_discard(struct spool *spool)
{
    const int64_t bytes = spool->record_tokens * spool->token_bytes;
    spool->record_tokens = 0;
    return fseeko(spool->streams[STREAM_TOKENS], -bytes, SEEK_CUR) == 0 ? ERROR_NONE : failed(spool, "write");
}

int spool_end(struct spool *spool, const char *name)
{
    struct spool_entry entry = {spool->record_tokens, (int64_t)strlen(name)};
    spool->records++;
    spool->tokens += spool->record_tokens;
    spool->record_tokens = 0;
    int code = write_stream(spool, STREAM_INDEX, &entry, sizeof entry);
    return code != ERROR_NONE ? code : write_stream(spool, STREAM_NAMES, name, entry.name_length);
}

int64_t spool_records(const struct spool *spool)
{
    return spool->records;
}

int64_t spool_tokens(const struct spool *spool)
{
    return spool->tokens;
}

int spool_rewind(struct spool *spool)
{
    spool->next = 0;
    for (int i = 0; i < STREAMS; i++)
        if (fflush(spool->streams[i]) != 0 || fseeko(spool->streams[i], 0, SEEK_SET) != 0)
            return failed(spool, "write");
    return ERROR_NONE;
}

int spool_next(struct spool *spool, struct spool_record *record, int *more)
{
    *more = spool->next < spool->records;
    if (!*more)
        return ERROR_NONE;
    struct spool_entry entry;
    int code = read_stream(spool, STREAM_INDEX, &entry, sizeof entry);
    if (code != ERROR_NONE)
        return code;
    if (entry.name_length >= spool->name_capacity) {
        spool->name_capacity = 2 * entry.name_length + 64;
        spool->name = memory_grow(spool->name, spool->name_capacity);
    }
    code = read_stream(spool, STREAM_NAMES, spool->name, entry.name_length);
    spool->name[entry.name_length] = '\0';
    *record = (struct spool_record){spool->next++, entry.length, spool->name};
    return code;
}

int spool_read(struct spool *spool, void *tokens, int64_t count)
{
    return read_stream(spool, STREAM_TOKENS, tokens, count * spool->token_bytes);
}
