/* The model's state on the host: this rank's share of it (piece_visit_shares), for files and digests. */
#ifndef STATE_FETCH_H
#define STATE_FETCH_H

#include "state/fetched.h"

struct comm;

/* Calls visit for each run of the first `kinds` kinds, with its content, which is its own until it returns. If parts
 * are cut by columns, a run is only part of a row; with `exchange` not NULL, the engine's tensor ranks exchange parts,
 * so that runs are whole rows where possible (state/exchange.h). visit is called by several threads at once, in any
 * order. If a call fails, the caller's thread calls once more for the same run; its result and message count. After a
 * failure there are no more calls. Returns what the last call did. Collective over exchange, else local. */
int fetch_shares(struct engine *engine, struct comm *exchange, int kinds, fetch_visit *visit, void *self);

/* Calls visit for each run of a piece, whose content lies on the host, from its element *visited on, which goes up with
 * each call that succeeds. Local. */
int fetch_visit_runs(const struct parameter_piece *piece, const char *content, int64_t *visited, fetch_visit *visit,
                     void *self);

#endif
