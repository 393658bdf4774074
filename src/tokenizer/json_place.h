/* Values of a JSON file together with their path in it, for messages. */
#ifndef TOKENIZER_JSON_PLACE_H
#define TOKENIZER_JSON_PLACE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpe_file;

/* A value: the file's object, or a member or element of `of`, which must stay valid. */
struct json_place {
    const char *file;
    const json_t *value;         /* NULL: there is no such member */
    const struct json_place *of; /* NULL: the file's object */
    const char *name;            /* name of a member; NULL for an element */
    size_t index;
};

/* Reads a JSON object or array without duplicate keys; returns NULL and sets *error on failure. If an integer exceeds
 * 64 bits, such as model_max_length as transformers writes it for "no limit", it becomes a real number. */
json_t *place_load(const void *text, int64_t bytes, json_error_t *error);
/* Reads a file that is one JSON object without duplicate keys. The caller releases *object, NULL on failure.
 * ERROR_USER. */
int place_parse(json_t **object, const struct bpe_file *file);

struct json_place place_member(const struct json_place *of, const char *name);
struct json_place place_element(const struct json_place *of, size_t index);

/* Returns whether the value is missing or null. */
bool place_absent(const struct json_place *place);
/* Returns whether the value is this string. */
bool place_is(const struct json_place *place, const char *text);
/* Reads a boolean member; `otherwise` is the value if it is absent. ERROR_USER: not a boolean. */
int place_bool(bool *value, const struct json_place *of, const char *name, bool otherwise);

/* Writes "<file>: <path>", such as "T: model.vocab"; truncated if too long. */
enum { PLACE_TEXT = 512 };
void place_text(char out[PLACE_TEXT], const struct json_place *place);
/* Record an error at this place and return ERROR_USER. place_fault gives the message; place_refuse reports that the
 * value is missing or not supported, and must be <allowed>. */
int place_fault(const struct json_place *place, const char *format, ...) BASE_PRINTF(2, 3);
int place_refuse(const struct json_place *place, const char *allowed);

#endif
