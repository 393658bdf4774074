/* The recompute closure: which sections of a unit's forward run again before its backward, if the recompute policy
 * drops some of the tensors that backward reads. */
#ifndef PLAN_CLOSURE_H
#define PLAN_CLOSURE_H

#include "core/id_set.h"
#include "plan/log.h"

/* The memory of an id's tensor. An id may have several tensors. Memory without an entry (weights, the unit's input) is
 * always available. */
struct closure_tensor {
    const void *base;
    int64_t bytes;
    int id;
};

/* The logged launches of a unit. */
struct closure_unit {
    struct plan_span forward;
    const int *section; /* for each entry of forward: id of its section; -1 = none */
    struct plan_span backward;
    const struct closure_tensor *tensors;
    int tensor_count;
};

/* Returns the smallest set of ids with these properties:
 *
 *    every id of `dropped` that backward reads before it writes it is in the set;
 *    the sections that write the tensor of a member are in the set (a section may write tensors of several ids);
 *    every id of `dropped` that a section of the set reads from outside itself is in the set.
 *
 * Running the sections of the set again, in forward's order, recomputes everything that backward lacks. Fatal if no
 * section writes a member of the set, since it could not be recomputed. */
struct id_set closure_find(const struct closure_unit *unit, const struct id_set *dropped);

#endif
