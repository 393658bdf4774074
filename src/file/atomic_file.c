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

static void forget(struct file_draft *draft)
{
    replace_discard(&draft->target);
    free(draft->target.path); /* set even if it is a stream */
    *draft = (struct file_draft){NULL};
}

int draft_open(struct file_draft *draft, const char *path)
{
    replace_begin(&draft->target, path);
    int descriptor = open_new(draft->target.temporary);
    draft->file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (draft->file != NULL)
        return ERROR_NONE;
    char *folder = disk_folder(path);
    int code = error_user("%s: cannot be written: %s (folder %s)", path, open_failure(), folder);
    free(folder);
    forget(draft);
    return code;
}

/* Opens streams with "a", so that a file to which the shell appends keeps its content. */
int draft_open_output(struct file_draft *draft, const char *path)
{
    if (!disk_is_stream(path))
        return draft_open(draft, path);
    *draft = (struct file_draft){.target = {.path = memory_string(path)}, .file = fopen(path, "ae")};
    if (draft->file != NULL)
        return ERROR_NONE;
    int code = error_user("%s: cannot be written: %s", path, strerror(errno));
    forget(draft);
    return code;
}

static int cannot_write(const struct file_draft *draft, int failure)
{
    const struct file_replacement *target = &draft->target;
    return error_environment("%s: cannot write it: %s", target->temporary != NULL ? target->temporary : target->path,
                             strerror(failure));
}

int draft_flush(struct file_draft *draft)
{
    const bool good = fflush(draft->file) == 0 && ferror(draft->file) == 0 &&
                      (draft->target.temporary == NULL || fsync(fileno(draft->file)) == 0);
    return good ? ERROR_NONE : cannot_write(draft, errno);
}

int draft_close(struct file_draft *draft, int code)
{
    if (draft->file == NULL)
        return code;
    if (code == ERROR_NONE)
        code = draft_flush(draft);
    /* some network file systems report a failed write only here */
    if (fclose(draft->file) != 0 && code == ERROR_NONE)
        code = cannot_write(draft, errno);
    if (code == ERROR_NONE && draft->target.temporary != NULL)
        code = replace_commit(&draft->target, true);
    forget(draft);
    return code;
}
