/* Reads this rank's share of the model's state (piece_visit_shares) to the host, for files and digests. */
#ifndef STATE_FETCH_H
#define STATE_FETCH_H

#include "state/fetched.h"

struct comm;

/* Calls visit for each run of the first `kinds` kinds, with its content, a buffer that visit may use until it returns.
 * If parts are split by columns, a run is only part of a row; with `exchange` (not NULL) the engine's tensor ranks
 * exchange parts, so that runs are whole rows where possible (state/exchange.h). visit is called by several threads at
 * once, in any order. If a call fails, the calling thread repeats it for the same run, and the result and message of
 * this call count; there are no further calls. Returns the result of the last call. Collective over exchange, else
 * local. */
int fetch_shares(struct engine *engine, struct comm *exchange, int kinds, fetch_visit *visit, void *self);

/* Calls visit for each run of a piece whose content is in host memory, starting at element *visited, which each
 * successful call advances. Local. */
int fetch_visit_runs(const struct parameter_piece *piece, const char *content, int64_t *visited, fetch_visit *visit,
                     void *self);

#endif
