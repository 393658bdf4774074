/* The model's state on the host: this rank's share of it (piece_visit_shares), for files and digests. */
#ifndef STEP_FETCH_H
#define STEP_FETCH_H

#include "step/fetched.h"

struct comm;

/* Calls visit for each run of the first `kinds` kinds, with its content, which is its own until it returns. Of parts
 * cut by columns a run is but the rest of a row; where `exchange` is not NULL, the engine's tensor ranks exchange
 * these, so that runs are whole rows as far as can be (step/exchange.h). visit is called by several threads at once, in
 * any order; where it fails, once more by the caller's, whose message stays and whose success counts; then no more.
 * Returns what the last call did. Collective over exchange, else local. */
int fetch_shares(struct engine *engine, struct comm *exchange, int kinds, fetch_visit *visit, void *self);

#endif
