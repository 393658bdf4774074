#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

char *disk_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL   ? memory_string(".")
           : slash == path ? memory_string("/")
                           : memory_format("%.*s", (int)(slash - path), path);
}

/* Makes a folder. Returns 0 if it exists afterwards, else the errno that says why not. */
static int make_one(const char *path)
{
    struct stat status;
    int failure = mkdir(path, 0777) == 0 ? 0 : errno;
    if (stat(path, &status) == 0)
        return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
    return failure;
}

int disk_make_folder(const char *folder, char **at)
{
    char *path = memory_string(folder);
    int failure = 0;
    for (char *slash = strchr(path + (path[0] != '\0'), '/'); slash != NULL && failure == 0;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        failure = make_one(path);
        if (failure == 0)
            *slash = '/';
    }
    if (failure == 0)
        failure = make_one(path);
    if (at != NULL)
        *at = memory_string(path);
    free(path);
    return failure;
}

int disk_missing(const char *folder)
{
    int count = 0;
    char *path = memory_string(folder);
    while (access(path, F_OK) != 0 && errno == ENOENT && strcmp(path, ".") != 0) {
        char *above = disk_folder(path);
        free(path);
        path = above;
        count++;
    }
    free(path);
    return count;
}

void disk_remove_empty(const char *folder, int count)
{
    char *path = memory_string(folder);
    for (int i = 0; i < count; i++) {
        rmdir(path); /* fails for a folder with content, and then for its parents */
        char *above = disk_folder(path);
        free(path);
        path = above;
    }
    free(path);
}

int disk_sync_folder(const char *path)
{
    char *folder = disk_folder(path);
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = ERROR_NONE;
    if (descriptor < 0 && errno != EACCES)
        code = error_environment("%s: cannot open the folder: %s", folder, strerror(errno));
    if (descriptor >= 0 && fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP)
        code = error_environment("%s: cannot flush the folder to the disk: %s", folder, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
    free(folder);
    return code;
}

void disk_remove_folder(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (listing == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        unlinkat(dirfd(listing), entry->d_name, 0);
    closedir(listing);
    rmdir(path);
}

void disk_remove_leftovers(const char *beginning, bool folders)
{
    char *folder = disk_folder(beginning);
    const char *slash = strrchr(beginning, '/'), *start = slash != NULL ? slash + 1 : beginning;
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        if (strncmp(entry->d_name, start, strlen(start)) != 0)
            continue;
        const char *rest = entry->d_name + strlen(start);
        if (rest[strspn(rest, "0123456789")] != '\0')
            continue;
        char *path = memory_format("%s/%s", folder, entry->d_name);
        if (folders)
            disk_remove_folder(path);
        else
            unlink(path);
        free(path);
    }
    if (listing != NULL)
        closedir(listing);
    free(folder);
}

bool disk_is_stream(const char *path)
{
    static const char *const open[] = {"/dev/std", "/dev/fd/", "/proc/self/fd/"};
    struct stat status;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (strncmp(path, open[i], strlen(open[i])) == 0)
            return true;
    return stat(path, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode));
}

int disk_check_output(const char *path, int how, const char *const inputs[], int64_t count)
{
    struct stat there, input;
    const size_t length = strlen(path);
    if (strcmp(path, "-") == 0)
        return error_user("-: this output cannot go to standard output; name a file (./- for a file named -)");
    if (length > 0 && path[length - 1] == '/')
        return error_user("%s: is a folder; name a file in it", path);
    if (stat(path, &there) != 0 || ((how & DISK_STREAM) != 0 && disk_is_stream(path)))
        return ERROR_NONE;
    if (!S_ISREG(there.st_mode) || disk_is_stream(path))
        return error_user("%s: exists and is not a regular file; choose another output", path);
    for (int64_t i = 0; i < count; i++)
        if (strcmp(inputs[i], "-") != 0 && stat(inputs[i], &input) == 0 && input.st_dev == there.st_dev &&
            input.st_ino == there.st_ino)
            return error_user("%s: is an input and the output; choose another output", path);
    if ((how & DISK_REPLACE) == 0 && there.st_size > 0)
        return error_user("%s: exists; name another output, or replace it with --force", path);
    return ERROR_NONE;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), rest = strlen(ending);
    return length >= rest && strcmp(text + length - rest, ending) == 0;
}

int disk_check_outside(const char *path, const char *folder, const char *ending)
{
    DIR *listing = opendir(folder);
    int code = ERROR_NONE;
    if (listing == NULL)
        return ERROR_NONE; /* the reader of the folder reports it */
    for (const struct dirent *entry; code == ERROR_NONE && (entry = readdir(listing)) != NULL;) {
        char *input = memory_format("%s/%s", folder, entry->d_name);
        if (!ends_with(input, ending))
            code = disk_check_output(path, DISK_REPLACE | DISK_STREAM, (const char *const *)&input, 1);
        free(input);
    }
    closedir(listing);
    return code;
}

bool disk_free(const char *folder, int64_t *bytes)
{
    struct statvfs status;
    char *path = memory_string(folder);
    int failed;
    while ((failed = statvfs(path, &status)) != 0 && errno == ENOENT && strcmp(path, ".") != 0) {
        char *above = disk_folder(path);
        free(path);
        path = above;
    }
    free(path);
    *bytes = failed == 0 ? (int64_t)status.f_bavail * (int64_t)status.f_frsize : 0;
    return failed == 0 && status.f_blocks > 0;
}
