/* The layout of a training: which ranks share rows of tokens and which the model's state, as the section `parallel` of
 * a deck has it. */
#ifndef TRAIN_LAYOUT_H
#define TRAIN_LAYOUT_H

#include "comm/grid.h"
#include "deck/deck.h"
#include "model/settings.h"
#include "step/store.h"

/* Where parallel.shard is "auto", ranks are grouped as if they shared the state. */
struct grid_shape layout_shape(const struct deck *deck);
/* parallel.shard must not be "auto" (train/forecast.h, forecast_choose). */
struct sharding layout_sharding(const struct deck *deck);

/* How a model of so many heads cuts rows. */
struct row_cut layout_rows(const struct deck *deck, int64_t kv_heads);

/* What is wrong with it on so many ranks. Local; the same on all ranks. ERROR_USER, naming the key. */
int layout_check(const struct deck *deck, int64_t ranks);

/* enum deck_shard in a word; not of "auto". */
const char *layout_level(int shard);
/* "8 ranks = 2 replicas x 4 shards (full), context 1", freed with free(). */
char *layout_text(const struct deck *deck, int64_t ranks);

/* Makes a rank's group along an axis, under a name that users see. */
enum layout_axis { LAYOUT_DATA, LAYOUT_SHARD, LAYOUT_REPLICAS, LAYOUT_CONTEXT };
typedef struct group *layout_make(void *self, enum layout_axis axis, const char *name);

/* The groups that ranks need: in one order, the same on all ranks. Collective if `make` is. */
struct groups layout_groups(const struct grid_numbers *sizes, layout_make *make, void *self);

/* The ranks hold everything after all: destroys the groups of those that share the state. Collective. */
void layout_unshard(struct groups *groups);
/* Destroys all. Collective. */
void layout_destroy(struct groups *groups);

#endif
