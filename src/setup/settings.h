/* Values derived from several keys of a deck, and checks of the deck alone. setup/setup.h makes a setup from them. */
#ifndef SETUP_SETTINGS_H
#define SETUP_SETTINGS_H

#include "loader/loader.h"
#include "deck/deck.h"
#include "architecture/settings.h"

/* Returns the loader settings of the training data; they borrow the deck's strings. */
struct loader_settings settings_of_loader(const struct deck *deck);
/* Returns the tokens of a slice of the head: memory.head_tokens, or the program's choice (estimate/fit_choice.h), 1024
 * before it has chosen. */
int64_t settings_head_tokens(const struct deck *deck);
/* Returns the tokens of a rank's micro-batch. */
int64_t settings_tokens(const struct deck *deck);
/* Returns the number of ranks that share rows: tensor x context x pipeline. */
int64_t settings_sharing(const struct deck *deck);
/* Returns the number of micro-batches of a rank in a step, for a run on `ranks` ranks. */
int64_t settings_micro_batches(const struct deck *deck, int64_t ranks);

/* Writes the vocabulary of the first store of data.train that exists. If none exists, or data is random, it writes that
 * of a store made for this model. Local; reads a file. ERROR_USER: a store exists and is damaged. */
int settings_vocabulary(int64_t *vocabulary, const struct deck *deck);

/* Checks that the deck's sizes fit each other and `ranks` ranks. Local. ERROR_USER. */
int settings_check_sizes(const struct deck *deck, int64_t ranks);
/* As settings_check_sizes; also checks that training data is named, and the values of statistics, profile,
 * log.prometheus and train.walltime. */
int settings_check(const struct deck *deck, int64_t ranks);

/* Warns of a warm-up that is longer than the run, which is allowed but seldom intended. */
void settings_warn(const struct deck *deck);

/* Writes the settings of the model that the deck trains on an executor: those of model_settings_from_deck, with the
 * settings of context, tensor and pipeline parallelism. Checks the length of sequences, and that the executor can
 * compute the model. Local. ERROR_USER: the message names the key. */
int settings_of_model(struct model_settings *settings, const struct deck *deck, int64_t store_vocabulary,
                      const struct executor *executor);

/* Checks that the executor can train with the model's precision: the device has the GEMMs, and widths and the head's
 * slices of tokens are multiples of what the GEMMs need. Local. ERROR_USER: the message names the key. (Other numbers
 * of tokens need no check: data.row_tokens is a multiple of 16, and quantized operands with tokens along a row are
 * padded.) */
int settings_check_precision(const struct deck *deck, const struct model_settings *settings,
                             const struct executor *executor);

#endif
