#include "deck/locate.h"
#include "base/memory.h"
#include "base/path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *deck_folder(void)
{
    return path_is_built() ? CISTRON_SOURCE_DECKS : CISTRON_DECKS;
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
    char *others[] = {memory_format("%s.cfg", first), memory_format("%s/%s", deck_folder(), name),
                      memory_format("%s/%s.cfg", deck_folder(), name)};
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
