#include "base/available.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `key` in a file of lines "KEY NUMBER", or, without key, its first number. -1: there is none. */
static int64_t number_in(const char *folder, const char *file, const char *key)
{
    char *path = memory_format("%s/%s", folder, file), line[256], name[64];
    FILE *stream = fopen(path, "re");
    long long value, number = -1;
    free(path);
    while (stream != NULL && number < 0 && fgets(line, sizeof line, stream) != NULL) {
        const int found = key == NULL ? sscanf(line, "%lld", &value) : sscanf(line, "%63s %lld", name, &value) - 1;
        if (found == 1 && (key == NULL || strcmp(name, key) == 0))
            number = value;
    }
    if (stream != NULL)
        fclose(stream);
    return number;
}

/* Where a version of control groups says what memory a group may use and uses, and how much of that is pages of files,
 * which are given up where memory is wanted, as MemAvailable counts them. A line of /proc/self/cgroup, behind its
 * number, begins with `kind`, and goes on with the group's path. */
struct version {
    const char *kind, *folder, *limit, *used, *files[2];
};

static const struct version versions[] = {
    {":", "/sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}},
    {"memory:",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"}},
};

/* A group without limit leaves all there is. */
static int64_t left_by(const char *folder, const struct version *version)
{
    const int64_t limit = number_in(folder, version->limit, NULL), used = number_in(folder, version->used, NULL);
    int64_t left = limit - used;
    if (limit < 0 || used < 0)
        return INT64_MAX;
    for (int i = 0; i < 2; i++) {
        const int64_t bytes = number_in(folder, "memory.stat", version->files[i]);
        left += bytes > 0 ? bytes : 0;
    }
    return left > 1 ? left : 1;
}

/* The least that the group and those that it is in leave. Of a path that the process's mounts do not have, as in a
 * container, those of its ends that they have. */
static int64_t least_left(const char *root, const struct version *version, const char *group)
{
    int64_t least = INT64_MAX;
    char *folder = memory_format("%s%s%s", root, version->folder, group);
    const size_t top = strlen(root) + strlen(version->folder);
    while (strlen(folder) >= top) {
        const int64_t left = left_by(folder, version);
        least = left < least ? left : least;
        *strrchr(folder, '/') = '\0';
    }
    free(folder);
    return least;
}

int64_t available_memory(const char *root)
{
    char *folder = memory_format("%s/proc", root), *path = memory_format("%s/proc/self/cgroup", root), *line = NULL;
    const int64_t kibi = number_in(folder, "meminfo", "MemAvailable:");
    int64_t least = kibi > 0 ? kibi * 1024 : INT64_MAX;
    FILE *groups = fopen(path, "re");
    size_t room = 0;
    while (groups != NULL && getline(&line, &room, groups) >= 0) {
        const char *kind = strchr(line, ':');
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
            const size_t length = strlen(versions[i].kind);
            if (kind != NULL && strncmp(kind + 1, versions[i].kind, length) == 0) {
                const int64_t left = least_left(root, &versions[i], kind + 1 + length);
                least = left < least ? left : least;
            }
        }
    }
    if (groups != NULL)
        fclose(groups);
    free(line);
    free(path);
    free(folder);
    return least < INT64_MAX ? least : 0;
}
