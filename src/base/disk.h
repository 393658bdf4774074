/* Folders and file systems: names that last, files that are one, room. */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* The folder that a path lies in; freed with free(). */
char *disk_folder(const char *path);
/* Makes a folder and those above it, as far as they are missing. 0, or the errno that says why there is none; *at (at
 * may be NULL) is then the one of them that there is not. Freed with free() in any case. */
int disk_make_folder(const char *folder, char **at);

/* Makes a new name last: flushes the folder that it lies in. A folder that may not be read, and a file system that
 * cannot flush folders, are let off. ERROR_ENVIRONMENT. */
int disk_sync_folder(const char *path);

/* Removes the files whose paths begin so: what killed programs left. With `folders`: the folders, with the files in
 * them. As far as that goes. */
void disk_remove_leavings(const char *beginning, bool folders);
/* A folder with the files in it, as far as that goes; a folder inside it stays, and it too. What a link leads to stays.
 */
void disk_remove_folder(const char *path);

/* May an output that is to be written under a temporary name and renamed replace what has its name? ERROR_USER: it is
 * no regular file, or one of the inputs by whatever name. "-" is no input. */
int disk_check_output(const char *path, const char *const inputs[], int64_t count);
/* The same where the input is a folder: all its files are, but for those with this ending, earlier outputs. */
int disk_check_outside(const char *path, const char *folder, const char *ending);

/* Bytes that this user may still write below a folder, or, where that is not there, below the next one above it; false
 * where the file system does not tell. */
bool disk_room(const char *folder, int64_t *bytes);

#endif
