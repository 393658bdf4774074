/* The model's state as pieces: what this rank has of each tensor (a parameter's weight, first and second moment). Works
 * on any weight store and any executor. */
#ifndef STATE_PIECE_H
#define STATE_PIECE_H

#include "state/slab.h"
#include "store/master.h"

struct engine;

enum { PIECE_BYTES = 8 << 20 /* of what passes through staging buffers on the host at a time */ };

enum piece_kind { PIECE_WEIGHT, PIECE_M, PIECE_V, PIECE_KINDS };

struct parameter_piece {
    enum piece_kind kind;
    const struct parameter *parameter;
    int number; /* of the parameter, as model_parameters counts */
    struct parameter_slab slab;
    struct master_weights device; /* [1, slab.count] on the executor's device */
};

/* Element type of the masters and moments. */
enum dtype piece_dtype(const struct engine *engine);

/* The slab of a piece, which holds it. */
struct parameter_piece piece_part(const struct parameter_piece *piece, struct parameter_slab slab);

/* Calls visit for the piece in parts of at most PIECE_BYTES, in order, until one call does not return ERROR_NONE;
 * returns what the last one did. */
int piece_split(const struct parameter_piece *piece, int (*visit)(void *self, const struct parameter_piece *piece),
                void *self);

/* The same for all that this rank holds of the first `kinds` kinds, kind by kind, parameter by parameter. Local. */
int piece_visit(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                void *self);

/* Calls visit for each parameter of each kind with all that this rank holds of it, which may be nothing. */
int piece_visit_held(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                     void *self);

/* Calls visit for each parameter of each kind with this rank's share of it: where several ranks hold the same (struct
 * shard, struct parameter) each has a part. The shares of all ranks together are the model, once. A piece may be of any
 * size; where this rank has nothing its slab is empty. As above; local. */
int piece_visit_shares(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                       void *self);

/* The same in parts of at most PIECE_BYTES; shares that are empty have none. */
int piece_visit_share_parts(struct engine *engine, int kinds,
                            int (*visit)(void *self, const struct parameter_piece *piece), void *self);

#endif
