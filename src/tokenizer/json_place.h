/* Values of a JSON file that know where they stand, so that messages can say it. */
#ifndef TOKENIZER_JSON_PLACE_H
#define TOKENIZER_JSON_PLACE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpe_file;

/* A value: the file's object, or a member or an element of another one, which must stay where it is. */
struct json_place {
    const char *file;
    const json_t *value;         /* NULL: the member is not there */
    const struct json_place *of; /* NULL: the file's object */
    const char *name;            /* NULL for an element */
    size_t index;
};

/* Reads a JSON object or array without duplicate keys; NULL: error says why. An integer beyond 64 bits, such as the
 * model_max_length that transformers writes for "no limit", becomes a real number. */
json_t *place_load(const void *text, int64_t bytes, json_error_t *error);
/* Reads a file that is one JSON object without duplicate keys; *object is the caller's. ERROR_USER. */
int place_parse(json_t **object, const struct bpe_file *file);

struct json_place place_member(const struct json_place *of, const char *name);
struct json_place place_element(const struct json_place *of, size_t index);

/* Is it not there, or null? */
bool place_absent(const struct json_place *place);
/* Is it this string? */
bool place_is(const struct json_place *place, const char *text);
/* A member that is true or false; `otherwise` where it is absent. ERROR_USER: it is something else. */
int place_bool(bool *value, const struct json_place *of, const char *name, bool otherwise);

/* "<file>: <path>", such as "T: model.vocab"; a long one is cut short. */
enum { PLACE_TEXT = 512 };
void place_text(char out[PLACE_TEXT], const struct json_place *place);
/* Both return ERROR_USER: what is wrong there; the value is not offered, or missing: it must be <allowed>. */
int place_fault(const struct json_place *place, const char *format, ...) BASE_PRINTF(2, 3);
int place_refuse(const struct json_place *place, const char *allowed);

#endif
