/* The model's state as pieces: of each tensor (a parameter's weight, first and second moment) what this rank holds or,
 * where several ranks hold the same, its cut of it; each at most PIECE_BYTES, so that it passes through a staging
 * buffer on the host that the executor has made for its copies. Works on any weight store and any executor. */
#ifndef IO_PIECE_H
#define IO_PIECE_H

#include "io/slab.h"
#include "step/master.h"

struct comm;
struct engine;

enum { PIECE_BYTES = 8 << 20 };

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
 * return ERROR_NONE; returns what the last one did. sharers: a flat buffer that each of these ranks holds whole is cut
 * evenly among them; NULL: all that this rank holds. Local. */
int piece_visit(struct engine *engine, const struct comm *sharers, int kinds,
                int (*visit)(void *self, const struct piece *piece), void *self);

/* The same on this rank's host: visit gets each piece's content besides, which is its own until it returns. It is
 * called by several threads at once, in any order; where it fails, once more by the caller's, whose message stays and
 * whose success counts. */
int piece_fetch(struct engine *engine, const struct comm *sharers, int kinds,
                int (*visit)(void *self, const struct piece *piece, const void *content), void *self);

#endif
