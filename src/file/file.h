/* Complete reads and writes at an offset, and durable renames. Messages name the path and the system's reason. */
#ifndef FILE_FILE_H
#define FILE_FILE_H

#include <stdint.h>

/* Writes all `bytes` at `offset`, continuing after partial writes. ERROR_ENVIRONMENT. */
int file_write(int descriptor, const char *path, const void *data, int64_t bytes, int64_t offset);
/* Starts writing a range back to the disk in the background, so that file_finish waits less. A hint: it cannot fail. */
void file_start_flush(int descriptor, int64_t offset, int64_t bytes);
/* Reads all `bytes` at `offset`. ERROR_USER: the file is shorter. ERROR_ENVIRONMENT. */
int file_read(int descriptor, const char *path, void *data, int64_t bytes, int64_t offset);
/* Closes a written file, also after a failure (`code`), which is then returned. ERROR_ENVIRONMENT. */
int file_close(int descriptor, const char *path, int code);
/* As file_close, but flushes the file to the disk first. ERROR_ENVIRONMENT. */
int file_finish(int descriptor, const char *path, int code);
/* Checks that a file can be created at this path. ERROR_USER: its folder does not exist or is not writable, or the path
 * is a folder. */
int file_check_place(const char *path);
/* Renames a file within a folder, and replaces a file of the new name. ERROR_ENVIRONMENT. */
int file_rename(const char *from, const char *to);
/* As file_rename, and flushes the new name to the disk. ERROR_ENVIRONMENT. */
int file_move(const char *from, const char *to);
/* Removes a file; a missing file is not an error. ERROR_ENVIRONMENT. */
int file_remove(const char *path);

#endif
