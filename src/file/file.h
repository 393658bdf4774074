/* Files: whole reads and writes at an offset, and renames that last. Messages name the path and the system's reason. */
#ifndef FILE_FILE_H
#define FILE_FILE_H

#include <stdint.h>

/* All `bytes` at `offset`, however often the system stops in between. ERROR_ENVIRONMENT. */
int file_write(int descriptor, const char *path, const void *data, int64_t bytes, int64_t offset);
/* Bids the system put a range that was written on the disk now, while the program goes on; file_finish has less to wait
 * for then. A hint: it cannot fail. */
void file_start_flush(int descriptor, int64_t offset, int64_t bytes);
/* Reads all `bytes` at `offset`; a file that ends before is ERROR_USER. ERROR_ENVIRONMENT. */
int file_read(int descriptor, const char *path, void *data, int64_t bytes, int64_t offset);
/* Closes what was written, also after a failure (`code`), which is then returned. */
int file_close(int descriptor, const char *path, int code);
/* Flushes and closes what was written, also after a failure (`code`), which is then returned. */
int file_finish(int descriptor, const char *path, int code);
/* Can a new file get this path? ERROR_USER: its folder is not there or not to be written in, or it is a folder. */
int file_check_place(const char *path);
/* Renames inside a folder; a file of the new name is replaced. ERROR_ENVIRONMENT. */
int file_rename(const char *from, const char *to);
/* As file_rename, and flushes the new name to the disk. */
int file_move(const char *from, const char *to);
/* Unlinks; a file that is not there is fine. ERROR_ENVIRONMENT. */
int file_remove(const char *path);

#endif
