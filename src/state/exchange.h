/* Exchanges columns for rows. If ranks have different columns of a tensor, each has a part of every row, and in a file
 * these are many short runs. Here the ranks exchange parts on the host, so that each has some whole rows. */
#ifndef STATE_EXCHANGE_H
#define STATE_EXCHANGE_H

#include "comm/comm.h"
#include "state/fetched.h"

struct state_exchange {
    struct engine *engine;    /* borrowed */
    struct comm *comm;        /* borrowed */
    struct rectangle *shares; /* [ranks] what each has of the parameter at hand: whole rows of its part */
    char *sent;               /* [PIECE_BYTES] of the executor's on the host */
    char *received, *rows;    /* [PIECE_BYTES] */
};

/* comm: ranks whose parts lie side by side in the tensors, in the order of their columns. Local. */
void exchange_create(struct state_exchange *exchange, struct engine *engine, struct comm *comm);
void exchange_destroy(struct state_exchange *exchange);

/* Exchanges the rows of which every rank's share has all columns of its part, and calls visit for those that this rank
 * then has, unless *code is an error already; *code becomes what the last call returned. The slab of what was
 * exchanged; the rest of the share remains to be visited, which is all of it where parts are not side by side or a row
 * does not fit the buffers. Collective over comm, also after an error; all name the same parameter and kind. */
struct parameter_slab exchange_rows(struct state_exchange *exchange, const struct parameter_piece *share,
                                    fetch_visit *visit, void *self, int *code);

#endif
