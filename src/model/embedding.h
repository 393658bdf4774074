/* The token embedding: y[t] = W[token[t]], times the token's factor under token dropout. First unit of every model. */
#ifndef MODEL_EMBEDDING_H
#define MODEL_EMBEDDING_H

#include "model/unit.h"

enum { EMBEDDING_TABLE };

/* The embedding's gradient is the last of a backward, so its sum over ranks cannot be overlapped. With
 * settings->embedding_ranks > 1, each rank of execution->data gathers all ranks' tokens and output gradients instead,
 * and computes the whole gradient, with the same bits on all. The backward is then collective, and all ranks need
 * micro-batches with the same number of tokens (loader/loader.h). Not used if the head is tied. */

/* Returns the bytes gathered for each token of another rank, with settings->embedding_ranks > 1. */
int64_t embedding_token_bytes(const struct model_settings *settings, enum dtype compute);

/* Fills a zeroed unit. */
void embedding_declare(struct unit *unit);

#endif
