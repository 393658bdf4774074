/* Exchanges columns for whole rows on the host. Tensor ranks that own columns of a tensor have a part of every row,
 * which would be many short runs in a file; after the exchange each has some whole rows. */
#ifndef STATE_EXCHANGE_H
#define STATE_EXCHANGE_H

#include "comm/comm.h"
#include "state/fetched.h"

/* The source of this rank's columns. */
struct exchange_source {
    void *self;
    /* Reads a part of a share to `to`, as numbers of the exchange's type. `to` may be incomplete until `finish`
     * returns.
     */
    void (*read)(void *self, const struct parameter_piece *piece, char *to);
    void (*finish)(void *self);
};

struct state_exchange {
    struct comm *comm; /* borrowed */
    struct exchange_source source;
    enum dtype dtype;
    struct rectangle *shares; /* [ranks] the whole rows of its part that each rank has of the current parameter */
    char *sent;               /* [PIECE_BYTES] borrowed, memory that the source can read to */
    char *received, *rows;    /* [PIECE_BYTES] */
};

/* Makes the buffers. comm: ranks whose parts are side by side in the tensors, in the order of their columns. sent:
 * [PIECE_BYTES], borrowed. dtype: piece_dtype of the engine. Local. */
void exchange_create(struct state_exchange *exchange, const struct exchange_source *source, char *sent,
                     enum dtype dtype, struct comm *comm);
void exchange_destroy(struct state_exchange *exchange);

/* Returns whether the ranks of comm exchange columns of the parameter; the same on all of them. */
bool exchange_needed(const struct comm *comm, const struct parameter *parameter);

/* Exchanges the rows of which every rank's share has all columns of its part. Calls visit for the whole rows that this
 * rank then has, unless *code is already an error; *code becomes the result of the last call. Returns the slab of the
 * exchanged rows; the caller visits the rest of the share, which is all of it if parts are not side by side or a row
 * does not fit the buffers. Collective over comm, also after an error; all ranks pass the same parameter and kind. */
struct parameter_slab exchange_rows(struct state_exchange *exchange, const struct parameter_piece *share,
                                    fetch_visit *visit, void *self, int *code);

#endif
