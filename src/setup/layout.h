/* The layout of a training: which ranks share rows of tokens and which the model's state, as the section `parallel` of
 * a deck has it. */
#ifndef SETUP_LAYOUT_H
#define SETUP_LAYOUT_H

#include "comm/grid.h"
#include "deck/deck.h"
#include "architecture/settings.h"
#include "store/store.h"

/* Of a deck that leaves nothing open (estimate/layout_choice.h). */
struct grid_shape layout_shape(const struct deck *deck);
/* As layout_shape, where the ranks lie on nodes in blocks of `block` (struct executor, node_block; 0: on one node).
 * Sums of gradients that travel by all-to-alls are then divided by nodes (shape.near): on each node first, then between
 * nodes, which receive as many times fewer bytes as a node has ranks of the group. */
struct grid_shape layout_shape_on(const struct deck *deck, int64_t ranks, int64_t block);
struct sharding layout_sharding(const struct deck *deck);

/* How a model of so many heads cuts rows. */
struct row_cut layout_rows(const struct deck *deck, int64_t kv_heads);
/* Which part of each layer a rank has. */
struct layer_cut layout_layers(const struct deck *deck, int rank);

/* Which units a rank of so many has. */
struct stage_cut layout_stages(const struct deck *deck, int64_t ranks, int rank);

/* What is wrong with the deck on so many ranks; it may leave something open. Local; the same on all ranks. ERROR_USER,
 * naming the key. */
int layout_check(const struct deck *deck, int64_t ranks);

/* The highest level of enum deck_shard that a deck on so many ranks can have. */
int layout_most_shared(const struct deck *deck, int64_t ranks);

/* enum deck_shard in a word; not of "auto". */
const char *layout_level(int shard);
/* "8 ranks = 2 replicas x 4 shards (full), context 1", freed with free(). */
char *layout_text(const struct deck *deck, int64_t ranks);

/* Makes a rank's group along an axis, under a name that users see. LAYOUT_ALIKE: tensor ranks with the same key and
 * value heads. */
enum layout_axis {
    LAYOUT_ALL,
    LAYOUT_DATA,
    LAYOUT_SHARD,
    LAYOUT_REPLICAS,
    LAYOUT_CONTEXT,
    LAYOUT_TENSOR,
    LAYOUT_ALIKE,
    LAYOUT_STAGES,
    LAYOUT_NEAR, /* of a sharding group, the ranks on a node */
    LAYOUT_FAR,  /* and one rank of each node */
    LAYOUT_AXES
};
typedef struct group *layout_make(void *self, enum layout_axis axis, const char *name);

/* The size of the groups along an axis, or a rank's number in its own. */
int layout_along(const struct grid_numbers *numbers, enum layout_axis axis);
struct comm *layout_comm(const struct grid *grid, enum layout_axis axis);
/* How many of a group's ranks are on a node with each other, where each node has `node` ranks that follow one another;
 * where groups lie unlike, at least so many. */
int64_t layout_neighbours(const struct grid_numbers *sizes, enum layout_axis axis, int64_t node);

/* The groups that ranks need, made in the same order on all ranks. Collective if `make` is. The executor, which may be
 * NULL, decides which groups make sums of copies (struct group). */
struct parallel_groups layout_groups(const struct grid_numbers *sizes, const struct executor *executor,
                                     layout_make *make, void *self);

/* Destroys all. Collective. */
void layout_destroy(struct parallel_groups *groups);

#endif
