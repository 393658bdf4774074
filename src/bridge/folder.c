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

int folder_draft_open(struct folder_draft *draft, const char *path)
{
    char *real = realpath(path, NULL); /* a link to an empty folder remains a link */
    draft->path = plain_path(real != NULL ? real : path);
    free(real);
    draft->temporary = temporary_own(draft->path);
    disk_remove_folder(draft->temporary); /* left by a killed process of the same number */
    if (mkdir(draft->temporary, 0777) == 0)
        return ERROR_NONE;
    int code = error_user("%s: cannot be created: %s", draft->temporary, strerror(errno));
    free(draft->path);
    free(draft->temporary);
    return code;
}

/* Moves the draft to its path. rename(2) alone replaces only empty folders. */
static int place(const struct folder_draft *draft)
{
    struct stat status;
    char *old = NULL;
    int code = ERROR_NONE;
    if (rmdir(draft->path) != 0 && stat(draft->path, &status) == 0) {
        old = memory_format("%s" TEMPORARY_OLD "%ld", draft->path, (long)getpid());
        code = file_move(draft->path, old);
    }
    if (code == ERROR_NONE)
        code = file_move(draft->temporary, draft->path);
    if (code == ERROR_NONE && old != NULL)
        disk_remove_folder(old);
    else if (old != NULL)
        rename(old, draft->path); /* a failure is ignored: the reason is already recorded */
    free(old);
    return code;
}

int folder_draft_close(struct folder_draft *draft, int code)
{
    if (code == ERROR_NONE)
        code = place(draft);
    if (code != ERROR_NONE)
        disk_remove_folder(draft->temporary);
    free(draft->path);
    free(draft->temporary);
    return code;
}
