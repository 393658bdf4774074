/* Reads and writes JSON files of a Hugging Face folder. */
#ifndef BRIDGE_JSON_FILE_H
#define BRIDGE_JSON_FILE_H

#include <jansson.h>

/* Reads a file of one JSON object without duplicate keys; the caller owns *object. Local. ERROR_USER: the file is
 * missing, too large, or not such an object; the message has path, line and reason. ERROR_ENVIRONMENT: it cannot be
 * read. */
int json_file_read(json_t **object, const char *path);
/* Writes an object atomically, with as many digits as its numbers need, and releases it. Local. ERROR_USER: the folder
 * cannot be written. ERROR_ENVIRONMENT. */
int json_file_write(json_t *object, const char *path);

#endif
