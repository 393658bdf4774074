/* Which activations the blocks of a deck keep from forward to backward, and the lists of layers that say so. */
#ifndef SETUP_RECOMPUTE_H
#define SETUP_RECOMPUTE_H

#include "deck/deck.h"
#include "architecture/recompute.h"

#include <stddef.h>

/* From memory.recompute, recompute_layers and offload_layers, or, with "fit", what was chosen (fitted_layers and
 * fitted_offload), for a model of so many layers. ERROR_USER: a list that cannot be read, names a policy or layer that
 * there is not or a layer twice, or, with "fit", not every layer; recompute_layers with "fit"; naming the key. With
 * "fit" and no list, all have DECK_RECOMPUTE_NORMS until one is chosen (estimate/fit_choice.h). */
int recompute_from_deck(struct recompute *recompute, const struct deck *deck, int64_t layers);

/* "full:1-8,attention:9-32": of so many layers the first `count` (0 to all) have a policy, and the rest a milder one,
 * which is not read where all have the policy. */
void recompute_print(char *list, size_t bytes, enum deck_recompute policy, int64_t count, enum deck_recompute milder,
                     int64_t layers);

/* "1,4,7": `count` layers to offload, 3 apart; "1-7": next to each other. */
void recompute_print_offloaded(char *list, size_t bytes, int64_t count, int64_t every);

#endif
