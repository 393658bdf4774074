/* Folders and file systems: durable names, removal of leftovers, output that would replace an input, free space. */
#ifndef FILE_DISK_H
#define FILE_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* The folder that a path lies in; freed with free(). */
char *disk_folder(const char *path);
/* Makes a folder and those above it, as far as they are missing. Returns 0, or the errno of the failure; *at (at may be
 * NULL) is then the folder that could not be made. The caller frees *at with free() in any case. */
int disk_make_folder(const char *folder, char **at);

/* How many folders disk_make_folder would make. */
int disk_missing(const char *folder);
/* Removes this folder and those above it, `count` in all, as far as they are empty. */
void disk_remove_empty(const char *folder, int count);

/* Makes a new file name durable: flushes the folder that it lies in. A folder that may not be read, or a file system
 * that cannot flush folders, is no error. Else ERROR_ENVIRONMENT. */
int disk_sync_folder(const char *path);

/* Removes the files whose paths begin with `beginning` and end there or with a number: what killed programs left. With
 * `folders`: the folders, with the files in them. Failures are ignored. */
void disk_remove_leavings(const char *beginning, bool folders);
/* Removes a folder with the files in it, and ignores failures. A folder that holds another folder stays. Links are not
 * followed. */
void disk_remove_folder(const char *path);

/* Does the path lead to a device or a pipe, or to a stream that this process has open (/dev/stdout)? Such an output is
 * written as it comes. */
bool disk_is_stream(const char *path);
/* What an output may be, or'ed. */
enum disk_output {
    DISK_REPLACE = 1, /* --force: it may replace a file */
    DISK_STREAM = 2   /* disk_is_stream will do */
};
/* Checks that a command may write its output at `path`: the rule of doc/errors.md, "What is replaced". `how`: of enum
 * disk_output. ERROR_USER: a file with content is there, and `how` lacks DISK_REPLACE; it is one of inputs[count], by
 * whatever name ("-" is no input); something else than a regular file is there; the path is "-" or ends with "/". */
int disk_check_output(const char *path, int how, const char *const inputs[], int64_t count);
/* Checks that an output is none of the files of a folder but those with this ending, which are earlier outputs.
 * ERROR_USER. */
int disk_check_outside(const char *path, const char *folder, const char *ending);

/* Bytes that this user may still write below a folder, or, where that is not there, below the next one above it; false
 * where the file system does not tell. */
bool disk_room(const char *folder, int64_t *bytes);

#endif
