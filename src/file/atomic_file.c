#include "file/atomic_file.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void forget(struct atomic_file *atomic)
{
    replace_discard(&atomic->target);
    free(atomic->target.path); /* set even if it is a stream */
    *atomic = (struct atomic_file){NULL};
}

int atomic_file_open(struct atomic_file *atomic, const char *path)
{
    replace_begin(&atomic->target, path);
    int descriptor = open_new(atomic->target.temporary);
    atomic->file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (atomic->file != NULL)
        return ERROR_NONE;
    char *folder = disk_folder(path);
    int code = error_user("%s: cannot be written: %s (folder %s)", path, open_failure(), folder);
    free(folder);
    forget(atomic);
    return code;
}

/* Opens streams with "a", so that a file to which the shell appends keeps its content. */
int atomic_file_open_output(struct atomic_file *atomic, const char *path)
{
    if (!disk_is_stream(path))
        return atomic_file_open(atomic, path);
    *atomic = (struct atomic_file){.target = {.path = memory_string(path)}, .file = fopen(path, "ae")};
    if (atomic->file != NULL)
        return ERROR_NONE;
    int code = error_user("%s: cannot be written: %s", path, strerror(errno));
    forget(atomic);
    return code;
}

static int cannot_write(const struct atomic_file *atomic, int failure)
{
    const struct file_replacement *target = &atomic->target;
    return error_environment("%s: cannot write it: %s", target->temporary != NULL ? target->temporary : target->path,
                             strerror(failure));
}

int atomic_file_flush(struct atomic_file *atomic)
{
    const bool good = fflush(atomic->file) == 0 && ferror(atomic->file) == 0 &&
                      (atomic->target.temporary == NULL || fsync(fileno(atomic->file)) == 0);
    return good ? ERROR_NONE : cannot_write(atomic, errno);
}

int atomic_file_close(struct atomic_file *atomic, int code)
{
    if (atomic->file == NULL)
        return code;
    if (code == ERROR_NONE)
        code = atomic_file_flush(atomic);
    /* some network file systems report a failed write only here */
    if (fclose(atomic->file) != 0 && code == ERROR_NONE)
        code = cannot_write(atomic, errno);
    if (code == ERROR_NONE && atomic->target.temporary != NULL)
        code = replace_commit(&atomic->target, true);
    forget(atomic);
    return code;
}
