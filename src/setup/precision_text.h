/* What is said of a run's precision, by `cistron plan` and at the start of training. */
#ifndef SETUP_PRECISION_TEXT_H
#define SETUP_PRECISION_TEXT_H

#include "deck/deck.h"
#include "architecture/precision.h"

/* One line: what is quantized and how, in a model of so many layers; "nothing" where nothing is. emulated: the device
 * has no products of 8-bit floats (core/executor.h). Freed with free(). */
char *precision_text(const struct precision *precision, int64_t layers, bool emulated);

/* Warns (log_warn) if a recipe quantizes nothing, or of keys of the section that are set but change nothing. precision:
 * from the deck. */
void precision_warn(const struct precision *precision, const struct deck *deck);

#endif
