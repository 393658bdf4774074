#include "base/available.h"
#include "base/memory.h"
#include "base/range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number after `key` in a file of lines "KEY NUMBER", or, without key, its first number; -1 if there is
 * none. */
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

/* A version of control groups, and where it reports a group's use of a resource. A line of /proc/self/cgroup has, after
 * its number, `kind` and the group's path below `folder`. left: returns what a group leaves, at least 1; INT64_MAX
 * without a limit. */
struct version {
    const char *kind, *folder;
    int64_t (*left)(const char *folder, const struct version *version);
    const char *limit, *used, *files[2]; /* files of a group; `files`: keys of its memory.stat */
};

/* Returns the bytes of memory that a group leaves. Page cache counts as free, as in MemAvailable, since the kernel
 * reclaims it. memory.stat is up to two seconds old: after a large file was removed, its page cache may exceed what the
 * group uses now. */
static int64_t memory_left(const char *folder, const struct version *version)
{
    const int64_t limit = number_in(folder, version->limit, NULL), used = number_in(folder, version->used, NULL);
    int64_t held = used; /* cannot be reclaimed */
    if (limit < 0 || used < 0)
        return INT64_MAX;
    for (int i = 0; i < 2; i++) {
        const int64_t bytes = number_in(folder, "memory.stat", version->files[i]);
        held -= bytes <= 0 ? 0 : bytes < held ? bytes : held;
    }
    return MAX(limit - held, 1);
}

/* Returns thousandths of a CPU: quota over period, both in microseconds. Version 2 has both in one file. */
static int64_t cpus_left(const char *folder, const struct version *version)
{
    const int64_t quota = number_in(folder, version->limit, NULL);
    int64_t period = version->used != NULL ? number_in(folder, version->used, NULL) : -1;
    if (version->used == NULL && quota > 0) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)quota);
        period = number_in(folder, version->limit, key);
    }
    if (quota <= 0 || period <= 0)
        return INT64_MAX;
    const int64_t left = quota > INT64_MAX / 1000 ? INT64_MAX : quota * 1000 / period;
    return MAX(left, 1);
}

static const struct version memory_versions[] = {
    {":", "/sys/fs/cgroup", memory_left, "memory.max", "memory.current", {"active_file", "inactive_file"}},
    {"memory:",
     "/sys/fs/cgroup/memory",
     memory_left,
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"}},
};
static const struct version cpu_versions[] = {
    {.kind = ":", .folder = "/sys/fs/cgroup", cpus_left, "cpu.max"},
    {.kind = "cpu,cpuacct:",
     .folder = "/sys/fs/cgroup/cpu,cpuacct",
     cpus_left,
     "cpu.cfs_quota_us",
     "cpu.cfs_period_us"},
    {.kind = "cpuacct,cpu:",
     .folder = "/sys/fs/cgroup/cpuacct,cpu",
     cpus_left,
     "cpu.cfs_quota_us",
     "cpu.cfs_period_us"},
    {.kind = "cpu:", .folder = "/sys/fs/cgroup/cpu", cpus_left, "cpu.cfs_quota_us", "cpu.cfs_period_us"},
};

/* Returns the minimum over the group and all groups around it. Folders of the path that do not exist, as in a
 * container, are skipped. */
static int64_t least_left(const char *root, const struct version *version, const char *group)
{
    int64_t least = INT64_MAX;
    char *folder = memory_format("%s%s%s", root, version->folder, group);
    const size_t top = strlen(root) + strlen(version->folder);
    while (strlen(folder) >= top) {
        const int64_t left = version->left(folder, version);
        least = MIN(left, least);
        *strrchr(folder, '/') = '\0';
    }
    free(folder);
    return least;
}

/* Returns the minimum over this process's groups; INT64_MAX without a limit. */
static int64_t groups_leave(const char *root, const struct version *versions, size_t count)
{
    char *path = memory_format("%s/proc/self/cgroup", root), *line = NULL;
    int64_t least = INT64_MAX;
    FILE *groups = fopen(path, "re");
    size_t capacity = 0;
    while (groups != NULL && getline(&line, &capacity, groups) >= 0) {
        const char *kind = strchr(line, ':');
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < count; i++) {
            const size_t length = strlen(versions[i].kind);
            if (kind != NULL && strncmp(kind + 1, versions[i].kind, length) == 0) {
                const int64_t left = least_left(root, &versions[i], kind + 1 + length);
                least = MIN(left, least);
            }
        }
    }
    if (groups != NULL)
        fclose(groups);
    free(line);
    free(path);
    return least;
}

int64_t available_memory(const char *root)
{
    char *folder = memory_format("%s/proc", root);
    const int64_t kibi = number_in(folder, "meminfo", "MemAvailable:"), all = kibi > 0 ? kibi * 1024 : INT64_MAX;
    const int64_t left = groups_leave(root, memory_versions, sizeof memory_versions / sizeof memory_versions[0]);
    free(folder);
    const int64_t least = MIN(left, all);
    return least < INT64_MAX ? least : 0;
}

double available_cpus(const char *root)
{
    const int64_t left = groups_leave(root, cpu_versions, sizeof cpu_versions / sizeof cpu_versions[0]);
    return left < INT64_MAX ? (double)left / 1000 : INFINITY;
}
