/* Files that appear under their name when they are whole: a draft is written beside it first. A kill or a full disk
 * leaves the file that was there before; signals that file/temporary.h catches leave no draft. */
#ifndef FILE_DRAFT_H
#define FILE_DRAFT_H

#include "file/replace.h"

#include <stdio.h>

struct file_draft {
    struct file_replacement target; /* its temporary name is NULL of a stream */
    FILE *file;                     /* to write to; NULL when none is open */
};

/* Begins a draft of `path`. Local. ERROR_USER: the folder cannot be written; then there is nothing to close. */
int draft_open(struct file_draft *draft, const char *path);
/* As draft_open, of an output that the user has named: a device or a pipe (disk_is_stream) is written as it comes. */
int draft_open_output(struct file_draft *draft, const char *path);
/* Brings what was written to the disk, under the temporary name still. ERROR_ENVIRONMENT. */
int draft_flush(struct file_draft *draft);
/* Flushes it to the disk and gives it its name; after a failure (`code`, which is then returned) or when something
 * could not be written, removes it. Does nothing without an open draft. ERROR_ENVIRONMENT. */
int draft_close(struct file_draft *draft, int code);

#endif
