/* One tensor of a safetensors file, as its header tells of it (bridge/safetensors.h). */
#ifndef BRIDGE_SAFETENSORS_ENTRY_H
#define BRIDGE_SAFETENSORS_ENTRY_H

#include "io/safetensors_dtype.h"

enum { SAFETENSORS_MAX_DIMS = 8, SAFETENSORS_HEADER_BYTES = 100000000 /* the most */ };

#define SAFETENSORS_METADATA "__metadata__"
/* In it, as hexadecimal text: the digest of the training's state (io/checkpoint.h). */
#define SAFETENSORS_DIGEST "cistron_digest"

struct safetensors_entry {
    char *name;
    enum safetensors_dtype dtype;
    int dims; /* 0: one element */
    int64_t shape[SAFETENSORS_MAX_DIMS];
    int64_t bytes;
    int64_t position; /* of the first byte in its file */
    int file;         /* number of its file */
};

#endif
