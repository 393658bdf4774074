/* A library to preload (LD_PRELOAD=shim.so) that makes storage slow, full or deadly on purpose, and writes down what a
 * program does there. It acts on calls of open, pread, pwrite, fsync, rename, unlink, close, fcntl's locks (lock) and
 * flock for paths at or below SHIM_FOLDER (an absolute path, as the program spells it); an fsync of that folder itself
 * counts as fsync_folder.
 * - SHIM_MATCH=TEXT: only paths that hold TEXT (rename: its source)
 * - SHIM_RANK=N: only the process whose OMPI_COMM_WORLD_RANK is N
 * - SHIM_DELAY=CALL:SECONDS: each such call sleeps first
 * - SHIM_KILL=CALL:N: SIGKILL to the process itself in place of its Nth such call
 * - SHIM_FAIL=CALL:N:ERROR[:COUNT]: its Nth such call and all later ones, or so many, fail; ERROR is ENOSPC, EIO,
 *   ENOLCK, EINVAL or a number
 * - SHIM_TRACE=FILE: appends "START END RANK CALL PATH" for each such call that was made; seconds, one clock for all
 *   processes
 * - SHIM_CLOCK=SECONDS: from its hundredth reading on, the clock of the day is so far ahead
 * - SHIM_STOP=1: SIGSTOP to the process itself when it calls MPI_Finalize
 * - SHIM_SLOW=SECONDS: sleeps so long before each parallel region, as a processor would that is slower than others */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096, PATH_BYTES = 1024 };

enum call {
    CALL_OPEN,
    CALL_PREAD,
    CALL_PWRITE,
    CALL_FSYNC,
    CALL_FSYNC_FOLDER,
    CALL_RENAME,
    CALL_UNLINK,
    CALL_CLOSE,
    CALL_LOCK,
    CALL_FLOCK,
    CALLS
};

static const char *const call_names[CALLS] = {"open",   "pread",  "pwrite", "fsync", "fsync_folder",
                                              "rename", "unlink", "close",  "lock",  "flock"};

static struct {
    const char *folder, *match, *rank, *trace;
    int delayed, deadly, failing; /* enum call; -1 = none */
    double delay, slow, ahead;    /* seconds */
    long deadly_count, failing_first, failing_count;
    int error;
    bool stops; /* at its end */
} set;

static long counts[CALLS];
static char *paths[DESCRIPTORS]; /* of the folder and of files below it that are open */
static char renamed[PATH_BYTES]; /* the source of the last rename */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Splits NAME:REST; returns the call, -1 without the variable. */
static int read_call(const char *variable, const char **rest)
{
    const char *text = getenv(variable), *colon = text == NULL ? NULL : strchr(text, ':');
    if (text == NULL)
        return -1;
    for (int i = 0; i < CALLS && colon != NULL; i++)
        if (strncmp(text, call_names[i], (size_t)(colon - text)) == 0 && call_names[i][colon - text] == '\0') {
            *rest = colon + 1;
            return i;
        }
    fprintf(stderr, "shim: %s=%s: no such call\n", variable, text);
    abort();
}

static void read_settings(void)
{
    const char *rest = "", *rank = getenv("OMPI_COMM_WORLD_RANK"), *only = getenv("SHIM_RANK");
    set.folder = getenv("SHIM_FOLDER");
    set.match = getenv("SHIM_MATCH");
    set.trace = getenv("SHIM_TRACE");
    set.rank = rank == NULL ? "0" : rank;
    set.delayed = read_call("SHIM_DELAY", &rest);
    set.delay = atof(rest);
    set.deadly = read_call("SHIM_KILL", &rest);
    set.deadly_count = atol(rest);
    set.failing = read_call("SHIM_FAIL", &rest);
    set.failing_first = atol(rest);
    set.failing_count = LONG_MAX;
    sscanf(rest, "%*[^:]:%*[^:]:%ld", &set.failing_count);
    const char *error = strchr(rest, ':');
    set.error = error != NULL && atoi(error + 1) > 0 ? atoi(error + 1)
                : strstr(rest, "ENOSPC") != NULL     ? ENOSPC
                : strstr(rest, "ENOLCK") != NULL     ? ENOLCK
                : strstr(rest, "EINVAL") != NULL     ? EINVAL
                                                     : EIO;
    set.stops = getenv("SHIM_STOP") != NULL;
    set.ahead = getenv("SHIM_CLOCK") != NULL ? atof(getenv("SHIM_CLOCK")) : 0;
    set.slow = getenv("SHIM_SLOW") != NULL ? atof(getenv("SHIM_SLOW")) : 0;
    if (only != NULL && strcmp(only, set.rank) != 0) {
        set.delayed = set.deadly = set.failing = -1;
        set.stops = false;
        set.ahead = 0;
        set.slow = 0;
    }
}

