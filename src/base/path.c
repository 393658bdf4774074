#include "base/path.h"
#include "base/memory.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL: the user has none. */
static const char *home_folder(void)
{
    const char *home = getenv("HOME");
    if (home != NULL && home[0] != '\0')
        return home;
    const struct passwd *user = getpwuid(getuid()); /* a batch system may start a job without $HOME */
    return user != NULL ? user->pw_dir : NULL;
}

char *path_home(const char *path)
{
    const bool is_home = path[0] == '~' && (path[1] == '/' || path[1] == '\0');
    const char *home = is_home ? home_folder() : NULL;
    return home != NULL ? memory_format("%s%s", home, path + 1) : memory_string(path);
}

char *path_stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *dot = strrchr(name, '.');
    return memory_format("%.*s", dot != NULL && dot > name ? (int)(dot - name) : (int)strlen(name), name);
}

const char *path_list_comma(const char *list)
{
    const char *comma = strchr(list, ',');
    while (comma != NULL && comma > list && comma[-1] == '\\')
        comma = strchr(comma + 1, ',');
    return comma;
}

char *path_list_item(const char *text, size_t length)
{
    char *item = memory_format("%.*s", (int)length, text), *to = item;
    for (const char *from = item; *from != '\0'; from++)
        if (from[0] != '\\' || from[1] != ',')
            *to++ = *from;
    *to = '\0';
    return item;
}

char *path_list_quote(const char *path)
{
    char *quoted = memory_grow(NULL, 2 * (int64_t)strlen(path) + 1), *to = quoted;
    for (; *path != '\0'; path++) {
        if (*path == ',')
            *to++ = '\\';
        *to++ = *path;
    }
    *to = '\0';
    return quoted;
}
