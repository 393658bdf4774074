/* Tensors that a model came with and that training leaves alone: ESM-2's contact head, buffers. They pass through a
 * run unread: an import puts them into its file, every checkpoint and final model of a run that started from that file
 * holds them again, and an export writes them out as they were.
 *
 * The end tokens of its configuration are carried in the same way.
 *
 * In a checkpoint: group /carried, absent without any; its attributes end_tokens and generation_end_tokens are the ids
 * of config.json and generation_config.json (integers; absent without any); of each tensor a dataset u8 [bytes] under
 * its name, little-endian and row-major as safetensors has it, with attributes dtype (text, as safetensors spells it)
 * and shape (integers; absent for a single number without dimensions). */
#ifndef CHECKPOINT_CARRIED_H
#define CHECKPOINT_CARRIED_H

#include "tokenizer/end_tokens.h"

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CARRIED_DIMS = 8,
    CARRIED_DTYPE_BYTES = 8,
    CARRIED_NAME_BYTES = 256,
    CARRIED_MOST = 10000,         /* tensors */
    CARRIED_MOST_BYTES = 64 << 20 /* of all tensors of a file, which are held in memory */
};

struct carried_tensor {
    char *name;
    char dtype[CARRIED_DTYPE_BYTES]; /* "F32", "BF16", "I64", ... */
    int dims;                        /* 0: one number */
    int64_t shape[CARRIED_DIMS];
    int64_t bytes;
    void *data; /* [bytes] */
};

/* {0} holds none. Owns names and data. */
struct carried_files {
    int count;
    struct carried_tensor *tensors;
    struct model_ends ends;
};

/* Adds a tensor like `like`, with a copy of its name and with data that is allocated, zero and the caller's to fill;
 * like->data is not read. `origin` names the file in messages. ERROR_USER, and nothing is added: a name that HDF5
 * cannot have (empty, with '/', too long, taken), an unknown dtype, bytes that shape and dtype do not make, more than
 * CARRIED_MOST_BYTES in all; one more than CARRIED_MOST. */
int carried_add(struct carried_files *carried, const char *origin, const struct carried_tensor *like);
void carried_destroy(struct carried_files *carried);

/* Bytes of all tensors. */
int64_t carried_bytes(const struct carried_files *carried);

/* Reads those of a verified checkpoint; nothing in the file is trusted. Local. ERROR_USER: the file cannot be opened, a
 * member or attribute of /carried is not as above. On error *carried holds nothing. */
int carried_read(const char *path, struct carried_files *carried);
/* Writes the group into a file that is being made; nothing where nothing is carried. false when HDF5 fails. */
bool carried_write(hid_t file, const struct carried_files *carried);

#endif
