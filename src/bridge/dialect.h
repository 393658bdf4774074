/* Maps a model's parameters to the tensors of a folder. Hugging Face's classes have one tensor for each parameter
 * (DIALECT_HF). BioNeMo's recipes consist of TransformerEngine's layers (DIALECT_TE), in which one tensor has several
 * parameters, one below the other: q, k and v of a group of heads, group after group; gate above up. There, norms
 * belong to the linear layer after them, and tensors with one row per token may have more rows, which are never read.
 *
 * The names of a family's tensors are in its file (architecture/family.h); the layers' packing is here. Sources:
 * TransformerEngine's documentation, TransformerLayer (fuse_qkv_params, qkv_weight_interleaved); BioNeMo's recipes
 * llama3_native_te and esm2_native_te, its model AMPLIFY. */
#ifndef BRIDGE_DIALECT_H
#define BRIDGE_DIALECT_H

#include "bridge/safetensors.h"
#include "architecture/settings.h"
#include "model/parameter.h"

/* The location of a parameter: its row r is row first + r / block * apart + r % block of the tensor. In a vector, each
 * element is a row. */
struct dialect_place {
    char name[128]; /* name of the tensor */
    int dims;
    int64_t shape[2];
    int64_t width; /* elements per row */
    int64_t first, block, apart;
};

/* Returns the dialect of a folder, by the names of its tensors. */
enum checkpoint_dialect dialect_of(const struct safetensors *st);

/* Writes the location of a parameter. token_rows: rows of the tensors with one row per token, at least the vocabulary;
 * exactly the vocabulary in DIALECT_HF. */
void dialect_place(struct dialect_place *place, enum checkpoint_dialect dialect, const struct model_settings *settings,
                   int64_t token_rows, const struct parameter *parameter);

/* Returns how many elements of a parameter, from `element` on, are consecutive in its tensor; *at: index of the first
 * one in the tensor. */
int64_t place_run(const struct dialect_place *place, int64_t element, int64_t *at);

/* Returns whether no output depends on a tensor of DIALECT_TE, so that import ignores it. */
bool dialect_ignores(const struct family *family, const char *name);

/* Returns whether the name matches one of the patterns, a list that ends with NULL, or NULL (none). */
bool dialect_matches(const char *const *patterns, const char *name);

#endif
