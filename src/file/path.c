#include "file/path.h"
#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the user's home folder; NULL: none. */
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

/* Returns the bytes of the variable at `dollar`, "$NAME" or "${NAME}", and its name; 0 if there is no variable. */
static size_t variable_at(const char *dollar, const char **name, int *length)
{
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    const bool braces = dollar[1] == '{';
    *name = dollar + 1 + braces;
    *length = (int)strspn(*name, characters);
    if (*length == 0 || (**name >= '0' && **name <= '9') || (braces && (*name)[*length] != '}'))
        return 0;
    return (size_t)(1 + 2 * braces + *length);
}

char *path_expand(const char *path, char **unset)
{
    char *text = NULL, *home = path_home(path);
    size_t bytes = 0;
    FILE *out = memory_stream(&text, &bytes);
    if (unset != NULL)
        *unset = NULL;
    for (const char *at = home; *at != '\0';) {
        const char *name;
        int length;
        const size_t variable = *at == '$' ? variable_at(at, &name, &length) : 0;
        if (variable == 0) {
            fputc(*at, out);
            at += at[0] == '$' && at[1] == '$' ? 2 : 1;
            continue;
        }
        char *own = memory_format("%.*s", length, name);
        const char *value = getenv(own);
        if (value != NULL)
            fputs(value, out);
        else
            fwrite(at, 1, variable, out);
        if (value == NULL && unset != NULL && *unset == NULL)
            *unset = own;
        else
            free(own);
        at += variable;
    }
    memory_stream_end(out);
    free(home);
    return text;
}

char *path_literal(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_stream(&text, &bytes);
    for (const char *at = path; *at != '\0'; at++)
        fputs(*at == '$' ? "$$" : (char[]){*at, '\0'}, out);
    memory_stream_end(out);
    return text;
}

static _Thread_local char seen[PATH_MAX + 32], failure[sizeof seen + 128];

const char *path_seen_from(const char *path)
{
    char folder[PATH_MAX];
    seen[0] = '\0';
    if (path[0] != '/' && getcwd(folder, sizeof folder) != NULL)
        snprintf(seen, sizeof seen, " (seen from %s)", folder);
    return seen;
}

const char *path_failure(const char *path, int error)
{
    snprintf(failure, sizeof failure, "%s%s", strerror(error), error == ENOENT ? path_seen_from(path) : "");
    return failure;
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
