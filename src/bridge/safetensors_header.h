/* Reads the header of one safetensors file (bridge/safetensors.h). */
#ifndef BRIDGE_SAFETENSORS_HEADER_H
#define BRIDGE_SAFETENSORS_HEADER_H

#include "bridge/safetensors_entry.h"

#include <jansson.h>

struct safetensors_header {
    struct safetensors_entry *entries; /* [count]; the caller frees the array and the names with free(). file = 0 */
    int64_t count;
    uint64_t digest; /* 0 = none */
};

/* Reads and checks the header of an open file of file_bytes bytes. ERROR_USER, ERROR_ENVIRONMENT; after an error there
 * is nothing to free. */
int safetensors_header_read(struct safetensors_header *header, int descriptor, const char *path, int64_t file_bytes);

/* Parses bytes offset .. offset + bytes - 1 of a file as one JSON object; duplicate keys are an error. The caller owns
 * *object. ERROR_USER, ERROR_ENVIRONMENT. */
int safetensors_header_object(json_t **object, int descriptor, const char *path, int64_t offset, int64_t bytes);

enum { SAFETENSORS_PLAIN_BYTES = 256 };

/* Copies text from a file for use in a message: truncated, with control characters replaced by '?'. Returns out. */
const char *safetensors_header_plain(char out[SAFETENSORS_PLAIN_BYTES], const char *text);

#endif
