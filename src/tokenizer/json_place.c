#include "tokenizer/json_place.h"
#include "tokenizer/bpe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_CAPACITY = 256 };

struct json_place place_member(const struct json_place *of, const char *name)
{
    return (struct json_place){of->file, json_object_get(of->value, name), of, name, 0};
}

struct json_place place_element(const struct json_place *of, size_t index)
{
    return (struct json_place){of->file, json_array_get(of->value, index), of, NULL, index};
}

/* Writes a path such as "model.vocab" or "added_tokens[3].id", truncated if too long. Returns `path`. */
static char *path_of(char path[PATH_CAPACITY], const struct json_place *place)
{
    path[0] = '\0';
    if (place->of == NULL)
        return path;
    size_t used = strlen(path_of(path, place->of));
    if (place->name == NULL)
        snprintf(path + used, PATH_CAPACITY - used, "[%zu]", place->index);
    else
        snprintf(path + used, PATH_CAPACITY - used, "%s%s", used == 0 ? "" : ".", place->name);
    return path;
}

void place_text(char out[PLACE_TEXT], const struct json_place *place)
{
    char path[PATH_CAPACITY];
    snprintf(out, PLACE_TEXT, "%s: %s", place->file, path_of(path, place));
}

int place_fault(const struct json_place *place, const char *format, ...)
{
    char path[PATH_CAPACITY], text[4 * PATH_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_user("%s: %s: %s", place->file, path_of(path, place), text);
}

int place_refuse(const struct json_place *place, const char *allowed)
{
    if (place->value == NULL)
        return place_fault(place, "is missing; must be %s", allowed);
    if (json_is_object(place->value) || json_is_array(place->value))
        return place_fault(place, "must be %s", allowed);
    char *value = json_dumps(place->value, JSON_ENCODE_ANY);
    int code = place_fault(place, "%.60s is not supported; must be %s", value == NULL ? "this" : value, allowed);
    free(value);
    return code;
}

bool place_absent(const struct json_place *place)
{
    return place->value == NULL || json_is_null(place->value);
}

int place_bool(bool *value, const struct json_place *of, const char *name, bool otherwise)
{
    struct json_place place = place_member(of, name);
    *value = place_absent(&place) ? otherwise : json_is_true(place.value);
    return place_absent(&place) || json_is_boolean(place.value) ? ERROR_NONE : place_refuse(&place, "true or false");
}

bool place_is(const struct json_place *place, const char *text)
{
    return json_is_string(place->value) && strcmp(json_string_value(place->value), text) == 0;
}

/* Converts real numbers back to integers if they have an integer value that a double represents exactly. */
static json_t *whole_numbers(json_t *value)
{
    enum { EXACT_BITS = 53 };
    size_t i;
    const char *name;
    json_t *member;
    if (json_is_array(value))
        json_array_foreach(value, i, member) json_array_set_new(value, i, whole_numbers(json_incref(member)));
    if (json_is_object(value))
        json_object_foreach(value, name, member) json_object_set_new(value, name, whole_numbers(json_incref(member)));
    const double real = json_is_real(value) ? json_real_value(value) : NAN;
    if (!(fabs(real) <= (double)(INT64_C(1) << EXACT_BITS)) || real != floor(real))
        return value;
    json_decref(value);
    return json_integer((json_int_t)real);
}

json_t *place_load(const void *text, int64_t bytes, json_error_t *error)
{
    json_t *value = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, error);
    if (value != NULL || json_error_code(error) != json_error_numeric_overflow)
        return value;
    value = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, error);
    return value == NULL ? NULL : whole_numbers(value);
}

int place_parse(json_t **object, const struct bpe_file *file)
{
    json_error_t error;
    *object = place_load(file->data, file->bytes, &error);
    if (*object == NULL)
        return error_user("%s:%d: is not JSON: %s", file->name, error.line, error.text);
    if (json_is_object(*object))
        return ERROR_NONE;
    json_decref(*object);
    *object = NULL;
    return error_user("%s: is JSON, but not an object", file->name);
}
