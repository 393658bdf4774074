/* One tensor of a safetensors file, as the header describes it (bridge/safetensors.h). */
#ifndef BRIDGE_SAFETENSORS_ENTRY_H
#define BRIDGE_SAFETENSORS_ENTRY_H

#include "checkpoint/safetensors_dtype.h"

enum { SAFETENSORS_MAX_DIMS = 8, SAFETENSORS_HEADER_BYTES = 100000000 /* the maximum */ };

#define SAFETENSORS_METADATA "__metadata__"
/* Key in __metadata__ of the digest of the training state (checkpoint_digest), as hexadecimal text. */
#define SAFETENSORS_DIGEST "cistron_digest"

struct safetensors_entry {
    char *name;
    enum safetensors_dtype dtype;
    int dims; /* 0: one element */
    int64_t shape[SAFETENSORS_MAX_DIMS];
    int64_t bytes;
    int64_t position; /* offset of the tensor's first byte in its file */
    int file;         /* index into struct safetensors.files */
};

#endif
