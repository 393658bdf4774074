/* Converts the deck's sections `precision` and `statistics` to the formats of a model's linear layers. */
#ifndef SETUP_PRECISION_H
#define SETUP_PRECISION_H

#include "deck/deck.h"
#include "architecture/precision.h"

/* Writes the precision of a model with `layers` layers. A layer has the format whose list names it; "auto" means the
 * layers that the other list does not name; the list of a format that is off is ignored. Local. ERROR_USER: a list
 * cannot be read or names a layer that the model does not have; a layer is in both lists; a linear is unknown;
 * statistics are requested and nothing is quantized. The message names the key. */
int precision_from_deck(struct precision *precision, const struct deck *deck, int64_t layers);

#endif
