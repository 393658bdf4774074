/* Numbers that follow from several keys of a deck, and what is wrong with a deck by itself. setup/setup.h makes a setup
 * of them. */
#ifndef SETUP_SETTINGS_H
#define SETUP_SETTINGS_H

#include "loader/loader.h"
#include "deck/deck.h"
#include "architecture/settings.h"

/* How a deck, borrowed, sets up the loader of its training data. */
struct loader_settings settings_of_loader(const struct deck *deck);
/* Tokens of a chunk of the head: memory.head_tokens, or what the program has chosen (estimate/fit_choice.h). */
int64_t settings_head_tokens(const struct deck *deck);
/* Tokens of a rank's micro-batch. */
int64_t settings_tokens(const struct deck *deck);
/* Ranks that have the same rows, or parts of them: those of a row, of a layer and of a pipeline. */
int64_t settings_sharing(const struct deck *deck);
/* Micro-batches of a rank in a step, of so many ranks. */
int64_t settings_micro_batches(const struct deck *deck, int64_t ranks);

/* The vocabulary of the first of data.train's stores that is there; where none is, or data is random, what a store for
 * this model would have. Local; it reads a file. ERROR_USER: a store that is there and no good. */
int settings_vocabulary(int64_t *vocabulary, const struct deck *deck);

/* What can be told from the deck alone, for so many ranks: sizes that fit each other. Local. ERROR_USER. */
int settings_check_sizes(const struct deck *deck, int64_t ranks);
/* The same, a store to train on, and a time limit that is one. */
int settings_check(const struct deck *deck, int64_t ranks);

/* Warns of what is allowed and seldom meant: a warm-up that the run does not come to the end of. */
void settings_warn(const struct deck *deck);

/* The model that the deck trains on an executor: as model_settings_from_deck has it, with the cuts of rows and layers,
 * and checked for how long its sequences may be and for what the executor can compute. Local. ERROR_USER, naming the
 * key. */
int settings_of_model(struct model_settings *settings, const struct deck *deck, int64_t store_vocabulary,
                      const struct executor *executor);

/* Can the executor train with the model's precision: has the device the products, are widths and the head's
 * chunks of tokens multiples of what they take? Local. ERROR_USER, naming the key. (Other tokens need no check:
 * data.row_tokens is a multiple of 16, and copies that have them along a row are padded.) */
int settings_check_precision(const struct deck *deck, const struct model_settings *settings,
                             const struct executor *executor);

#endif
