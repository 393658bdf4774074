/* Folders and file systems: durable names, removal of leftover files, checks of output paths, free space. */
#ifndef FILE_DISK_H
#define FILE_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the folder of a path; freed with free(). */
char *disk_folder(const char *path);
/* Makes a folder and its missing parent folders. Returns 0, or the errno of the failure; *at is then the folder that
 * could not be made (at may be NULL). The caller frees *at with free() in any case. */
int disk_make_folder(const char *folder, char **at);

/* Returns the number of folders that disk_make_folder would make. */
int disk_missing(const char *folder);
/* Removes a folder and its parents, `count` folders in all, as long as they are empty. */
void disk_remove_empty(const char *folder, int count);

/* Makes a new file name durable: flushes its folder to the disk. A folder that may not be read, or a file system that
 * cannot flush folders, is not an error. ERROR_ENVIRONMENT. */
int disk_sync_folder(const char *path);

/* Removes the files that killed programs left: those whose path is `beginning`, or `beginning` and a number. With
 * `folders`: the folders with such paths, with the files in them. Ignores failures. */
void disk_remove_leftovers(const char *beginning, bool folders);
/* Removes a folder with the files in it, and ignores failures. A folder that contains another folder stays. Does not
 * follow links. */
void disk_remove_folder(const char *path);

/* Returns whether the path is a device, a pipe, or an open stream of this process (/dev/stdout). Such an output is
 * written directly, without a temporary file. */
bool disk_is_stream(const char *path);
/* Kinds of outputs that disk_check_output allows; a mask. */
enum disk_output {
    DISK_REPLACE = 1, /* --force: the output may replace a file */
    DISK_STREAM = 2   /* the output may be a stream (disk_is_stream) */
};
/* Checks that a command may write its output at `path`: the rule of doc/errors.md, "What is replaced". how: a mask of
 * enum disk_output. ERROR_USER: there is a file with content and `how` lacks DISK_REPLACE; the file is one of
 * inputs[count], under any name ("-" in inputs is standard input); there is something other than a regular file; the
 * path is "-" or ends with "/". */
int disk_check_output(const char *path, int how, const char *const inputs[], int64_t count);
/* Checks that an output is not a file of a folder, except files with this ending, which are earlier outputs.
 * ERROR_USER. */
int disk_check_outside(const char *path, const char *folder, const char *ending);

/* Writes the bytes that this user may still write in a folder, or, if it does not exist, in its nearest existing
 * parent. Returns false if the file system does not report them. */
bool disk_free(const char *folder, int64_t *bytes);

#endif
