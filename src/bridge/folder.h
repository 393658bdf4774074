/* Makes folders atomically: files are written to a temporary folder, which is renamed when it is complete. */
#ifndef BRIDGE_FOLDER_H
#define BRIDGE_FOLDER_H

#include <stdbool.h>

struct atomic_folder {
    char *path, *temporary; /* owned; "<path>.tmp-<process>" */
};

/* Checks that a new folder can get this path. Local. ERROR_USER: a folder with content exists and `replace` is false,
 * or it is not an export (it lacks config.json or *.safetensors, or contains a folder); the path is a link to a folder
 * with content, or a file; or it cannot be written. */
int folder_check(const char *path, bool replace);

/* Makes the folder atomic->temporary, which the caller fills with files. ERROR_USER: it cannot be made; then there is
 * nothing to close. */
int atomic_folder_open(struct atomic_folder *atomic, const char *path);
/* Renames the temporary folder to its path. An existing folder is first moved aside, and removed afterwards (a program
 * killed in between leaves it as "<path>.old-<process>"). code: the caller's result; an error removes the folder with
 * its files, and is returned. ERROR_ENVIRONMENT. */
int atomic_folder_close(struct atomic_folder *atomic, int code);

#endif
