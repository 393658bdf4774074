/* Memory of a rank, by category. All device memory of a run is allocated here, before the first step. */
#ifndef STORE_BUDGET_H
#define STORE_BUDGET_H

#include "core/launch.h"

enum budget_category {
    BUDGET_WEIGHTS,     /* master weights, and quantized weights */
    BUDGET_GRADIENTS,   /* accumulated gradients */
    BUDGET_OPTIMIZER,   /* moments; histories and scales of delayed scaling */
    BUDGET_EXCHANGE,    /* buffers for gathered weights and momenta, gradients to reduce, and messages between stages */
    BUDGET_ACTIVATIONS, /* kept from forward to backward, all slots; keys and values of sequences */
    BUDGET_TRANSIENT,   /* activations of a single action; matrices of an update by Muon */
    BUDGET_BATCH,       /* tokens, labels, segments, tables, statistics */
    BUDGET_WORKSPACE,   /* the executor's scratch */
    BUDGET_MARGIN,      /* not allocated here: what the device's libraries use */
    BUDGET_HOST,        /* host memory: offloaded activations */
    BUDGET_CATEGORIES
};

struct budget_block {
    void *address;
    int64_t bytes;
    enum budget_category category;
    struct group *group; /* the group whose memory it is; NULL: the executor's */
};

struct budget {
    struct executor *executor; /* borrowed */
    struct budget_block *blocks;
    int count, capacity;
    int64_t bytes[BUDGET_CATEGORIES];
    int64_t workspace[STREAM_COUNT]; /* of BUDGET_WORKSPACE, by stream */
};

void budget_create(struct budget *budget, struct executor *executor);
/* Releases all memory of the budget. Collective over the groups that allocated some. */
void budget_destroy(struct budget *budget);

/* Returns zero-filled memory of the device, or of the host for BUDGET_HOST; NULL for 0 bytes. The budget owns it. */
void *budget_allocate(struct budget *budget, int64_t bytes, enum budget_category category);
/* As budget_allocate, for tensors that all_gather reads or writes: memory of the group, between which its transfers are
 * fastest (core/group.h). Collective over the group. group NULL: this rank alone. */
void *budget_allocate_gathered(struct budget *budget, int64_t bytes, enum budget_category category,
                               struct group *group);
/* Reserves and counts, for each stream, the scratch that the launches logged by the planning executor `plan`
 * (plan/plan.h) need. */
void budget_reserve(struct budget *budget, const struct executor *plan);

/* Returns the bytes of device memory: all categories but BUDGET_HOST. */
int64_t budget_total(const struct budget *budget);
const char *budget_category_name(enum budget_category category);

#endif
