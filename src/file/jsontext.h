/* Texts of any bytes (paths, headers of sequences) as JSON, which is UTF-8. */
#ifndef FILE_JSONTEXT_H
#define FILE_JSONTEXT_H

#include <jansson.h>
#include <stdint.h>

/* A JSON string of bytes[length]; where they are no UTF-8, each that is not ASCII becomes a '?'. The caller owns it. */
json_t *jsontext_create(const char *bytes, int64_t length);

#endif
