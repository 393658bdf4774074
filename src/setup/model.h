/* Converts the deck's section `model` to the settings of a model, and back. */
#ifndef SETUP_MODEL_H
#define SETUP_MODEL_H

#include "deck/deck.h"
#include "architecture/settings.h"

/* Returns the family that model.family or model.preset selects; the first family if the preset is unknown. */
const struct family *model_family_from_deck(const struct deck *deck);
/* Return whether the deck's model predicts the next token, else masked ones; and whether it has token dropout. */
bool model_causal_from_deck(const struct deck *deck);
bool model_drops_tokens(const struct deck *deck);
/* Each returns a size of the deck's model, set by the deck or its preset: the vocabulary (0 if neither sets it), the
 * number of key and value heads, and max_position_embeddings. */
int64_t model_vocabulary_from_deck(const struct deck *deck);
int64_t model_kv_heads_from_deck(const struct deck *deck);
int64_t model_positions_from_deck(const struct deck *deck);

/* Returns the sliding window of attention if all layers of the deck's model have it, else 0. */
int64_t model_window_from_deck(const struct deck *deck);

/* Returns the max_position_embeddings that an export writes: model.positions, or, if it is not set, the length of the
 * longest training sequences. */
int64_t model_trained_positions(const struct deck *deck);

/* Returns the fine-tuning head of the deck's model, unchecked; model.pooling = "auto" becomes the family's. */
struct task_settings model_task_from_deck(const struct deck *deck);

/* Writes the settings of the deck's model: the preset's values, overridden by values that the deck sets.
 * store_vocabulary is used if neither sets the vocabulary; 0 = unknown. Local. ERROR_USER: unknown preset (the message
 * lists the known ones), or a missing or impossible size; the message names the key. */
int model_settings_from_deck(struct model_settings *settings, const struct deck *deck, int64_t store_vocabulary);

/* Sets model.id2label to these names, each with a newline, unless the deck gives names; without names that fit into the
 * key or have a comma. */
void model_name_labels(struct deck *deck, const char *names, int64_t bytes);

/* Returns model.id2label. */
const char *model_label_names(const struct deck *deck);

/* Writes settings into the section `model` of a deck. It sets each key explicitly, whatever the preset, so that
 * model_settings_from_deck returns the same settings. Keys of initialisation and weight decay (scaled_init,
 * spike_no_more) and the preset's name stay unchanged. */
void model_settings_to_deck(const struct model_settings *settings, struct deck *deck);

#endif
