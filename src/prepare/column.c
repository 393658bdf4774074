#include "prepare/column.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { BUFFER_BYTES = 1 << 20 };

struct column_writer {
    int file;
    const char *path;
    int64_t position; /* offset in the file of the buffer's first byte */
    int64_t bytes;    /* bytes to come, without buffered ones */
    int64_t used;
    uint8_t *buffer; /* [BUFFER_BYTES] */
    XXH3_state_t *hash;
};

struct column_writer *column_create(int file, const char *path, int64_t position, int64_t bytes)
{
    struct column_writer *column = memory_allocate(sizeof *column);
    *column = (struct column_writer){file, path, position, bytes, 0, memory_allocate(BUFFER_BYTES), XXH3_createState()};
    if (column->hash == NULL)
        error_fatal("out of memory");
    XXH3_64bits_reset(column->hash);
    return column;
}

static int flush(struct column_writer *column)
{
    for (int64_t done = 0; done < column->used;) {
        ssize_t count = pwrite(column->file, column->buffer + done, (size_t)(column->used - done),
                               (off_t)(column->position + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_environment("%s: cannot write: %s", column->path, count < 0 ? strerror(errno) : "no space");
        done += count;
    }
    column->position += column->used;
    column->used = 0;
    return ERROR_NONE;
}

int column_put(struct column_writer *column, const void *data, int64_t bytes)
{
    CHECK_BUG(bytes <= column->bytes);
    XXH3_64bits_update(column->hash, data, (size_t)bytes);
    column->bytes -= bytes;
    for (const uint8_t *from = data; bytes > 0;) {
        int64_t left = BUFFER_BYTES - column->used, part = MIN(bytes, left);
        memcpy(column->buffer + column->used, from, (size_t)part);
        column->used += part;
        from += part;
        bytes -= part;
        int code = column->used == BUFFER_BYTES ? flush(column) : ERROR_NONE;
        if (code != ERROR_NONE)
            return code;
    }
    return ERROR_NONE;
}

int column_finish(struct column_writer *column, uint64_t *hash)
{
    CHECK_BUG(column->bytes == 0);
    *hash = XXH3_64bits_digest(column->hash);
    return flush(column);
}

void column_destroy(struct column_writer *column)
{
    if (column == NULL)
        return;
    memory_free(column->buffer);
    XXH3_freeState(column->hash);
    memory_free(column);
}
