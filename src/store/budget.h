/* What a rank allocates, by category. All device memory of a run is asked for here, before the first step. */
#ifndef STORE_BUDGET_H
#define STORE_BUDGET_H

#include "core/launch.h"

enum budget_category {
    BUDGET_WEIGHTS,   /* masters, and quantized copies */
    BUDGET_GRADIENTS, /* accumulated */
    BUDGET_OPTIMIZER, /* moments; histories and scales of delayed scaling */
    BUDGET_EXCHANGE, /* buffers of units whose weights are gathered, or gradients scattered; of stages for each other */
    BUDGET_ACTIVATIONS, /* kept from forward to backward, all slots; keys and values of sequences */
    BUDGET_TRANSIENT,   /* live inside one action */
    BUDGET_BATCH,       /* tokens, labels, segments, tables, statistics */
    BUDGET_WORKSPACE,   /* the executor's scratch */
    BUDGET_MARGIN,      /* not asked for: what the device takes by itself */
    BUDGET_HOST,        /* in the host's memory: kept tensors that are offloaded */
    BUDGET_CATEGORIES
};

struct budget_block {
    void *address;
    int64_t bytes;
    enum budget_category category;
    struct group *group; /* that it comes from; NULL: the executor */
};

struct budget {
    struct executor *executor; /* borrowed */
    struct budget_block *blocks;
    int count, capacity;
    int64_t bytes[BUDGET_CATEGORIES];
    int64_t workspace[STREAM_COUNT]; /* of BUDGET_WORKSPACE */
};

void budget_create(struct budget *budget, struct executor *executor);
/* Releases all of its memory. Collective over the groups that gave some. */
void budget_destroy(struct budget *budget);

/* Zero-filled memory of the device, or for BUDGET_HOST of the host; NULL for 0 bytes. */
void *budget_allocate(struct budget *budget, int64_t bytes, enum budget_category category);
/* The same for tensors that all_gather reads or writes: memory between which the group moves them best (core/group.h).
 * Collective over the group. NULL: the group is this rank alone. */
void *budget_allocate_gathered(struct budget *budget, int64_t bytes, enum budget_category category,
                               struct group *group);
/* Reserves, for each stream, the scratch that the launches of the planning executor `plan` (plan/plan.h) need, and
 * counts it. */
void budget_reserve(struct budget *budget, const struct executor *plan);

/* Of the device: all categories but BUDGET_HOST. */
int64_t budget_total(const struct budget *budget);
const char *budget_category_name(enum budget_category category);

#endif
