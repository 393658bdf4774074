#include "deck/libconfig_file.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"

#include <locale.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

static int read_text(char **text, const char *path, const char *what)
{
    FILE *file = open_stream(path);
    if (file == NULL)
        return error_user("%s: %s", path, open_failure());
    *text = memory_allocate(MOST_BYTES + 1);
    const size_t bytes = fread(*text, 1, MOST_BYTES, file);
    const bool whole = feof(file) && !ferror(file);
    fclose(file);
    (*text)[bytes] = '\0';
    if (whole && strlen(*text) == bytes)
        return ERROR_NONE;
    memory_free(*text);
    return error_user("%s: is %s", path, what);
}

int libconfig_file_read(config_t *config, const char *path, const char *what)
{
    char *text = NULL;
    int code = read_text(&text, path, what);
    if (code != ERROR_NONE)
        return code;
    config_init(config);
    locale_t own = uselocale((locale_t)0);
    const bool parsed = config_read_string(config, text) == CONFIG_TRUE;
    uselocale(own); /* libconfig 1.5 leaves the thread with the global locale instead of the previous one */
    memory_free(text);
    if (parsed)
        return ERROR_NONE;
    code = error_user("%s:%d: %s: is damaged, or %s", path, config_error_line(config), config_error_text(config), what);
    config_destroy(config);
    return code;
}
