#include "file/draft.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/temporary.h"
#include "file/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void forget(struct file_draft *draft)
{
    if (draft->temporary != NULL)
        temporary_forget(draft->temporary);
    free(draft->path);
    free(draft->temporary);
    *draft = (struct file_draft){NULL};
}

int draft_open(struct file_draft *draft, const char *path)
{
    draft->path = memory_string(path);
    draft->temporary = memory_format("%s.tmp-%ld", path, (long)getpid());
    temporary_register(draft->temporary);
    int descriptor = open_new(draft->temporary);
    draft->file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (draft->file != NULL)
        return ERROR_NONE;
    char *folder = disk_folder(path);
    int code = error_user("%s: cannot be written: %s (folder %s)", path, open_failure(), folder);
    free(folder);
    forget(draft);
    return code;
}

/* "a": where a shell has the stream append to a file, what that holds stays. */
int draft_open_output(struct file_draft *draft, const char *path)
{
    if (!disk_is_stream(path))
        return draft_open(draft, path);
    *draft = (struct file_draft){.path = memory_string(path), .file = fopen(path, "ae")};
    if (draft->file != NULL)
        return ERROR_NONE;
    int code = error_user("%s: cannot be written: %s", path, strerror(errno));
    forget(draft);
    return code;
}

static int cannot_write(const struct file_draft *draft, int failure)
{
    return error_environment("%s: cannot write it: %s", draft->temporary != NULL ? draft->temporary : draft->path,
                             strerror(failure));
}

int draft_flush(struct file_draft *draft)
{
    const bool good = fflush(draft->file) == 0 && ferror(draft->file) == 0 &&
                      (draft->temporary == NULL || fsync(fileno(draft->file)) == 0);
    return good ? ERROR_NONE : cannot_write(draft, errno);
}

int draft_close(struct file_draft *draft, int code)
{
    if (draft->file == NULL)
        return code;
    if (code == ERROR_NONE)
        code = draft_flush(draft);
    /* some network file systems report a failed write no sooner than here */
    if (fclose(draft->file) != 0 && code == ERROR_NONE)
        code = cannot_write(draft, errno);
    if (code == ERROR_NONE && draft->temporary != NULL)
        code = file_move(draft->temporary, draft->path);
    if (code != ERROR_NONE && draft->temporary != NULL)
        unlink(draft->temporary);
    forget(draft);
    return code;
}
