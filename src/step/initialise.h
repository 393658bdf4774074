/* The weights that a training begins from. */
#ifndef STEP_INITIALISE_H
#define STEP_INITIALISE_H

#include "step/engine.h"

/* Writes the initial weights (model.h), zero moments. Seconds for a large model: a wish to stop (base/signals.h) ends
 * it early, with weights of no use. */
void engine_initialise(struct engine *engine, uint64_t seed);

#endif
