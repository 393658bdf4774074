/* Carried tensors: tensors of an imported model that training does not change, such as ESM-2's contact head and
 * buffers. They pass through a run unread: an import puts them into its file, every checkpoint and final model of a run
 * that started from that file has them, and an export writes them unchanged. The end tokens of the model's
 * configuration are carried too.
 *
 * In a checkpoint: group /carried, absent if nothing is carried. Its attributes end_tokens and generation_end_tokens
 * are the ids of config.json and generation_config.json (integers; absent if there are none). Each tensor is a dataset
 * u8 [bytes] under its name, little-endian and row-major as in safetensors, with attributes dtype (text, as in
 * safetensors) and shape (integers; absent for a scalar). */
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
    CARRIED_MOST = 10000,         /* maximum number of tensors */
    CARRIED_MOST_BYTES = 64 << 20 /* maximum size of all tensors of a file, which are kept in memory */
};

struct carried_tensor {
    char *name;
    char dtype[CARRIED_DTYPE_BYTES]; /* "F32", "BF16", "I64", ... */
    int dims;                        /* 0: a scalar */
    int64_t shape[CARRIED_DIMS];
    int64_t bytes;
    void *data; /* [bytes] */
};

/* Carried tensors and end tokens; {0} is empty. Owns names and data. */
struct carried_files {
    int count;
    struct carried_tensor *tensors;
    struct model_ends ends;
};

/* Adds a tensor with the name, dtype and shape of `like`, and zeros as data, which the caller fills; like->data is not
 * read, the name is copied. origin: name of the file, for messages. Local. ERROR_USER, and nothing is added: HDF5
 * cannot have the name (empty, with '/', too long) or it exists already; dtype is unknown; bytes do not match shape and
 * dtype; CARRIED_MOST or CARRIED_MOST_BYTES is exceeded. */
int carried_add(struct carried_files *carried, const char *origin, const struct carried_tensor *like);
void carried_destroy(struct carried_files *carried);

/* Returns the bytes of all tensors. */
int64_t carried_bytes(const struct carried_files *carried);

/* Reads the carried tensors of a verified checkpoint; checks everything. Local. ERROR_USER: the file cannot be opened,
 * or a member or attribute of /carried is malformed. On error *carried is empty. */
int carried_read(const char *path, struct carried_files *carried);
/* Writes the group into a file that is being made, or nothing if *carried is empty. Returns false if HDF5 fails. */
bool carried_write(hid_t file, const struct carried_files *carried);

#endif
