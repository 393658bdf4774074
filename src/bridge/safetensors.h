/* Reads tensors in Hugging Face's safetensors format. One file:
 *   u64, little-endian     N, bytes of the header, at most 100,000,000
 *   N bytes                JSON object, UTF-8: name -> {"dtype", "shape", "data_offsets": [begin, end)}, padded with
 *                          spaces; "__metadata__" is an object of strings
 *   data                   little-endian, row-major; offsets count from here, and the tensors fill it without holes
 * A folder holds either model.safetensors, or shards and model.safetensors.index.json. A shard holds whole tensors; the
 * index's weight_map gives each tensor's file. Nothing in a file is trusted. Only headers are kept in memory, no data.
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
    uint64_t digest; /* from the __metadata__ of the first file; 0 = none */
};

/* Opens a file, or the model in a folder, and checks all headers completely. In a folder with both, model.safetensors
 * is preferred to the index, as in transformers. ERROR_USER: there is nothing to open, or something breaks the format
 * above; the message names file and tensor. ERROR_ENVIRONMENT: cannot be read. *out is NULL after an error. Local. */
int safetensors_open(struct safetensors **out, const char *where);
void safetensors_close(struct safetensors *st);

/* The tensor of that name; NULL: there is none. */
const struct safetensors_entry *safetensors_find(const struct safetensors *st, const char *name);
/* Path of the file that holds the entry, for messages. */
const char *safetensors_path(const struct safetensors *st, const struct safetensors_entry *entry);
/* Reads `bytes` bytes of the tensor from byte `offset` on into buffer; offset + bytes <= entry->bytes.
 * ERROR_ENVIRONMENT: cannot be read; ERROR_USER: the file has become shorter since it was opened. */
int safetensors_read(const struct safetensors *st, const struct safetensors_entry *entry, int64_t offset, int64_t bytes,
                     void *buffer);

#endif
