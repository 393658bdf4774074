/* Reads tensors in Hugging Face's safetensors format. A file is:
 *
 *    u64, little-endian     N, bytes of the header, at most 100,000,000
 *    N bytes                JSON object, UTF-8: name -> {"dtype", "shape", "data_offsets": [begin, end)}, padded with
 *                           spaces; "__metadata__" is an object of strings
 *    data                   little-endian, row-major; offsets count from here, and the tensors fill it without holes
 *
 * A folder has either model.safetensors, or shards and model.safetensors.index.json. A shard has whole tensors, and the
 * index's weight_map names each tensor's file. Headers are checked completely, and only headers are kept in memory.
 * Source: github.com/huggingface/safetensors (README, "Format"); huggingface.co/docs, "Sharded checkpoints". */
#ifndef BRIDGE_SAFETENSORS_H
#define BRIDGE_SAFETENSORS_H

#include "bridge/safetensors_entry.h"

#define SAFETENSORS_SINGLE "model.safetensors"
#define SAFETENSORS_INDEX "model.safetensors.index.json"

struct safetensors_file;

struct safetensors {
    int64_t count;
    struct safetensors_entry *entries; /* [count], sorted by name (strcmp) */
    struct safetensors_file *files;    /* [file_count] */
    int file_count;
    uint64_t digest; /* from __metadata__ of the first file; 0 = none */
};

/* Opens a file, or the model in a folder, and checks all headers completely. If a folder has both, model.safetensors is
 * preferred to the index, as in transformers. Local. *out is NULL after an error. ERROR_USER: there is nothing to open,
 * or a file violates the format; the message names file and tensor. ERROR_ENVIRONMENT: a file cannot be read. */
int safetensors_open(struct safetensors **out, const char *where);
void safetensors_close(struct safetensors *st);

/* Returns the tensor of that name; NULL: there is none. */
const struct safetensors_entry *safetensors_find(const struct safetensors *st, const char *name);
/* Returns the path of the entry's file, for messages. */
const char *safetensors_path(const struct safetensors *st, const struct safetensors_entry *entry);
/* Reads bytes offset .. offset + bytes - 1 of a tensor into buffer; offset + bytes <= entry->bytes. ERROR_ENVIRONMENT:
 * they cannot be read. ERROR_USER: the file has become shorter since it was opened. */
int safetensors_read(const struct safetensors *st, const struct safetensors_entry *entry, int64_t offset, int64_t bytes,
                     void *buffer);

#endif
