/* The recompute policy of each layer, as the deck's section `memory` says, and the text of its lists of layers. */
#ifndef SETUP_RECOMPUTE_H
#define SETUP_RECOMPUTE_H

#include "deck/deck.h"
#include "architecture/recompute.h"

#include <stddef.h>

/* Writes the recompute policies of a model with `layers` layers, from memory.recompute, recompute_layers and
 * offload_layers; with "fit", from the program's choice (fitted_layers and fitted_offload). With "fit" and no choice
 * yet, all layers have DECK_RECOMPUTE_NORMS (estimate/fit_choice.h). Local. ERROR_USER: a list cannot be read, names an
 * unknown policy or layer, or a layer twice; with "fit": fitted_layers does not name every layer, or recompute_layers
 * is set. The message names the key. */
int recompute_from_deck(struct recompute *recompute, const struct deck *deck, int64_t layers);

/* Prints a list such as "full:1-8,attention:9-32": the first `count` of `layers` layers (0 to all) have `policy`, the
 * rest has `milder`, which is ignored if count is all. */
void recompute_print(char *list, size_t bytes, enum deck_recompute policy, int64_t count, enum deck_recompute milder,
                     int64_t layers);

/* Prints a list of `count` layers to offload, each `every` layers after the one before: "1,4,7" with every = 3, "1-7"
 * with every = 1. */
void recompute_print_offloaded(char *list, size_t bytes, int64_t count, int64_t every);

#endif
