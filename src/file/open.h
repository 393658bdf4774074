/* Opening files. Only regular files are opened: a pipe without a writer would block for ever, and a device may have no
 * end. Files whose names this program chooses are never opened through a symbolic link. On failure the functions return
 * -1 or NULL; errno is ENOENT if there is no file, and open_failure() describes the reason. */
#ifndef FILE_OPEN_H
#define FILE_OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Open a regular file for reading. */
int open_file(const char *path);
FILE *open_stream(const char *path);
/* Opens a regular file whose name this program chose, not through a symbolic link. flags: O_RDONLY, O_WRONLY or O_RDWR,
 * and O_APPEND, O_CREAT or O_TRUNC. */
int open_own(const char *path, int flags);
/* As open_own; the file's owner must be this user, root, or the owner of the program itself. */
int open_trusted(const char *path, int flags);
/* Makes a new, empty file for writing and reading; removes an existing file of this name first. */
int open_new(const char *path);
/* Returns whether the path still names the open file, which another program may have removed or replaced. */
bool open_is_named(int descriptor, const char *path);
/* Returns the bytes of an open regular file. */
int64_t open_size(int descriptor);

/* Returns the reason of this thread's last failure, such as path_failure's text or "it is a link". */
const char *open_failure(void);

#endif
