/* Describes a run's precision, for `cistron plan` and the start of training. */
#ifndef SETUP_PRECISION_TEXT_H
#define SETUP_PRECISION_TEXT_H

#include "deck/deck.h"
#include "architecture/precision.h"

/* Returns one line that says what is quantized and how in a model of `layers` layers, "nothing" if nothing is; freed
 * with free(). emulated: the device does not have 8-bit floating-point GEMMs (core/executor.h). */
char *precision_text(const struct precision *precision, int64_t layers, bool emulated);

/* Warns (log_warn) if a recipe quantizes nothing, or if keys of the section are set but have no effect. precision: from
 * this deck. */
void precision_warn(const struct precision *precision, const struct deck *deck);

#endif
