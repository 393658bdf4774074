/* Text of arbitrary bytes (paths, headers of sequences) as JSON, which is UTF-8. */
#ifndef FILE_JSONTEXT_H
#define FILE_JSONTEXT_H

#include <jansson.h>
#include <stdint.h>

/* Returns a JSON string of bytes[length], owned by the caller. If the text is not UTF-8, each non-ASCII byte becomes a
 * '?'. */
json_t *jsontext_create(const char *bytes, int64_t length);

#endif
