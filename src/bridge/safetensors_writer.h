/* Writes a folder's model in the safetensors format (bridge/safetensors.h): model.safetensors, or shards of whole
 * tensors and their index. Everything is written under temporary names and renamed by commit, the index last; a writer
 * destroyed before, or whose commit failed, leaves nothing. */
#ifndef BRIDGE_SAFETENSORS_WRITER_H
#define BRIDGE_SAFETENSORS_WRITER_H

#include "bridge/safetensors.h"

struct safetensors_writer;

/* Lays out `count` tensors in a folder that is there, from name, dtype, dims and shape of each (the rest is not looked
 * at, nothing is kept): in the order given, as many files as it takes for none to hold more than shard_bytes bytes of
 * data, or one tensor that is larger. __metadata__ has "format": "pt", which transformers asks for, and the digest
 * unless that is 0. ERROR_USER: two tensors of one name, a name that is no UTF-8 or __metadata__, the folder cannot be
 * written. ERROR_ENVIRONMENT. *out is NULL after an error. Local. */
int safetensors_writer_create(struct safetensors_writer **out, const char *folder,
                              const struct safetensors_entry *tensors, int64_t count, int64_t shard_bytes,
                              uint64_t digest);
/* Writes bytes offset .. offset + bytes - 1 of tensor number `tensor` as it stood in the array. Pieces come in any
 * order, each byte once. ERROR_ENVIRONMENT: the disk is full, for one. */
int safetensors_writer_write(struct safetensors_writer *writer, int64_t tensor, int64_t offset, int64_t bytes,
                             const void *data);
/* After the last byte of the last tensor: puts the files in their places and removes model.safetensors, index and
 * shards of an earlier model that are not overwritten, so that no reader takes one for the other. ERROR_ENVIRONMENT. */
int safetensors_writer_commit(struct safetensors_writer *writer);
void safetensors_writer_destroy(struct safetensors_writer *writer);

#endif
