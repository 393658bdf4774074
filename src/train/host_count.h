/* Counts the messages between hosts outside of steps (estimate/host_traffic.h), by running the code of a start, a save
 * and a load as rank 0 of a world without other ranks (comm/counting.h), on the planning executor. */
#ifndef TRAIN_HOST_COUNT_H
#define TRAIN_HOST_COUNT_H

#include "deck/deck.h"
#include "estimate/host_traffic.h"

/* Writes the messages of a run on `ranks` ranks, `node` on each node. deck: of the run, with every choice made.
 * vocabulary: the model's. Four events are counted:
 *
 *   start     the session (train/session.h) with random data, and the hosts' names
 *   save      checkpoint_write
 *   restart   checkpoint_load, in addition to the start
 *   hang      one roll call
 *
 * Reads and writes no file. Local. ERROR_USER: the deck does not fit the ranks. */
int host_count(struct host_traffic *traffic, const struct deck *deck, int64_t vocabulary, int64_t ranks, int64_t node);

#endif
