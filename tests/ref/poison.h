/* A store in front of an engine's own that fills unused memory with NaN, for tests. Gathered weights become NaN when
 * their unit releases them; gradient contributions are NaN until their unit writes them; memory that lives within one
 * action (engine/memory.h) is NaN at its beginning. Whole weights that other ranks have updated become NaN at the
 * beginning of the action after the update. A unit that reads too late or too early, or does not write all of its
 * gradients, therefore makes the losses NaN. */
#ifndef TESTS_REF_POISON_H
#define TESTS_REF_POISON_H

#include "engine/engine.h"

struct poison {
    struct weight_store store; /* first, so that a pointer to it is a pointer to this */
    struct store_class class;
    struct weight_store *inner;
    const struct engine *engine;
};

/* Installs the store; call it before the engine's first step. `poison` must live as long as the engine. */
void poison_store(struct poison *poison, struct engine *engine);

#endif
