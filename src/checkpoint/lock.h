/* The lock of an output folder: one live run in a folder at a time. It is an open-file-description lock on FOLDER/lock,
 * which the kernel drops when its owner dies, however it dies; the file says who the owner is. */
#ifndef CHECKPOINT_LOCK_H
#define CHECKPOINT_LOCK_H

#include "comm/comm.h"

#include <stdbool.h>

struct folder_lock {
    struct comm *world; /* borrowed */
    int descriptor;     /* rank 0's; -1 elsewhere and when released */
    char *path;         /* rank 0's, owned */
};

/* Takes the lock. If its last owner has died, it is taken over with a message. Where the file system has no locks, the
 * line in the file decides: a living process of this host keeps it; from any other it is taken over with a warning.
 * Collective. ERROR_USER: held by a living run, named by host, process, job and since when; a file of that
 * name that no lock was written to. ERROR_ENVIRONMENT. */
int lock_acquire(struct folder_lock *lock, struct comm *world, const char *folder);
/* Releases the lock, if it was taken. leave_nothing: removes the file too where the folder holds nothing else.
 * Collective. */
void lock_release(struct folder_lock *lock, bool leave_nothing);

/* Does a living program hold the folder's lock? Takes nothing, and needs no right to write there. */
bool lock_is_held(const char *folder);

#endif
