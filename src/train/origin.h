/* The origin of a run: the checkpoint of model.initialise_from, whose weights a new run starts from. It is asked once,
 * when the run is new: what the run took over stands in its deck, and what it carries along in its own checkpoints.
 * All are collective over world and return agreed codes. */
#ifndef TRAIN_ORIGIN_H
#define TRAIN_ORIGIN_H

#include "comm/comm.h"
#include "deck/deck.h"
#include "io/carried.h"

struct session;

/* The verified checkpoint that model.initialise_from names, of a run folder the newest; freed with free(). ERROR_USER:
 * it holds none, or only bad ones. */
int origin_find(struct comm *world, const struct deck *deck, char **path);

/* Completes the section `model` of a deck that names an origin: keys that it does not give take the values of the
 * checkpoint `path`: the origin, or for a run that goes on its own, which has the origin's already. */
int origin_inherit(struct comm *world, struct deck *deck, const char *path);

/* Can a new run of this deck, as it was before and after origin_inherit, start from the origin `path`? ERROR_USER: the
 * family or a size that the deck gives is another; each is named. Says which of the other keys the deck overrules. */
int origin_check(struct comm *world, const struct deck *given, const struct deck *complete, const char *path);

/* Reads the weights, with model.initialise_optimizer the optimizer's state too, into a new session. ERROR_USER: the
 * training data are other tokens; no optimizer state. */
int origin_read_weights(struct session *session, const char *path);

/* What the checkpoint carries along, on rank 0; nothing elsewhere. */
int origin_read_carried(struct comm *world, const char *path, struct carried *carried);

#endif
