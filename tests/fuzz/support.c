#include "fuzz/fuzz.h"
#include "base/error.h"
#include "base/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool fuzz_hdf5_may_crash;
int64_t fuzz_accepted;

static char folder[256];
static pid_t owner;

static void remove_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (getpid() == owner && system(command) != 0)
        fprintf(stderr, "%s stays behind\n", folder);
}

void fuzz_begin(void)
{
    if (folder[0] != '\0')
        return;
    /* in memory, where that is to be had: the program flushes what it writes */
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/cistron-fuzz-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        error_fatal("cannot make a scratch folder %s", folder);
    owner = getpid();
    atexit(remove_folder);
    error_on_fatal(NULL, abort); /* no input may end the program, as one that asks for all memory would */
}

const char *fuzz_path(const char *name)
{
    static char paths[8][400];
    static int next;
    char *path = paths[next++ % 8];
    fuzz_begin();
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void fuzz_write(const char *path, const void *data, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0 || write(file, data, size) != (ssize_t)size || close(file) != 0)
        error_fatal("%s: cannot write", path);
}

void *fuzz_read(const char *path, size_t *size)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0)
        error_fatal("%s: cannot read", path);
    *size = (size_t)status.st_size;
    void *data = memory_grow(NULL, status.st_size);
    if (read(file, data, *size) != (ssize_t)*size)
        error_fatal("%s: cannot read", path);
    close(file);
    return data;
}

void fuzz_check(int good, const char *text)
{
    if (good)
        return;
    fprintf(stderr, "fuzz: does not hold: %s\n", text);
    abort();
}
