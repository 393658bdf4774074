#include "prepare/inputs.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/path.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Appends a path, which is owned by inputs then. */
static void add(struct prepare_inputs *inputs, char *path)
{
    inputs->paths = memory_grow(inputs->paths, (inputs->count + 1) * (int64_t)sizeof *inputs->paths);
    inputs->paths[inputs->count++] = path;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_there(const char *path)
{
    struct stat status;
    return strcmp(path, "-") == 0 || lstat(path, &status) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_folder(struct prepare_inputs *inputs, const char *path)
{
    const int64_t before = inputs->count;
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    struct dirent *entry;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return error_user("%s: cannot read the folder: %s", path, path_failure(path, errno));
    while ((entry = readdir(folder)) != NULL) {
        char *file = memory_format("%s%s%s", path, slash, entry->d_name);
        if (entry->d_name[0] == '.' || is_folder(file))
            free(file);
        else
            add(inputs, file);
    }
    closedir(folder);
    if (inputs->count == before)
        return error_user("%s: the folder has no files", path);
    qsort(inputs->paths + before, (size_t)(inputs->count - before), sizeof *inputs->paths, by_name);
    return ERROR_NONE;
}

static int add_pattern(struct prepare_inputs *inputs, const char *pattern)
{
    const int64_t before = inputs->count;
    glob_t found;
    int result = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (result != 0 && result != GLOB_NOMATCH)
        return error_user("%s: the folders that it names cannot be read", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!is_folder(found.gl_pathv[i]))
            add(inputs, memory_string(found.gl_pathv[i]));
    globfree(&found);
    if (inputs->count == before)
        return error_user("%s: no file matches%s", pattern, path_seen_from(pattern));
    qsort(inputs->paths + before, (size_t)(inputs->count - before), sizeof *inputs->paths, by_name);
    return ERROR_NONE;
}

int inputs_expand(struct prepare_inputs *inputs, const char *const given[], int64_t count)
{
    int code = ERROR_NONE;
    *inputs = (struct prepare_inputs){0};
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
        if (is_folder(given[i]))
            code = add_folder(inputs, given[i]);
        else if (!is_there(given[i]) && strpbrk(given[i], "*?[") != NULL)
            code = add_pattern(inputs, given[i]);
        else
            add(inputs, memory_string(given[i]));
    }
    return code;
}

void inputs_destroy(struct prepare_inputs *inputs)
{
    for (int64_t i = 0; i < inputs->count; i++)
        free(inputs->paths[i]);
    free(inputs->paths);
}
