/* Writes a model into a folder in the safetensors format (bridge/safetensors.h): model.safetensors, or shards of whole
 * tensors and their index. All files are written under temporary names; commit renames them, the index last. A writer
 * that is destroyed before its commit, or whose commit fails, leaves no files of its own. */
#ifndef BRIDGE_SAFETENSORS_WRITER_H
#define BRIDGE_SAFETENSORS_WRITER_H

#include "bridge/safetensors.h"

struct safetensors_writer;

/* Lays out `count` tensors in an existing folder, in the order given. Only name, dtype, dims and shape of each are
 * read, and the array is not needed afterwards. A file holds at most shard_bytes bytes of data, or one larger tensor;
 * there are as many files as that takes. __metadata__ has "format": "pt", which transformers requires, and the digest
 * unless that is 0. ERROR_USER: two tensors have the same name, a name is not UTF-8 or is __metadata__, the folder
 * cannot be written. ERROR_ENVIRONMENT. *out is NULL after an error. Local. */
int safetensors_writer_create(struct safetensors_writer **out, const char *folder,
                              const struct safetensors_entry *tensors, int64_t count, int64_t shard_bytes,
                              uint64_t digest);
/* Writes bytes offset .. offset + bytes - 1 of tensor `tensor`, its index in safetensors_writer_create's array. Pieces
 * may come in any order; each byte is written once. ERROR_ENVIRONMENT: the disk is full, for example. */
int safetensors_writer_write(struct safetensors_writer *writer, int64_t tensor, int64_t offset, int64_t bytes,
                             const void *data);
/* Call it once all bytes are written. Renames the files to their final names. Also removes model.safetensors, the index
 * and the shards of an earlier model that were not overwritten, so that no reader mixes up the two models.
 * ERROR_ENVIRONMENT. */
int safetensors_writer_commit(struct safetensors_writer *writer);
void safetensors_writer_destroy(struct safetensors_writer *writer);

#endif
