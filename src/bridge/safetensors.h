/* Reads tensors in Hugging Face's safetensors format. One file:
 *   u64, little-endian     N, bytes of the header, at most 100,000,000
 *   N bytes                JSON object, UTF-8: name -> {"dtype", "shape", "data_offsets": [begin, end)}, padded with
 *                          spaces; "__metadata__" is an object of strings
 *   data                   little-endian, row-major; offsets count from here, and the tensors fill it without holes
 * A folder holds model.safetensors, or shards of whole tensors and model.safetensors.index.json, whose weight_map gives
 * each tensor's file. Nothing in a file is trusted; memory is needed for headers alone, never for data.
 * Source: github.com/huggingface/safetensors (README, "Format"); huggingface.co/docs, "Sharded checkpoints". */
#ifndef BRIDGE_SAFETENSORS_H
#define BRIDGE_SAFETENSORS_H

#include "bridge/safetensors_entry.h"

#define SAFETENSORS_SINGLE "model.safetensors"
#define SAFETENSORS_INDEX "model.safetensors.index.json"

struct safetensors_file;

struct safetensors {
    int64_t count;
    struct safetensors_entry *entries; /* [count], by name (strcmp) */
    struct safetensors_file *files;    /* [file_count] */
    int file_count;
    uint64_t digest; /* that the first file's __metadata__ tells; 0 = none */
};

/* Opens a file, or the model in a folder (a single file goes before an index, as in transformers), and checks all
 * headers whole. ERROR_USER: nothing to be opened there, or anything that is not as above; the message names file and
 * tensor. ERROR_ENVIRONMENT: cannot be read. *out is NULL after an error. Local. */
int safetensors_open(struct safetensors **out, const char *where);
void safetensors_close(struct safetensors *st);

/* The tensor of that name; NULL: there is none. */
const struct safetensors_entry *safetensors_find(const struct safetensors *st, const char *name);
/* Path of the file that an entry lies in, for messages. */
const char *safetensors_path(const struct safetensors *st, const struct safetensors_entry *entry);
/* Reads `bytes` bytes of the tensor from byte `offset` on into buffer; offset + bytes <= entry->bytes.
 * ERROR_ENVIRONMENT; ERROR_USER when the file has become shorter. */
int safetensors_read(const struct safetensors *st, const struct safetensors_entry *entry, int64_t offset, int64_t bytes,
                     void *buffer);

#endif
