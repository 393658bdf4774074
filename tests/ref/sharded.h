/* A store that holds one cut of each unit on each rank of its group (ZeRO stage 3; Rajbhandari et al. 2020): weights
 * are gathered before use, one unit ahead, and every contribution to a gradient is scattered as soon as its unit is
 * closed. The second user of the store's seam: right, not fast. */
#ifndef TESTS_REF_SHARDED_H
#define TESTS_REF_SHARDED_H

#include "step/store.h"

store_make sharded_store_create;

/* The same, whose buffers are NaN wherever nothing is held. */
store_make sharded_store_create_poisoned;

/* What streams wait for, by purpose; stores leave out all waits of the one that is set here, a planted fault. */
enum sharded_wait {
    SHARDED_NONE,
    SHARDED_BEGUN,     /* gathers: for the action before */
    SHARDED_GATHERED,  /* a unit: for its weights */
    SHARDED_RELEASED,  /* a gather: for the unit that has its buffer */
    SHARDED_COMPLETE,  /* a scatter: for the unit's gradient */
    SHARDED_SCATTERED, /* a unit: for the scatter from its gradient buffer */
    SHARDED_SUMMED,    /* the update: for scatters */
    SHARDED_WAITS
};
extern enum sharded_wait sharded_left_out;

#endif
