/* The origin of a run is the checkpoint of model.initialise_from, from whose weights a new run starts. It is read only
 * once, when the run is new; afterwards the run's own deck and checkpoints have everything that came from it. All
 * functions but origin_named are collective over world and return agreed codes. */
#ifndef TRAIN_ORIGIN_H
#define TRAIN_ORIGIN_H

#include "comm/comm.h"
#include "deck/deck.h"
#include "checkpoint/carried.h"

struct session;
struct tokenizer;

/* Returns whether the deck names an origin (model.initialise_from). Local. */
bool origin_named(const struct deck *deck);

/* For a new run: finds and verifies the checkpoint that model.initialise_from names (the newest one of a run folder),
 * and completes the deck's section `model`: keys that the deck does not give get the checkpoint's values. Other keys
 * that differ from the checkpoint are logged. *path is freed with free(), NULL after an error. ERROR_USER: there is no
 * good checkpoint, or the deck gives another family or other sizes; the message names each. */
int origin_take(struct comm *world, struct deck *deck, char **path);

/* For a resumed run whose deck names an origin: completes the deck from the run's own checkpoint `path`, which has had
 * the origin's values since the run was new. */
int origin_inherit(struct comm *world, struct deck *deck, const char *path);

/* Reads the weights into a new session, and with model.initialise_optimizer the optimizer state. A fine-tuning head on
 * a language model is new: it is initialised from train.seed, and logged. ERROR_USER: the training data have another
 * tokenizer, the checkpoint has no optimizer state, or the head is new and would need one. */
int origin_read_weights(struct session *session, const char *path);

/* Reads the carried tensors of the checkpoint (checkpoint/carried.h) on rank 0; empty on other ranks. */
int origin_read_carried(struct comm *world, const char *path, struct carried_files *carried);

/* Completes rank 0's open tokenizer of the stores, which may be NULL. If the checkpoint has the same tokenizer, the
 * files that it has, such as a chat template, replace the stores' files; then *tokenizer is closed and replaced. */
int origin_merge_tokenizer(struct comm *world, const char *path, const struct tokenizer **tokenizer);

#endif
