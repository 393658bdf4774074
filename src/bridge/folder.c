#include "bridge/folder.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/file.h"
#include "file/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_entry(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Returns the path without slashes at its end; freed with free(). */
static char *plain_path(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return memory_format("%.*s", (int)length, path);
}

static int check_place(const char *path)
{
    char *plain = plain_path(path);
    int code = file_check_place(plain);
    free(plain);
    return code;
}

struct folder_content {
    bool any, config, weights, folder;
};

static struct folder_content content_of(DIR *listing)
{
    struct folder_content has = {false};
    for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        struct stat status;
        const char *ending = strrchr(entry->d_name, '.');
        has.any = has.any || is_entry(entry->d_name);
        has.config = has.config || strcmp(entry->d_name, "config.json") == 0;
        has.weights = has.weights || (ending != NULL && strcmp(ending, ".safetensors") == 0);
        has.folder =
            has.folder ||
            (is_entry(entry->d_name) &&
             (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(status.st_mode)));
    }
    return has;
}

static bool is_link(const char *path)
{
    struct stat status;
    char *plain = plain_path(path);
    const bool link = lstat(plain, &status) == 0 && S_ISLNK(status.st_mode);
    free(plain);
    return link;
}

int folder_check(const char *path, bool replace)
{
    DIR *listing = opendir(path);
    if (listing == NULL && errno == ENOENT)
        return check_place(path);
    if (listing == NULL)
        return error_user("%s: cannot be written: %s", path, strerror(errno));
    const struct folder_content has = content_of(listing);
    closedir(listing);
    if (!has.any)
        return ERROR_NONE;
    if (is_link(path))
        return error_user("%s: is a link to a folder that is not empty; name a new folder", path);
    if (!has.config || !has.weights || has.folder)
        return error_user("%s: is not empty and not an earlier export; name a new folder", path);
    return replace ? ERROR_NONE
                   : error_user("%s: exists; name a new folder, or replace this export with --force", path);
}

int atomic_folder_open(struct atomic_folder *atomic, const char *path)
{
    char *real = realpath(path, NULL); /* a link to an empty folder remains a link */
    atomic->path = plain_path(real != NULL ? real : path);
    free(real);
    atomic->temporary = temporary_own(atomic->path);
    disk_remove_folder(atomic->temporary); /* left by a killed process of the same number */
    if (mkdir(atomic->temporary, 0777) == 0)
        return ERROR_NONE;
    int code = error_user("%s: cannot be created: %s", atomic->temporary, strerror(errno));
    free(atomic->path);
    free(atomic->temporary);
    return code;
}

/* Moves the temporary folder to its path. rename(2) alone replaces only empty folders. */
static int place(const struct atomic_folder *atomic)
{
    struct stat status;
    char *old = NULL;
    int code = ERROR_NONE;
    if (rmdir(atomic->path) != 0 && stat(atomic->path, &status) == 0) {
        old = memory_format("%s" TEMPORARY_OLD "%ld", atomic->path, (long)getpid());
        code = file_move(atomic->path, old);
    }
    if (code == ERROR_NONE)
        code = file_move(atomic->temporary, atomic->path);
    if (code == ERROR_NONE && old != NULL)
        disk_remove_folder(old);
    else if (old != NULL)
        rename(old, atomic->path); /* a failure is ignored: the reason is already recorded */
    free(old);
    return code;
}

int atomic_folder_close(struct atomic_folder *atomic, int code)
{
    if (code == ERROR_NONE)
        code = place(atomic);
    if (code != ERROR_NONE)
        disk_remove_folder(atomic->temporary);
    free(atomic->path);
    free(atomic->temporary);
    return code;
}
