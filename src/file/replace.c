#include "file/replace.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/file.h"
#include "file/temporary.h"

#include <stdlib.h>
#include <unistd.h>

static void forget(struct file_replacement *replacement)
{
    temporary_forget(replacement->temporary);
    free(replacement->path);
    free(replacement->temporary);
    *replacement = (struct file_replacement){NULL};
}

void replace_begin(struct file_replacement *replacement, const char *path)
{
    *replacement = (struct file_replacement){memory_string(path), temporary_own(path)};
    temporary_register(replacement->temporary);
}

int replace_commit(struct file_replacement *replacement, bool durable)
{
    const char *from = replacement->temporary, *to = replacement->path;
    const int code = durable ? file_move(from, to) : file_rename(from, to);
    if (code == ERROR_NONE)
        forget(replacement);
    return code;
}

void replace_discard(struct file_replacement *replacement)
{
    if (replacement->temporary == NULL)
        return;
    unlink(replacement->temporary);
    forget(replacement);
}
