/* The token embedding: y[t] = W[token[t]], times the token's factor under token dropout. First unit of every model. */
#ifndef MODEL_EMBEDDING_H
#define MODEL_EMBEDDING_H

#include "model/unit.h"

enum { EMBEDDING_TABLE };

/* Its gradient comes last in a backward, so a sum over ranks would hide behind nothing. With settings->embedding_ranks
 * ranks to execution->data each gathers what the gradient is made of, and makes all of it: in the order of ranks, so
 * all have the same bits. Collective then: all ranks have micro-batches of as many tokens (loader/loader.h). Not where
 * the table is lent to the head. */

/* Bytes that a rank then gathers of another rank's token. */
int64_t embedding_token_bytes(const struct model_settings *settings, enum dtype compute);

/* Fills a zeroed unit. */
void embedding_declare(struct unit *unit);

#endif