static void *real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        abort();
    return function;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_folder(const char *path)
{
    pthread_once(&once, read_settings);
    return set.folder != NULL && path != NULL && strcmp(path, set.folder) == 0;
}

static bool concerns(const char *path)
{
    pthread_once(&once, read_settings);
    if (set.folder == NULL || path == NULL)
        return false;
    size_t length = strlen(set.folder);
    return strncmp(path, set.folder, length) == 0 && path[length] == '/' &&
           (set.match == NULL || strstr(path, set.match) != NULL);
}

static void sleep_for(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))}, NULL);
}

/* Before a call that concerns us: false when it is to fail. */
static bool before(enum call call)
{
    pthread_mutex_lock(&lock);
    long count = ++counts[call];
    pthread_mutex_unlock(&lock);
    if ((int)call == set.delayed)
        sleep_for(set.delay);
    if ((int)call == set.deadly && count == set.deadly_count)
        kill(getpid(), SIGKILL);
    if ((int)call == set.failing && count >= set.failing_first && count - set.failing_first < set.failing_count) {
        errno = set.error;
        return false;
    }
    return true;
}

static void after(enum call call, const char *path, double start)
{
    if (set.trace == NULL)
        return;
    int error = errno;
    char line[PATH_BYTES + 128];
    int length = snprintf(line, sizeof line, "%.6f %.6f %s %s %s\n", start, now(), set.rank, call_names[call], path);
    int (*open_file)(const char *, int, ...), (*close_file)(int);
    *(void **)&open_file = real("open");
    *(void **)&close_file = real("close");
    int descriptor = open_file(set.trace, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (descriptor < 0 || write(descriptor, line, (size_t)length) != length)
        abort();
    close_file(descriptor);
    errno = error;
}

/* The path of an open file that concerns us, or of the folder, copied; false for any other. */
static bool path_of(int descriptor, char path[PATH_BYTES])
{
    bool found = false;
    pthread_mutex_lock(&lock);
    if (descriptor >= 0 && descriptor < DESCRIPTORS && paths[descriptor] != NULL) {
        snprintf(path, PATH_BYTES, "%s", paths[descriptor]);
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void remember(int descriptor, const char *path)
{
    if (descriptor < 0 || descriptor >= DESCRIPTORS)
        return;
    pthread_mutex_lock(&lock);
    free(paths[descriptor]);
    paths[descriptor] = path == NULL ? NULL : strdup(path);
    pthread_mutex_unlock(&lock);
}

/* -- What the program calls -------------------------------------------------------------------------------------- */

static int open_with(const char *name, const char *path, int flags, mode_t mode)
{
    int (*function)(const char *, int, ...);
    *(void **)&function = real(name);
    if (!concerns(path) && !is_folder(path))
        return function(path, flags, mode);
    double start = now();
    int descriptor = is_folder(path) || before(CALL_OPEN) ? function(path, flags, mode) : -1;
    remember(descriptor, path);
    if (!is_folder(path))
        after(CALL_OPEN, path, start);
    return descriptor;
}

#define OPEN(NAME)                                                                                                     \
    int NAME(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                                      \
        va_end(rest);                                                                                                  \
        return open_with(#NAME, path, flags, mode);                                                                    \
    }
OPEN(open)
OPEN(open64)

static ssize_t transfer(const char *name, enum call call, int descriptor, void *data, size_t bytes, off_t offset)
{
    ssize_t (*function)(int, void *, size_t, off_t);
    char path[PATH_BYTES];
    *(void **)&function = real(name);
    if (!path_of(descriptor, path))
        return function(descriptor, data, bytes, offset);
    double start = now();
    ssize_t moved = before(call) ? function(descriptor, data, bytes, offset) : -1;
    after(call, path, start);
    return moved;
}

#define TRANSFER(NAME, CALL, DATA)                                                                                     \
    ssize_t NAME(int descriptor, DATA data, size_t bytes, off_t offset)                                                \
    {                                                                                                                  \
        return transfer(#NAME, CALL, descriptor, (void *)data, bytes, offset);                                         \
    }
TRANSFER(pread, CALL_PREAD, void *)
TRANSFER(pread64, CALL_PREAD, void *)
TRANSFER(pwrite, CALL_PWRITE, const void *)
TRANSFER(pwrite64, CALL_PWRITE, const void *)

int fsync(int descriptor)
{
    int (*function)(int);
    char path[PATH_BYTES];
    *(void **)&function = real("fsync");
    if (!path_of(descriptor, path) || (is_folder(path) && !concerns(renamed)))
        return function(descriptor);
    enum call call = is_folder(path) ? CALL_FSYNC_FOLDER : CALL_FSYNC;
    double start = now();
    int result = before(call) ? function(descriptor) : -1;
    after(call, path, start);
    return result;
}

int close(int descriptor)
{
    int (*function)(int);
    char path[PATH_BYTES];
    *(void **)&function = real("close");
    if (!path_of(descriptor, path))
        return function(descriptor);
    remember(descriptor, NULL);
    if (is_folder(path))
        return function(descriptor);
    double start = now();
    bool allowed = before(CALL_CLOSE);
    int error = errno, result = function(descriptor); /* a close that fails closes too */
    if (!allowed)
        errno = error;
    after(CALL_CLOSE, path, start);
    return allowed ? result : -1;
}

int rename(const char *from, const char *to)
{
    int (*function)(const char *, const char *);
    *(void **)&function = real("rename");
    if (!concerns(from))
        return function(from, to);
    double start = now();
    snprintf(renamed, sizeof renamed, "%s", from);
    int result = before(CALL_RENAME) ? function(from, to) : -1;
    after(CALL_RENAME, from, start);
    return result;
}

int unlink(const char *path)
{
    int (*function)(const char *);
    *(void **)&function = real("unlink");
    if (!concerns(path))
        return function(path);
    double start = now();
    int result = before(CALL_UNLINK) ? function(path) : -1;
    after(CALL_UNLINK, path, start);
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    static atomic_long readings;
    int (*function)(clockid_t, struct timespec *);
    *(void **)&function = real("clock_gettime");
    const int result = function(clock, out);
    pthread_once(&once, read_settings);
    if (clock == CLOCK_REALTIME && result == 0 && set.ahead != 0 && atomic_fetch_add(&readings, 1) >= 100)
        out->tv_sec += (time_t)set.ahead;
    return result;
}

int MPI_Finalize(void)
{
    int (*function)(void);
    *(void **)&function = real("MPI_Finalize");
    pthread_once(&once, read_settings);
    if (set.stops)
        raise(SIGSTOP);
    return function();
}

void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags)
{
    void (*function)(void (*)(void *), void *, unsigned, unsigned);
    *(void **)&function = real("GOMP_parallel");
    pthread_once(&once, read_settings);
    if (set.slow > 0)
        sleep_for(set.slow);
    function(work, data, threads, flags);
}

static int fcntl_with(const char *name, int descriptor, int command, void *argument)
{
    int (*function)(int, int, ...);
    char path[PATH_BYTES];
    *(void **)&function = real(name);
    if (command != F_OFD_SETLK || !path_of(descriptor, path))
        return function(descriptor, command, argument);
    double start = now();
    int result = before(CALL_LOCK) ? function(descriptor, command, argument) : -1;
    after(CALL_LOCK, path, start);
    return result;
}

#define FCNTL(NAME)                                                                                                    \
    int NAME(int descriptor, int command, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, command);                                                                                       \
        void *argument = va_arg(rest, void *);                                                                         \
        va_end(rest);                                                                                                  \
        return fcntl_with(#NAME, descriptor, command, argument);                                                       \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

int flock(int descriptor, int operation)
{
    int (*function)(int, int);
    char path[PATH_BYTES];
    *(void **)&function = real("flock");
    if (!path_of(descriptor, path))
        return function(descriptor, operation);
    double start = now();
    int result = before(CALL_FLOCK) ? function(descriptor, operation) : -1;
    after(CALL_FLOCK, path, start);
    return result;
}
