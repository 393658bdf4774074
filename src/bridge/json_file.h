/* JSON files of a Hugging Face folder. */
#ifndef BRIDGE_JSON_FILE_H
#define BRIDGE_JSON_FILE_H

#include <jansson.h>

/* Reads a file that is one JSON object without duplicate keys; the caller owns *object. ERROR_USER: missing, no such
 * JSON; the message has path, line and reason. */
int json_file_read(json_t **object, const char *path);
/* Writes an object, which it takes over, with as many digits as its numbers need; under its name only when whole.
 * ERROR_USER: the folder cannot be written. ERROR_ENVIRONMENT. */
int json_file_write(json_t *object, const char *path);

#endif
