/* The origin of a run: the checkpoint of model.initialise_from, whose weights a new run starts from. It is read once,
 * when the run is new: after that the run's own deck and checkpoints have all that came from it. All are collective
 * over world and return agreed codes. */
#ifndef TRAIN_ORIGIN_H
#define TRAIN_ORIGIN_H

#include "comm/comm.h"
#include "deck/deck.h"
#include "checkpoint/carried.h"

struct session;
struct tokenizer;

/* Does the deck name an origin, model.initialise_from? */
bool origin_named(const struct deck *deck);

/* For a new run: finds and verifies the checkpoint that model.initialise_from names, of a run folder the newest, and
 * completes the section `model` of the deck from it: keys that the deck does not give take its values. Other values of
 * the checkpoint that the deck overrides are printed. *path is freed with free(), NULL after an error. ERROR_USER:
 * there is no good one; the family or a size that the deck gives is another, each named. */
int origin_take(struct comm *world, struct deck *deck, char **path);

/* For a run of such a deck that goes on: completes the deck from its own checkpoint `path`, which took the origin's
 * values when it was new. */
int origin_inherit(struct comm *world, struct deck *deck, const char *path);

/* Reads the weights, with model.initialise_optimizer the optimizer's state too, into a new session. ERROR_USER: the
 * training data are other tokens; no optimizer state. */
int origin_read_weights(struct session *session, const char *path);

/* What the checkpoint carries along, on rank 0; nothing elsewhere. */
int origin_read_carried(struct comm *world, const char *path, struct carried_files *carried);

/* Rank 0's tokenizer of the stores, open; NULL is fine. Where the checkpoint has the same tokenizer, the files that it
 * keeps of it, such as a chat template, take the place of the stores'. */
int origin_merge_tokenizer(struct comm *world, const char *path, const struct tokenizer **tokenizer);

#endif
