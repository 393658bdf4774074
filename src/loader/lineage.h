/* Which stores a place in the data belongs to, so that a run may go on with other ones: stores are known again by their
 * content, wherever they lie now; a path whose content is another one now is noticed. */
#ifndef LOADER_LINEAGE_H
#define LOADER_LINEAGE_H

#include <stdint.h>

/* [stores] each: checksums of the stores' contents, hashes of their paths as the deck has them. As signed numbers, for
 * files. */
struct data_lineage {
    int64_t stores;
    int64_t *content, *path;
};

struct data_lineage lineage_create(int64_t stores);
void lineage_destroy(struct data_lineage *lineage);

/* The number that stands for a path. */
int64_t lineage_path(const char *path);

/* from[new_->stores]: where each store was in `old`, -1 for one that is new. Each of `old` is given once, in order,
 * where several have the same content. Returns -1, or the first store that is new under the path of one that is gone.
 */
int64_t lineage_match(const struct data_lineage *old, const struct data_lineage *new_, int64_t *from);

#endif
