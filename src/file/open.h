/* Opening files. What is read is a regular file: a pipe without a writer would hold the program for ever, and a device
 * may have no end. A file that this program names itself is never opened through a symbolic link. On
 * failure the result is -1 or NULL; errno is ENOENT where there is no such file, and open_failure() says why. */
#ifndef FILE_OPEN_H
#define FILE_OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A regular file for reading. */
int open_file(const char *path);
FILE *open_stream(const char *path);
/* A regular file that this program names itself, not through a symbolic link. flags: O_RDONLY, O_WRONLY or O_RDWR, and
 * O_APPEND, O_CREAT or O_TRUNC. */
int open_own(const char *path, int flags);
/* The same, of a file whose owner is this user, root, or whoever the program itself belongs to. */
int open_trusted(const char *path, int flags);
/* A new, empty file for writing and reading; what had the name is removed first. */
int open_new(const char *path);
/* Is the open file still the one of that name? Another program may have removed or replaced that. */
bool open_is_named(int descriptor, const char *path);
/* Bytes of an open regular file. */
int64_t open_size(int descriptor);

/* path_failure's words, "is no regular file", ...: of this thread's last failure. */
const char *open_failure(void);

#endif
