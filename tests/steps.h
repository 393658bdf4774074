/* For test programs that compare the steps of toys: micro-batches, a few steps of a toy, and the state after them. */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

#include "check.h"

#include "base/memory.h"
#include "ref/toy.h"

#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 4, STEPS = 3 };

static struct batch batches[MICRO_BATCHES];

static inline void batches_make(void)
{
    for (int m = 0; m < MICRO_BATCHES; m++)
        toy_batch(&batches[m], 2, 48, (uint64_t)m);
}

/* Returns the default options of a toy whose layers have this recipe. */
static inline struct toy_options options_of(struct executor *executor, enum toy_kind kind, int recipe)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    return options;
}

/* Takes a few steps, and returns the state after them. */
static inline char *run_steps(struct toy *toy, int slots, bool split, int64_t *bytes)
{
    struct schedule schedule = schedule_create(MICRO_BATCHES, slots, split);
    for (int s = 0; s < STEPS; s++)
        engine_step(&toy->engine, &schedule, batches, 1e-2);
    schedule_destroy(&schedule);
    return toy_state(toy, bytes);
}

/* Returns the state of a new toy after a few steps. */
static inline char *state_of(const struct toy_options *options, int64_t *bytes)
{
    struct toy toy;
    toy_create(&toy, options);
    char *state = run_steps(&toy, options->slots, options->split_backward, bytes);
    toy_destroy(&toy);
    return state;
}

static inline char *plain_state(struct executor *executor, struct toy_options options, int64_t *bytes)
{
    options.executor = executor;
    options.slots = 1;
    options.split_backward = false;
    return state_of(&options, bytes);
}

static inline bool same(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return a_bytes == b_bytes && memcmp(a, b, (size_t)a_bytes) == 0;
}

static inline void give_policy(struct recompute *recompute, int layer, int policy)
{
    struct layer_list *list = &recompute->layers[policy % (DECK_RECOMPUTE_FULL + 1)];
    list->ranges[list->count].first = list->ranges[list->count].last = layer;
    list->count++;
}

#endif
