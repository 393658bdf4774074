/* From the deck's section `model` to the settings of a model, and back. */
#ifndef SETUP_MODEL_H
#define SETUP_MODEL_H

#include "deck/deck.h"
#include "architecture/settings.h"

/* The family that the deck asks for, by itself or by its preset; the first where the preset is unknown. */
const struct family *model_family_from_deck(const struct deck *deck);
/* Its vocabulary, likewise; 0 where neither says. */
int64_t model_vocabulary_from_deck(const struct deck *deck);
/* Its key and value heads, likewise. */
int64_t model_kv_heads_from_deck(const struct deck *deck);
/* Its max_position_embeddings, likewise. */
int64_t model_positions_from_deck(const struct deck *deck);

/* The max_position_embeddings that an export says: model.positions, else what the longest sequences of training take.
 */
int64_t model_trained_positions(const struct deck *deck);

/* From the deck: a preset, then what the deck sets itself. `store_vocabulary` is used where neither says; 0 = unknown.
 * Errors (user): unknown preset (the known ones are listed), a missing or impossible size, naming the key. */
int model_settings_from_deck(struct model_settings *settings, const struct deck *deck, int64_t store_vocabulary);

/* Writes settings into the section `model` of a deck, each key by itself whatever the preset, so that
 * model_settings_from_deck makes the same again. Keys that say how to begin or to decay (scaled_init, spike_no_more)
 * and the preset's name stay as they are. */
void model_settings_to_deck(const struct model_settings *settings, struct deck *deck);

#endif
