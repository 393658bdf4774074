/* The groups in which a rank's engine exchanges weights, gradients and tokens (comm/grid.h has their ranks). All are
 * borrowed. NULL is this rank alone, but for `all` and `data`, which are always there. */
#ifndef STORE_GROUPS_H
#define STORE_GROUPS_H

#include "core/group.h"

#include <stddef.h>

struct parallel_groups {
    /* All ranks: the sums of losses and labels and the squares of gradients are summed over them; may be `data`. */
    struct group *all;
    /* Have the same part of the model: gradients are summed over them, or the embedding's gradient is made of what they
     * gather. */
    struct group *data;
    /* Of these, ranks that hold the model's state once between them. Weights are gathered in one group and gradients
     * reduced in the other: the same ranks with a communicator each, so that neither waits for the other. */
    struct group *gather, *reduce;
    /* Of `reduce`, the ranks on this rank's node, and one rank of each node: sums that are made of all-to-alls are
     * first made on each node, so that nodes exchange less. NULL: they are made in one step. */
    struct group *near, *far;
    struct group *replicas; /* of `data`, ranks that hold the same cut of the state; may be `data` itself */
    struct group *context;  /* share rows of tokens, each with a part of every row */
    /* Share tokens, each with a part of every layer: units exchange activations in `tensor`. The same ranks with
     * another communicator sum gradients of parameters that all of them have, where each has made a part of the sum;
     * `alike` are those of them with the same key and value heads, where not all have the same. */
    struct group *tensor, *shared, *alike;
    struct group *stages; /* of a pipeline, in order: each has other units, for the same tokens */
};

/* Every rank of the group holds everything. */
static inline struct parallel_groups groups_replicated(struct group *data)
{
    return (struct parallel_groups){.all = data, .data = data, .replicas = data};
}

static inline int group_size(const struct group *group)
{
    return group != NULL ? group->size : 1;
}

static inline int group_rank(const struct group *group)
{
    return group != NULL ? group->rank : 0;
}

#endif
