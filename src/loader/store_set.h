/* The open stores of one stream, with their windows: token stores and Megatron data sets. */
#ifndef LOADER_STORE_SET_H
#define LOADER_STORE_SET_H

#include "comm/comm.h"
#include "loader/corpus.h"
#include "loader/lineage.h"
#include "loader/store_list.h"

struct store_set {
    struct store_list list; /* its weights sum to 1 in Megatron-LM's order */
    struct corpus *stores;  /* [list.count], all of one tokenizer, at least one window each */
};

/* Opens what the two texts name (loader/store_list.h). Collective over world. The same code on all ranks; user errors:
 * those of store_list_parse, corpus_open and corpus_open_windows; stores of different tokenizers; ranks that see
 * different stores; a store without tokens; fewer samples than Megatron-LM would need. Close the set in any case. */
int store_set_open(struct store_set *set, const char *paths, const char *weights, const struct windows_layout *layout,
                   const struct megatron_settings *megatron, struct comm *world);
void store_set_close(struct store_set *set);

/* corpus_recheck of each. Collective over world; an agreed code. */
int store_set_recheck(struct store_set *set, struct comm *world);

/* Of one store its checksum, of several a hash of theirs, in order. */
uint64_t store_set_checksum(const struct store_set *set);
/* Owned by the caller. */
struct data_lineage store_set_lineage(const struct store_set *set);

#endif
