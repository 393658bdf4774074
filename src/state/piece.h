/* The model's state as pieces: this rank's part of each tensor (a parameter's weight, first or second moment). Works on
 * any weight store and any executor. */
#ifndef STATE_PIECE_H
#define STATE_PIECE_H

#include "state/slab.h"
#include "model/unit.h"
#include "store/master.h"

struct engine;

enum { PIECE_BYTES = 8 << 20 /* size of the staging buffers on the host */ };

enum piece_kind { PIECE_WEIGHT, PIECE_M, PIECE_V, PIECE_KINDS };

struct parameter_piece {
    enum piece_kind kind;
    const struct parameter *parameter;
    int number; /* parameter number, as in model_parameters */
    struct parameter_slab slab;
    struct master_weights device; /* [1, slab.count] on the executor's device */
};

/* Returns whether a parameter of the unit has pieces of this kind: a frozen unit has weights only, and a matrix whose
 * optimizer is Muon has no second moment. */
bool piece_exists(const struct unit *unit, const struct parameter *parameter, enum piece_kind kind);

/* Returns the element type of master weights and moments. */
enum dtype piece_dtype(const struct engine *engine);

/* Returns the part `slab` of a piece, which contains it. */
struct parameter_piece piece_part(const struct parameter_piece *piece, struct parameter_slab slab);

/* Calls visit for the piece in parts of at most PIECE_BYTES, in order, until a call does not return ERROR_NONE; returns
 * the result of the last call. */
int piece_split(const struct parameter_piece *piece, int (*visit)(void *self, const struct parameter_piece *piece),
                void *self);

/* As piece_split, for everything that this rank owns of the first `kinds` kinds, kind by kind, parameter by parameter.
 * Local. */
int piece_visit(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                void *self);

/* Calls visit for each parameter of each kind that exists, with everything that this rank owns of it, which may be
 * nothing. Local.
 */
int piece_visit_owned(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                      void *self);

/* Calls visit for each parameter of each kind, with this rank's share of it: ranks that own the same elements (struct
 * store_shard, struct parameter) have a part each, so the shares of all ranks together are the model once. A piece may
 * be of any size; its slab is empty if this rank has no share. Local. */
int piece_visit_shares(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                       void *self);

/* As piece_visit_shares, in parts of at most PIECE_BYTES; empty shares are omitted. */
int piece_visit_share_parts(struct engine *engine, int kinds,
                            int (*visit)(void *self, const struct parameter_piece *piece), void *self);

#endif
