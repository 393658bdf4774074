/* Writes a model into a folder in the safetensors format (bridge/safetensors.h): model.safetensors, or shards of whole
 * tensors and their index. All files are written under temporary names; commit renames them, the index last. A writer
 * that is destroyed before its commit, or whose commit fails, removes its files. */
#ifndef BRIDGE_SAFETENSORS_WRITER_H
#define BRIDGE_SAFETENSORS_WRITER_H

#include "bridge/safetensors.h"

struct safetensors_writer;

/* Lays out `count` tensors, in this order, in an existing folder. Only name, dtype, dims and shape of `tensors` are
 * read, and the array is not needed afterwards. A file has at most shard_bytes bytes of data, or one larger tensor.
 * __metadata__ has "format": "pt", which transformers requires, and the digest unless that is 0. Local. *out is NULL
 * after an error. ERROR_USER: two tensors have the same name, a name is not UTF-8 or is __metadata__, or the folder
 * cannot be written. ERROR_ENVIRONMENT. */
int safetensors_writer_create(struct safetensors_writer **out, const char *folder,
                              const struct safetensors_entry *tensors, int64_t count, int64_t shard_bytes,
                              uint64_t digest);
/* Writes bytes offset .. offset + bytes - 1 of tensor number `tensor` in safetensors_writer_create's array. Pieces may
 * come in any order; each byte must be written exactly once. ERROR_ENVIRONMENT, such as a full disk. */
int safetensors_writer_write(struct safetensors_writer *writer, int64_t tensor, int64_t offset, int64_t bytes,
                             const void *data);
/* Renames the files to their final names; call it when all bytes are written. Also removes model.safetensors, the index
 * and the shards of an earlier model that were not overwritten, so that no reader mixes the two models.
 * ERROR_ENVIRONMENT. */
int safetensors_writer_commit(struct safetensors_writer *writer);
void safetensors_writer_destroy(struct safetensors_writer *writer);

#endif
