/* Provenance: the stores that a position in the data belongs to, so that a run may continue with other stores. Stores
 * are recognised by content, wherever they are now; a path whose content has changed is detected. */
#ifndef LOADER_PROVENANCE_H
#define LOADER_PROVENANCE_H

#include <stdint.h>

/* content[stores]: checksums of the stores' contents. path[stores]: hashes of their paths as in the deck. Both are
 * signed, as in checkpoints. */
struct data_provenance {
    int64_t stores;
    int64_t *content, *path;
};

struct data_provenance provenance_create(int64_t stores);
void provenance_destroy(struct data_provenance *provenance);

/* Returns the hash that stands for a path. */
int64_t provenance_path(const char *path);

/* Sets from[new_->stores] to each store's index in `old`, -1 if it is new. Each store of `old` is used once; stores
 * with equal content are matched in order. Returns the first new store whose path belonged to an unmatched store of
 * `old`, or -1. */
int64_t provenance_match(const struct data_provenance *old, const struct data_provenance *new_, int64_t *from);

#endif
