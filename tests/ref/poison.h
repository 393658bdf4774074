/* A store in front of an engine's own, for tests: what is gathered is NaN once its unit has released it, a contribution
 * to gradients is NaN until its unit writes it, and so is whatever lives inside one action (engine/memory.h) when that
 * begins. Where weights are whole, those that other ranks have updated are NaN when the action after the update begins.
 * So a unit that reads too late or too early, or leaves some of its gradients alone, ruins the losses. */
#ifndef TESTS_REF_POISON_H
#define TESTS_REF_POISON_H

#include "engine/engine.h"

struct poison {
    struct weight_store store; /* first, so that a pointer to it is a pointer to this */
    struct store_class class;
    struct weight_store *inner;
    const struct engine *engine;
};

/* Before the engine's first step. `poison` must live as long as the engine. */
void poison_store(struct poison *poison, struct engine *engine);

#endif
