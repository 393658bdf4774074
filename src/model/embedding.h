/* The token embedding: y[t] = W[token[t]], times the token's factor under token dropout. First unit of every model. */
#ifndef MODEL_EMBEDDING_H
#define MODEL_EMBEDDING_H

#include "model/unit.h"

enum { EMBEDDING_TABLE };

/* Fills a zeroed unit. */
void embedding_declare(struct unit *unit);

#endif
