/* train.epochs: the length of a run in epochs of its data. */
#ifndef SETUP_EPOCHS_H
#define SETUP_EPOCHS_H

#include "comm/comm.h"
#include "deck/deck.h"

/* If train.epochs is not 0, sets train.steps to the steps of this number of epochs: one epoch has each window of
 * data.train once, packed into rows as in training. Warns if the deck gives another train.steps. Needs a deck that is
 * complete (model.initialise_from). Rank 0 packs all rows, about 0.4 s for a million windows. Collective; an agreed
 * code. loud: logs the result. ERROR_USER: the data have no epochs, or loader_create refuses them. */
int epochs_resolve(struct deck *deck, struct comm *world, bool loud);

#endif
