/* Replacing a file: its new content is written under a temporary name in the same folder, which is then renamed. A kill
 * or a full disk leaves the file that was there before. file/draft.h does this for a stream. Local. */
#ifndef FILE_REPLACE_H
#define FILE_REPLACE_H

#include <stdbool.h>

/* All zero: none. */
struct file_replacement {
    char *path, *temporary; /* owned; the temporary name is that of file/temporary.h for one process */
};

/* Chooses the temporary name of `path`. From now on signals remove that file (file/temporary.h). Creates nothing. */
void replace_begin(struct file_replacement *replacement, const char *path);
/* Gives the temporary file, flushed and closed by the caller, the name `path`. durable: the new name is flushed to the
 * disk too. After a failure the replacement may still be discarded. ERROR_ENVIRONMENT. */
int replace_commit(struct file_replacement *replacement, bool durable);
/* Removes the temporary file. Does nothing without a replacement in flight. */
void replace_discard(struct file_replacement *replacement);

#endif
