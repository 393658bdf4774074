/* Makes, opens and reads safetensors files for tests. */
#ifndef TESTS_SAFETENSORS_FILES_H
#define TESTS_SAFETENSORS_FILES_H

#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "bridge/safetensors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static inline void write_file(const char *path, const void *data, int64_t bytes)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || write(file, data, (size_t)bytes) != bytes || close(file) != 0)
        error_fatal("%s: cannot write", path);
}

/* Writes a file: the correct header length, the header, and `data` bytes. */
static inline void write_model(const char *path, const char *header, int64_t data)
{
    uint64_t length = strlen(header);
    char *all = memory_allocate(8 + (int64_t)length + data);
    memcpy(all, &length, 8);
    memcpy(all + 8, header, length);
    write_file(path, all, 8 + (int64_t)length + data);
    memory_free(all);
}

/* Opens a file that must be valid. */
static inline struct safetensors *open_good(const char *where)
{
    struct safetensors *st;
    error_clear();
    if (safetensors_open(&st, where) != ERROR_NONE)
        error_fatal("%s", error_message());
    return st;
}

static inline void *read_whole(const struct safetensors *st, const struct safetensors_entry *entry)
{
    void *data = memory_grow(NULL, entry->bytes);
    CHECK(safetensors_read(st, entry, 0, entry->bytes, data) == ERROR_NONE);
    return data;
}

/* Returns the path of a file in a folder, valid until the fourth later call. */
static inline const char *in_folder(const char *folder, const char *name)
{
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

#endif
