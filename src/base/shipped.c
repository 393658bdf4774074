#include "base/shipped.h"
#include "base/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `path` without its last `parts` parts, in place. */
static void cut(char *path, int parts)
{
    for (char *slash; parts > 0 && (slash = strrchr(path, '/')) != NULL; parts--)
        *slash = '\0';
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *shipped_folder(const char *name)
{
    static const char built[] = CISTRON_BUILD_FOLDER "/";
    char program[PATH_MAX + 1] = "";
    if (readlink("/proc/self/exe", program, PATH_MAX) > 0 && strncmp(program, built, strlen(built)) == 0)
        return memory_format("%s/%s", CISTRON_SOURCE_FOLDER, name);
    cut(program, 2);
    char *beside = memory_format("%s/share/cistron/%s", program, name);
    if (is_folder(beside))
        return beside;
    free(beside);
    return memory_format("%s/%s", CISTRON_INSTALLED_FOLDER, name);
}
