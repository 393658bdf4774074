/* How the tensors of a folder hold a model's parameters. Hugging Face's classes have a tensor for each. Those of
 * BioNeMo's recipes are made of TransformerEngine's layers, whose tensors hold several: q, k and v of a group of heads
 * below each other, group after group; gate above up. Norms belong to the linear layer behind them there, and what has
 * a row for each token may have more, which nothing reads.
 * What a family's tensors are called is in its file (architecture/family.h); the layers' packing is here.
 * Source: TransformerEngine's documentation, TransformerLayer (fuse_qkv_params, qkv_weight_interleaved); BioNeMo's
 * recipes llama3_native_te and esm2_native_te, its model AMPLIFY. */
#ifndef BRIDGE_DIALECT_H
#define BRIDGE_DIALECT_H

#include "bridge/safetensors.h"
#include "architecture/settings.h"
#include "model/parameter.h"

/* Where a parameter is. Of a vector each element is a row. Row r is row first + r / block * apart + r % block of the
 * tensor. */
struct dialect_place {
    char name[128]; /* of the tensor */
    int dims;
    int64_t shape[2];
    int64_t width; /* elements of a row */
    int64_t first, block, apart;
};

/* By the names of a folder's tensors. */
enum checkpoint_dialect dialect_of(const struct safetensors *st);

/* token_rows: of the tensors that have a row for each token; the vocabulary or more, and that in DIALECT_HF. */
void dialect_place(struct dialect_place *place, enum checkpoint_dialect dialect, const struct model_settings *settings,
                   int64_t token_rows, const struct parameter *parameter);

/* Elements of a parameter lie together in its tensor from `element` on: returns how many; *at: where in the tensor. */
int64_t place_run(const struct dialect_place *place, int64_t element, int64_t *at);

/* DIALECT_TE: does no output depend on the tensor, so that import ignores it? */
bool dialect_ignores(const struct family *family, const char *name);

/* Does the name match one of the patterns? They end with NULL; NULL: there are none. */
bool dialect_matches(const char *const *patterns, const char *name);

#endif
