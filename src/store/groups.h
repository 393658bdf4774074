/* The groups in which a rank's engine exchanges weights, gradients and tokens (comm/grid.h has their ranks). All are
 * borrowed. NULL means this rank alone; `all` and `data` are never NULL. */
#ifndef STORE_GROUPS_H
#define STORE_GROUPS_H

#include "core/group.h"

#include <stddef.h>

struct parallel_groups {
    /* All ranks: loss and label sums and squares of gradients are summed over them. May be `data`. */
    struct group *all;
    /* Ranks with the same part of the model: gradients are summed over them, or they gather the embedding's output
     * gradients. */
    struct group *data;
    /* The sharding group: ranks of `data` that together own the model's state once. Weights are gathered in `gather`
     * and gradients are reduced in `reduce`: the same ranks with two communicators, so that neither waits for the
     * other. */
    struct group *gather, *reduce;
    /* Ranks of `reduce` on this rank's node, and one rank of each node. Sums by all-to-alls are first computed within
     * each node, so that nodes exchange less. NULL: the sums are computed in one stage. */
    struct group *near, *far;
    struct group *replicas; /* ranks of `data` that own the same shard; may be `data` itself */
    struct group *context;  /* ranks that share rows, each with a part of every row */
    /* Tensor parallelism: ranks with the same tokens and a part of every layer each. Units exchange activations in
     * `tensor`. `shared` is the same ranks with another communicator, which sums gradients of parameters that all of
     * them have and of which each computes a term. `kv_replicas`: the kv replicas among them, if there are any. */
    struct group *tensor, *shared, *kv_replicas;
    struct group *stages; /* stages of a pipeline, in order: each has other units, for the same tokens */
};

/* Returns groups in which every rank of `data` owns the whole state. */
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
