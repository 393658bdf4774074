/* Folders that appear under their name when they are whole: a draft is filled beside it first. */
#ifndef BRIDGE_FOLDER_H
#define BRIDGE_FOLDER_H

#include <stdbool.h>

struct folder_draft {
    char *path, *temporary; /* owned; "<path>.tmp-<process>" */
};

/* May a new folder get this path? ERROR_USER: a folder with content is there, and not `replace`; with it, one that no
 * export has written (it lacks config.json or *.safetensors, or has a folder in it); a link to a folder with content;
 * something else; a place that cannot be written. */
int folder_check(const char *path, bool replace);

/* Makes the folder draft->temporary, to be filled with files. ERROR_USER: it cannot be made; then there is nothing to
 * close. */
int folder_draft_open(struct folder_draft *draft, const char *path);
/* Renames the draft to its path. A folder that is already there is first moved aside and afterwards removed (if the
 * program is killed in between, it is left as "<path>.old-<process>"). After a failure (`code`, which is then returned)
 * the draft is removed with its files. ERROR_ENVIRONMENT. */
int folder_draft_close(struct folder_draft *draft, int code);

#endif
