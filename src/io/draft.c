#include "io/draft.h"
#include "base/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/open.h"
#include "base/temporary.h"
#include "io/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void forget(struct draft *draft)
{
    temporary_forget(draft->temporary);
    free(draft->path);
    free(draft->temporary);
    *draft = (struct draft){NULL};
}

int draft_open(struct draft *draft, const char *path)
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

static int cannot_write(const struct draft *draft, int failure)
{
    return error_environment("%s: cannot write it: %s", draft->temporary, strerror(failure));
}

int draft_flush(struct draft *draft)
{
    bool good = fflush(draft->file) == 0 && ferror(draft->file) == 0 && fsync(fileno(draft->file)) == 0;
    return good ? ERROR_NONE : cannot_write(draft, errno);
}

int draft_close(struct draft *draft, int code)
{
    if (draft->file == NULL)
        return code;
    if (code == ERROR_NONE)
        code = draft_flush(draft);
    /* some network file systems report a failed write no sooner than here */
    if (fclose(draft->file) != 0 && code == ERROR_NONE)
        code = cannot_write(draft, errno);
    if (code == ERROR_NONE)
        code = file_move(draft->temporary, draft->path);
    if (code != ERROR_NONE)
        unlink(draft->temporary);
    forget(draft);
    return code;
}
