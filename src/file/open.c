#include "file/open.h"
#include "file/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local int reason;             /* an errno, or a reason of this file */
static _Thread_local char missing[PATH_MAX]; /* the path, if the reason is ENOENT */
enum { NOT_REGULAR = -1, A_LINK = -2, NOT_OWNED = -3 };

const char *open_failure(void)
{
    return reason == NOT_REGULAR ? "it is not a regular file"
           : reason == A_LINK    ? "it is a link"
           : reason == NOT_OWNED ? "it belongs to another user"
                                 : path_failure(missing, reason);
}

static int fail(int why)
{
    reason = why;
    errno = why > 0 ? why : EINVAL;
    return -1;
}

/* O_NONBLOCK: a pipe opens at once, and is then rejected. */
static int open_regular(const char *path, int flags)
{
    struct stat status;
    int descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (descriptor < 0 && errno == ENOENT) {
        snprintf(missing, sizeof missing, "%s", path);
        return fail(ENOENT);
    }
    if (descriptor < 0) /* ENXIO: a pipe without a reader, or a socket */
        return fail(errno == ENXIO ? NOT_REGULAR : errno == ELOOP && (flags & O_NOFOLLOW) != 0 ? A_LINK : errno);
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
        return descriptor;
    close(descriptor);
    return fail(S_ISDIR(status.st_mode) ? EISDIR : NOT_REGULAR);
}

int open_file(const char *path)
{
    return open_regular(path, O_RDONLY);
}

FILE *open_stream(const char *path)
{
    int descriptor = open_file(path);
    return descriptor < 0 ? NULL : fdopen(descriptor, "r");
}

int open_own(const char *path, int flags)
{
    return open_regular(path, flags | O_NOFOLLOW);
}

static bool is_trusted(uid_t owner)
{
    struct stat program;
    return owner == geteuid() || owner == 0 || (stat("/proc/self/exe", &program) == 0 && owner == program.st_uid);
}

int open_trusted(const char *path, int flags)
{
    struct stat status;
    int descriptor = open_own(path, flags);
    if (descriptor < 0 || (fstat(descriptor, &status) == 0 && is_trusted(status.st_uid)))
        return descriptor;
    close(descriptor);
    return fail(NOT_OWNED);
}

int open_new(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return fail(errno);
    return open_regular(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
}

bool open_is_named(int descriptor, const char *path)
{
    struct stat own, named;
    return fstat(descriptor, &own) == 0 && lstat(path, &named) == 0 && own.st_dev == named.st_dev &&
           own.st_ino == named.st_ino;
}

int64_t open_size(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 ? (int64_t)status.st_size : 0;
}
