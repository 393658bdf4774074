/* Initial weights of a training. */
#ifndef STATE_INITIALISE_H
#define STATE_INITIALISE_H

#include "engine/engine.h"

/* Writes the initial weights (parameter_initial_floats, model/model.h) and zero moments of this rank's shards. Takes
 * seconds for a large model; a stop request (base/signals.h) ends it early, and the weights are then unusable. Local.
 */
void engine_initialise(struct engine *engine, uint64_t seed);

#endif
