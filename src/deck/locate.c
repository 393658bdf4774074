#include "deck/locate.h"
#include "base/memory.h"
#include "file/path.h"
#include "file/shipped.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *deck_folder(void)
{
    return shipped_folder("input");
}

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

char *deck_locate(const char *base, const char *name)
{
    const char *slash = strrchr(base, '/');
    char *path = path_home(name), *first = path;
    if (path[0] != '/' && slash != NULL) {
        first = memory_format("%.*s%s", (int)(slash + 1 - base), base, path);
        free(path);
    }
    if (strchr(name, '/') != NULL || is_file(first))
        return first;
    char *folder = deck_folder();
    char *others[] = {memory_format("%s.cfg", first), memory_format("%s/%s", folder, name),
                      memory_format("%s/%s.cfg", folder, name)};
    free(folder);
    char *found = NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (found == NULL && is_file(others[i]))
            found = others[i];
        else
            free(others[i]);
    if (found == NULL)
        return first;
    free(first);
    return found;
}
