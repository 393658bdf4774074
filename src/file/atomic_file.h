/* Atomic writes: content goes to a temporary file in the same folder, which is renamed when it is complete. A kill or a
 * full disk leaves the previous file intact; signals that file/temporary.h catches leave no temporary file. */
#ifndef FILE_ATOMIC_FILE_H
#define FILE_ATOMIC_FILE_H

#include "file/replace.h"

#include <stdio.h>

struct atomic_file {
    struct file_replacement target; /* target.temporary is NULL for a stream */
    FILE *file;                     /* write to this file; NULL when none is open */
};

/* Opens a temporary file for `path`. Local. ERROR_USER: the folder cannot be written; then there is nothing to close.
 */
int atomic_file_open(struct atomic_file *atomic, const char *path);
/* As atomic_file_open, for an output that the user has named: a device or a pipe (disk_is_stream) is written directly.
 */
int atomic_file_open_output(struct atomic_file *atomic, const char *path);
/* Flushes the temporary file to the disk, without renaming it. ERROR_ENVIRONMENT. */
int atomic_file_flush(struct atomic_file *atomic);
/* Flushes the temporary file and renames it to its final name. If `code` is an error, or something could not be
 * written, removes it instead, and returns the error. Does nothing without an open file. ERROR_ENVIRONMENT. */
int atomic_file_close(struct atomic_file *atomic, int code);

#endif
