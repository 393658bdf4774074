#include "checkpoint/lock.h"
#include "file/disk.h"
#include "file/run_folder.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/open.h"
#include "comm/launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OWNER_BYTES = 512, TRIES = 30 /* 0.1 s apart: a killed owner takes a moment to die */ };

/* Describes this process: "host H, process P, job J, since TIME". */
static void describe_self(char out[OWNER_BYTES])
{
    char host[128] = "?", since[64] = "?";
    const char *job = launcher_job();
    time_t now = time(NULL);
    struct tm local;
    gethostname(host, sizeof host - 1);
    if (localtime_r(&now, &local) != NULL)
        strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(out, OWNER_BYTES, "host %s, process %ld%s%.32s, since %s\n", host, (long)getpid(),
             job[0] != '\0' ? ", job " : "", job, since);
}

/* Reads the line in the file, "" if the lock was released. */
static void read_owner(int descriptor, char out[OWNER_BYTES])
{
    ssize_t bytes = pread(descriptor, out, OWNER_BYTES - 1, 0);
    out[MAX(bytes, 0)] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* Returns why fcntl failed. NFS passes on an errno of the kernel that strerror does not know. */
static const char *lock_failure(void)
{
    enum { KERNEL_NOT_SUPPORTED = 524 };
    return strerror(errno == KERNEL_NOT_SUPPORTED ? EOPNOTSUPP : errno);
}

/* Returns whether the owner is a living process of this host, for file systems without locks. */
static bool alive_here(const char *owner)
{
    char host[128] = "", theirs[128];
    long process;
    gethostname(host, sizeof host - 1);
    return sscanf(owner, "host %127[^,], process %ld", theirs, &process) == 2 && strcmp(host, theirs) == 0 &&
           process != (long)getpid() && (kill((pid_t)process, 0) == 0 || errno == EPERM);
}

static int held(const char *folder, const char *owner)
{
    return error_user(
        "key output.folder = \"%s\": another run uses it (%s); wait until that run ends, or choose another folder",
        folder, owner[0] != '\0' ? owner : "the lock does not name it");
}

/* Returns whether the file is a lock: empty, or only a line of describe_self. */
static bool is_own(int descriptor, const char *owner)
{
    char host[128];
    long process;
    return open_size(descriptor) == 0 || (open_size(descriptor) == (int64_t)strlen(owner) + 1 &&
                                          sscanf(owner, "host %127[^,], process %ld", host, &process) == 2);
}

/* Returns whether the lock is the only file in its folder. */
static bool is_alone(const char *path)
{
    int64_t entries = 0;
    char *folder = disk_folder(path);
    DIR *listing = opendir(folder);
    while (listing != NULL && readdir(listing) != NULL)
        entries++;
    if (listing != NULL)
        closedir(listing);
    free(folder);
    return entries == 3; /* "." and ".." */
}

static int acquire_lock(struct folder_lock *lock, const char *folder)
{
    const char *path = lock->path;
    char owner[OWNER_BYTES], self[OWNER_BYTES];
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int locked = -1;
    for (int i = 0; i < TRIES; i++) {
        if (i > 0) {
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
            close(lock->descriptor);
        }
        lock->descriptor = open_own(path, O_RDWR | O_CREAT);
        if (lock->descriptor < 0)
            return error_user("key output.folder = \"%s\": cannot be written: %s: %s", folder, path, open_failure());
        locked = fcntl(lock->descriptor, F_OFD_SETLK, &whole);
        if (locked == 0 ? open_is_named(lock->descriptor, path) : errno != EAGAIN && errno != EACCES)
            break;
    }
    const bool busy = locked != 0 && (errno == EAGAIN || errno == EACCES);
    const char *failure = lock_failure();
    read_owner(lock->descriptor, owner);
    if (!is_own(lock->descriptor, owner))
        return error_user("key output.folder = \"%s\": %s exists and is not the lock of a run; move it away, or choose "
                          "another folder",
                          folder, path);
    if (busy || (locked != 0 && alive_here(owner)))
        return held(folder, owner);
    if (locked != 0)
        log_warn("%s: cannot be locked (%s); make sure that no other run uses the folder", path, failure);
    if (owner[0] != '\0')
        log_info("# the last run in this folder was killed, or its machine failed (%s)", owner);
    describe_self(self);
    if (ftruncate(lock->descriptor, 0) != 0 || pwrite(lock->descriptor, self, strlen(self), 0) != (ssize_t)strlen(self))
        return error_environment("%s: cannot write it: %s", path, strerror(errno));
    return ERROR_NONE;
}

int lock_acquire(struct folder_lock *lock, struct comm *world, const char *folder)
{
    *lock = (struct folder_lock){.world = world, .descriptor = -1};
    int code = ERROR_NONE;
    if (world->rank == 0) {
        lock->path = memory_format("%s/" RUN_LOCK, folder);
        code = acquire_lock(lock, folder);
        if (code != ERROR_NONE && lock->descriptor >= 0) {
            close(lock->descriptor); /* the line names another owner */
            lock->descriptor = -1;
        }
    }
    return comm_agree(world, code);
}

void lock_release(struct folder_lock *lock, bool leave_nothing)
{
    if (lock->world == NULL)
        return;
    comm_barrier(lock->world); /* the other ranks have finished with the folder */
    if (lock->descriptor >= 0) {
        if (leave_nothing && is_alone(lock->path))
            unlink(lock->path);
        else if (ftruncate(lock->descriptor, 0) != 0)
            log_warn("the lock of the output folder could not be cleared: %s", strerror(errno));
        close(lock->descriptor);
        lock->descriptor = -1;
    }
    free(lock->path);
    lock->path = NULL;
}

bool lock_is_held(const char *folder)
{
    char owner[OWNER_BYTES], *path = memory_format("%s/" RUN_LOCK, folder);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int descriptor = open_own(path, O_RDONLY);
    free(path);
    if (descriptor < 0)
        return false;
    bool known = fcntl(descriptor, F_OFD_GETLK, &whole) == 0;
    read_owner(descriptor, owner);
    close(descriptor);
    return known ? whole.l_type != F_UNLCK : alive_here(owner);
}
