#include "bridge/json_file.h"
#include "base/error.h"
#include "file/open.h"
#include "base/memory.h"
#include "file/atomic_file.h"
#include "tokenizer/json_place.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

int json_file_read(json_t **object, const char *path)
{
    json_error_t error;
    *object = NULL;
    FILE *file = open_stream(path);
    if (file == NULL)
        return error_user("%s: cannot open it: %s", path, open_failure());
    const int64_t bytes = open_size(fileno(file));
    if (bytes > MOST_BYTES) {
        fclose(file);
        return error_user("%s: is larger than %d MiB, too large for a JSON file of a model", path, MOST_BYTES >> 20);
    }
    char *text = memory_grow(NULL, bytes + 1);
    const size_t got = fread(text, 1, (size_t)bytes, file);
    fclose(file);
    if (got == (size_t)bytes)
        *object = place_load(text, bytes, &error);
    free(text);
    if (got != (size_t)bytes)
        return error_environment("%s: cannot be read", path);
    if (*object == NULL)
        return error_user("%s:%d: is not JSON: %s", path, error.line, error.text);
    if (json_is_object(*object))
        return ERROR_NONE;
    json_decref(*object);
    *object = NULL;
    return error_user("%s: is JSON, but not an object", path);
}

/* Returns the shortest text that reads back as the same numbers; freed with free(). */
static char *dump(const json_t *object)
{
    enum { FEWEST = 15, MOST = 17 };
    char *text = NULL;
    for (size_t digits = FEWEST; digits <= MOST; digits++) {
        free(text);
        text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *back = text == NULL ? NULL : json_loads(text, 0, NULL);
        bool same = back != NULL && json_equal(back, object);
        json_decref(back);
        if (same)
            break;
    }
    if (text == NULL)
        error_fatal("out of memory for JSON");
    return text;
}

int json_file_write(json_t *object, const char *path)
{
    struct atomic_file atomic;
    char *text = dump(object);
    int code = atomic_file_open(&atomic, path);
    if (code == ERROR_NONE) {
        fprintf(atomic.file, "%s\n", text);
        code = atomic_file_close(&atomic, code);
    }
    free(text);
    json_decref(object);
    return code;
}
