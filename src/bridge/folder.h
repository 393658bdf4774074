/* Folders that appear under their name when they are whole: a draft is filled beside it first. */
#ifndef BRIDGE_FOLDER_H
#define BRIDGE_FOLDER_H

struct folder_draft {
    char *path, *temporary; /* owned; "<path>.tmp-<process>" */
};

/* Is there nothing at path, or an empty folder? ERROR_USER: anything else, or its own folder cannot be written. */
int folder_check_free(const char *path);

/* Makes the folder draft->temporary, to be filled with files. ERROR_USER: it cannot be made; then there is nothing to
 * close. */
int folder_draft_open(struct folder_draft *draft, const char *path);
/* Renames the draft to its path. A folder that is already there is first moved aside and afterwards removed (if the
 * program is killed in between, it is left as "<path>.old-<process>"). After a failure (`code`, which is then returned)
 * the draft is removed with its files. ERROR_ENVIRONMENT. */
int folder_draft_close(struct folder_draft *draft, int code);

#endif
