/* Folders and file systems: durable names, removal of leftovers, output that would replace an input, free space. */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* The folder that a path lies in; freed with free(). */
char *disk_folder(const char *path);
/* Makes a folder and those above it, as far as they are missing. Returns 0, or the errno of the failure; *at (at may be
 * NULL) is then the folder that could not be made. The caller frees *at with free() in any case. */
int disk_make_folder(const char *folder, char **at);

/* Makes a new file name durable: flushes the folder that it lies in. A folder that may not be read, or a file system
 * that cannot flush folders, is no error. Else ERROR_ENVIRONMENT. */
int disk_sync_folder(const char *path);

/* Removes the files whose paths begin with `beginning`: what killed programs left. With `folders`: the folders, with
 * the files in them. Failures are ignored. */
void disk_remove_leavings(const char *beginning, bool folders);
/* Removes a folder with the files in it, and ignores failures. A folder that holds another folder stays. Links are not
 * followed. */
void disk_remove_folder(const char *path);

/* Checks that an output, which will be written under a temporary name and renamed to `path`, may replace what is at
 * `path`. ERROR_USER: that is no regular file, or it is one of inputs[count], by whatever name ("-" is no input); or
 * the path is "-" or ends with "/". */
int disk_check_output(const char *path, const char *const inputs[], int64_t count);
/* The same where the inputs are all files of a folder but those with this ending, which are earlier outputs. */
int disk_check_outside(const char *path, const char *folder, const char *ending);

/* Bytes that this user may still write below a folder, or, where that is not there, below the next one above it; false
 * where the file system does not tell. */
bool disk_room(const char *folder, int64_t *bytes);

#endif
