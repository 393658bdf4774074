/* The lock of an output folder, so that only one run at a time works in it: an open-file-description lock on
 * FOLDER/lock, which the kernel releases when the owner's process ends, for any reason. The file's text names the
 * owner. */
#ifndef CHECKPOINT_LOCK_H
#define CHECKPOINT_LOCK_H

#include "comm/comm.h"

#include <stdbool.h>

struct folder_lock {
    struct comm *world; /* borrowed */
    int descriptor;     /* rank 0: the open file; -1 on other ranks and after release */
    char *path;         /* rank 0: path of the lock; owned */
};

/* Acquires the lock. If its last owner was killed, takes it over with a message. If the file system has no locks, the
 * file's text decides: the lock is held if it names a living process of this host; otherwise it is taken over with a
 * warning. Collective. ERROR_USER: a live run has it (the message has host, process, job and start time), or a file
 * of that name is not a lock. ERROR_ENVIRONMENT. */
int lock_acquire(struct folder_lock *lock, struct comm *world, const char *folder);
/* Releases the lock, if it was acquired. leave_nothing: also removes the file if it is the only one in the folder.
 * Collective. */
void lock_release(struct folder_lock *lock, bool leave_nothing);

/* Returns whether a live program has the folder's lock. Does not acquire it, and needs no write permission. Local. */
bool lock_is_held(const char *folder);

#endif
