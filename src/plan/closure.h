/* The recompute closure: which sections of a unit's forward run again before its backward, when the keep table drops
 * some of the tensors that backward reads. */
#ifndef PLAN_CLOSURE_H
#define PLAN_CLOSURE_H

#include "core/id_set.h"
#include "plan/log.h"

/* Where the tensor of an id lies. An id may have several; memory that no entry names (weights, the unit's input) is
 * always there. */
struct closure_tensor {
    const void *base;
    int64_t bytes;
    int id;
};

/* What a unit did. */
struct closure_unit {
    struct plan_span forward;
    const int *section; /* for each entry of forward: id of the WANT section that launched it; -1 = none */
    struct plan_span backward;
    const struct closure_tensor *tensors;
    int tensor_count;
};

/* The smallest set of ids such that
 *   every id of `dropped` that backward reads is in it;
 *   the sections that write the tensor of a member are in it (a section may write tensors of other ids beside its own);
 *   every id of `dropped` that a section in it reads from outside itself is in it.
 * Running the sections of the set again, in forward's order, makes all that backward lacks. Fatal when a member is
 * written by no section, since it could not be made again. */
struct id_set closure_find(const struct closure_unit *unit, const struct id_set *dropped);

#endif
