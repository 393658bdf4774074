/* From the deck's sections `precision` and `statistics` to the formats of a model's linear layers. */
#ifndef SETUP_PRECISION_H
#define SETUP_PRECISION_H

#include "deck/deck.h"
#include "architecture/precision.h"

/* From the deck, for a model of so many layers. Which format claims a layer is the recipes' rule: a list that is given
 * stands, "auto" takes what the other does not name, no layer may be in two lists, and the list of a format that is off
 * is passed over. Errors (user): a list that cannot be read, a layer that the model has not or that is in both lists,
 * an unknown linear, statistics where nothing is quantized; naming the key. */
int precision_from_deck(struct precision *precision, const struct deck *deck, int64_t layers);

#endif
