#include "base/path.h"
#include "base/memory.h"

#include <stdlib.h>

char *path_home(const char *path)
{
    const char *home = getenv("HOME");
    if (path[0] != '~' || (path[1] != '/' && path[1] != '\0') || home == NULL || home[0] == '\0')
        return memory_string(path);
    return memory_format("%s%s", home, path + 1);
}
