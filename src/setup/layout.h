/* The layout of a training run: which ranks share rows, layers, stages and model state (the deck's section `parallel`).
 * Only layout_check and layout_most_shared accept a deck whose layout is open (estimate/layout_choice.h). Functions are
 * local unless noted. */
#ifndef SETUP_LAYOUT_H
#define SETUP_LAYOUT_H

#include "comm/grid.h"
#include "deck/deck.h"
#include "architecture/settings.h"
#include "store/store.h"

/* Returns the process grid of the deck. */
struct grid_shape layout_shape(const struct deck *deck);
/* As layout_shape, for nodes of `block` consecutive ranks (struct executor, node_block; 0: one node). If gradients are
 * reduced by all-to-alls, it also sets shape.near, so that they are summed on each node first and then between nodes.
 * This divides the traffic between nodes by the number of ranks of a sharding group on a node. */
struct grid_shape layout_shape_on(const struct deck *deck, int64_t ranks, int64_t block);
struct sharding layout_sharding(const struct deck *deck);

/* Returns the context parallelism of a model with kv_heads key and value heads. */
struct context_parallel layout_context_parallel(const struct deck *deck, int64_t kv_heads);
/* Returns the rank's part of each layer (tensor parallelism). */
struct tensor_parallel layout_tensor_parallel(const struct deck *deck, int rank);

/* Returns the rank's part of the pipeline of `ranks` ranks. */
struct pipeline_parallel layout_pipeline_parallel(const struct deck *deck, int64_t ranks, int rank);

/* Checks the deck for `ranks` ranks. ERROR_USER: the message names the key. The same on all ranks. */
int layout_check(const struct deck *deck, int64_t ranks);

/* Returns the highest level of enum deck_shard that the deck can have on `ranks` ranks. */
int layout_most_shared(const struct deck *deck, int64_t ranks);

/* Returns the name of a level of enum deck_shard other than "auto"; a static string. */
const char *layout_level(int shard);
/* Returns a description such as "8 ranks = 2 replicas x 4 shards (full), context 1", freed with free(). */
char *layout_text(const struct deck *deck, int64_t ranks);

/* The axes of the process grid, and the function that makes this rank's group along an axis under a name that users
 * see. LAYOUT_KV_REPLICAS: tensor ranks with the same key and value heads (kv replicas). */
enum layout_axis {
    LAYOUT_ALL,
    LAYOUT_DATA,
    LAYOUT_SHARD,
    LAYOUT_REPLICAS,
    LAYOUT_CONTEXT,
    LAYOUT_TENSOR,
    LAYOUT_KV_REPLICAS,
    LAYOUT_STAGES,
    LAYOUT_NEAR, /* ranks of a sharding group on one node */
    LAYOUT_FAR,  /* one rank of a sharding group on each node */
    LAYOUT_AXES
};
typedef struct group *layout_make(void *self, enum layout_axis axis, const char *name);

/* layout_along returns the size of the groups along an axis, or a rank's index in its group, depending on what
 * `numbers` has (comm/grid.h). layout_comm returns the communicator of an axis, which the grid owns. */
int layout_along(const struct grid_numbers *numbers, enum layout_axis axis);
struct comm *layout_comm(const struct grid *grid, enum layout_axis axis);
/* Returns how many ranks of a group are on the same node, with nodes of `node` consecutive ranks; the minimum over the
 * groups of the axis, at least 1. */
int64_t layout_neighbours(const struct grid_numbers *sizes, enum layout_axis axis, int64_t node);

/* Makes the groups of a rank, in the same order on all ranks; layout_destroy frees them. Collective if `make` is. The
 * executor, which may be NULL, decides which groups sum by copies (struct group). */
struct parallel_groups layout_groups(const struct grid_numbers *sizes, const struct executor *executor,
                                     layout_make *make, void *self);

/* Destroys all groups. Collective. */
void layout_destroy(struct parallel_groups *groups);

#endif
