#include "base/path.h"
#include "base/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *path_home(const char *path)
{
    const char *home = getenv("HOME");
    if (path[0] != '~' || (path[1] != '/' && path[1] != '\0') || home == NULL || home[0] == '\0')
        return memory_string(path);
    return memory_format("%s%s", home, path + 1);
}

char *path_stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *dot = strrchr(name, '.');
    return memory_format("%.*s", dot != NULL && dot > name ? (int)(dot - name) : (int)strlen(name), name);
}

bool path_is_built(void)
{
    static const char built[] = CISTRON_BUILD_FOLDER "/";
    char program[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program);
    return bytes > (ssize_t)strlen(built) && strncmp(program, built, strlen(built)) == 0;
}
