#include "train/tuning_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/open.h"
#include "core/tuned_kernels.h"
#include "file/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Reads at most the bytes of a full table: a longer file is not a tuning file, whatever it begins with. */
static struct tuning_bytes read_open(int descriptor)
{
    struct tuning_bytes bytes = {memory_allocate(sizeof(struct tuning_table)), 0};
    ssize_t got;
    do {
        got = pread(descriptor, (char *)bytes.data + bytes.count, sizeof(struct tuning_table) - (size_t)bytes.count,
                    bytes.count);
        bytes.count += got > 0 ? got : 0;
    } while (got > 0);
    return bytes;
}

struct tuning_bytes tuning_file_read(const char *path)
{
    int descriptor = open_trusted(path, O_RDONLY);
    if (descriptor < 0) {
        if (errno != ENOENT)
            log_warn("tuning: %s: not read: %s", path, open_failure());
        return (struct tuning_bytes){NULL, 0};
    }
    struct tuning_bytes bytes = read_open(descriptor);
    close(descriptor);
    return bytes;
}

/* -- Adding ------------------------------------------------------------------------------------------------------ */

/* Waits for the lock for a limited time. A file system without locks is used without. */
static int wait_for_lock(int descriptor, const char *path)
{
    enum { TRIES = 1000 };
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (int i = 0; i < TRIES; i++) {
        if (fcntl(descriptor, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES))
            return ERROR_NONE;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return error_environment("%s: another program has had its lock for 10 s", path);
}

static int open_locked(int *descriptor, const char *path)
{
    for (;;) {
        *descriptor = open_trusted(path, O_RDWR | O_CREAT);
        if (*descriptor < 0)
            return error_user("%s: cannot be written: %s", path, open_failure());
        int code = wait_for_lock(*descriptor, path);
        if (code == ERROR_NONE && open_is_named(*descriptor, path))
            return ERROR_NONE;
        close(*descriptor);
        if (code != ERROR_NONE)
            return code;
    }
}

static int replace(const char *path, const void *data, int64_t bytes)
{
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    fwrite(data, 1, (size_t)bytes, atomic.file); /* an error is found at the flush */
    return atomic_file_close(&atomic, ERROR_NONE);
}

/* Writes the file: the tuned kernels, and the existing ones that they do not replace. */
static int write_both(const char *path, const struct tuning_bytes *there, const struct tuning_bytes *made)
{
    struct tuning_table *table = memory_allocate(sizeof *table);
    char identity[TUNING_IDENTITY_BYTES];
    int64_t bytes;
    tuning_table_identity(identity, made->data, made->count);
    tuning_table_create(table, identity);
    tuning_table_add(table, there->data, there->count);
    tuning_table_add(table, made->data, made->count);
    const void *all = tuning_table_bytes(table, &bytes);
    int code = replace(path, all, bytes);
    memory_free(table);
    return code;
}

int tuning_file_add(const char *path, const struct tuning_bytes *made)
{
    int descriptor, code = open_locked(&descriptor, path);
    if (code != ERROR_NONE)
        return code;
    struct tuning_bytes there = read_open(descriptor);
    if (tuning_table_begins(there.data, there.count))
        code = write_both(path, &there, made);
    else
        code = error_user("%s: is not a tuning file, and is left unchanged", path);
    memory_free(there.data);
    close(descriptor); /* releases the lock too */
    return code;
}
