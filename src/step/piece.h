/* The model's state as pieces: parts of each tensor (a parameter's weight, first and second moment) of at most
 * PIECE_BYTES, so that they pass through staging buffers on the host. Works on any weight store and any executor. */
#ifndef STEP_PIECE_H
#define STEP_PIECE_H

#include "step/slab.h"
#include "step/master.h"

struct engine;

enum { PIECE_BYTES = 8 << 20 };

/* Which pieces: all that this rank holds, or its part of them where several ranks hold the same (struct shard). The
 * parts of all ranks together are the model, once. */
enum piece_scope { PIECE_HELD, PIECE_OWN };

enum piece_kind { PIECE_WEIGHT, PIECE_M, PIECE_V, PIECE_KINDS };

struct piece {
    enum piece_kind kind;
    const struct parameter *parameter;
    int number; /* of the parameter, as model_parameters counts */
    struct slab slab;
    struct master device; /* [1, slab.count] on the executor's device */
};

/* Element type of the masters and moments. */
enum dtype piece_dtype(const struct engine *engine);

/* Calls visit for each piece of the first `kinds` kinds, kind by kind, parameter by parameter, until one does not
 * return ERROR_NONE; returns what the last one did. Local. */
int piece_visit(struct engine *engine, enum piece_scope scope, int kinds,
                int (*visit)(void *self, const struct piece *piece), void *self);

/* The same on this rank's host: visit gets each piece's content besides, which is its own until it returns. It is
 * called by several threads at once, in any order; where it fails, once more by the caller's, whose message stays and
 * whose success counts. */
int piece_fetch(struct engine *engine, enum piece_scope scope, int kinds,
                int (*visit)(void *self, const struct piece *piece, const void *content), void *self);

#endif
