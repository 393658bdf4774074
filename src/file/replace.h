/* Replacing a file atomically: the new content is written under a temporary name in the same folder, which is then
 * renamed. A kill or a full disk leaves the previous file intact. file/atomic_file.h does this for a stream. Local. */
#ifndef FILE_REPLACE_H
#define FILE_REPLACE_H

#include <stdbool.h>

/* All zero: no replacement. */
struct file_replacement {
    char *path, *temporary; /* owned; the temporary name is temporary_own's (file/temporary.h) */
};

/* Chooses the temporary name of `path`, and registers it for removal by signals (file/temporary.h). Creates nothing. */
void replace_begin(struct file_replacement *replacement, const char *path);
/* Renames the temporary file, which the caller has flushed and closed, to `path`. durable: also flushes the new name to
 * the disk. After a failure the replacement may still be discarded. ERROR_ENVIRONMENT. */
int replace_commit(struct file_replacement *replacement, bool durable);
/* Removes the temporary file. Does nothing without a replacement in flight. */
void replace_discard(struct file_replacement *replacement);

#endif
