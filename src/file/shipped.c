#include "file/shipped.h"
#include "file/disk.h"
#include "base/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *shipped_folder(const char *name)
{
    static const char built[] = CISTRON_BUILD_FOLDER "/";
    char program[PATH_MAX + 1] = "/";
    if (readlink("/proc/self/exe", program, PATH_MAX) > 0 && strncmp(program, built, strlen(built)) == 0)
        return memory_format("%s/%s", CISTRON_SOURCE_FOLDER, name);
    char *bin = disk_folder(program), *prefix = disk_folder(bin);
    char *relative = memory_format("%s/share/cistron/%s", prefix, name);
    free(bin);
    free(prefix);
    if (is_folder(relative))
        return relative;
    free(relative);
    return memory_format("%s/%s", CISTRON_INSTALLED_FOLDER, name);
}
