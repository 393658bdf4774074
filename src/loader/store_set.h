/* The open stores of one stream, with their windows: token stores and Megatron data sets. */
#ifndef LOADER_STORE_SET_H
#define LOADER_STORE_SET_H

#include "comm/comm.h"
#include "loader/data_set.h"
#include "loader/provenance.h"
#include "loader/store_list.h"

struct store_set {
    struct store_list list;  /* in Megatron-LM's order its weights sum to 1 */
    struct data_set *stores; /* [list.count], all with the same tokenizer, each with at least one window */
};

/* Opens the stores of `paths` with `weights` (loader/store_list.h). Collective over world, with the same code on all
 * ranks. Errors: as in store_list_parse, data_set_open and data_set_open_windows; ERROR_USER: stores of different
 * tokenizers, ranks that see different stores, a store without tokens, fewer samples than Megatron-LM would need. Close
 * the set also after an error. */
int store_set_open(struct store_set *set, const char *paths, const char *weights, const struct windows_layout *layout,
                   const struct megatron_settings *megatron, struct comm *world);
void store_set_close(struct store_set *set);

/* Calls data_set_recheck for each store. Collective over world, with the same code on all ranks. */
int store_set_recheck(struct store_set *set, struct comm *world);

/* Returns the checksum of a single store, or a hash of the checksums of several, in order. */
uint64_t store_set_checksum(const struct store_set *set);
/* Returns the provenance; the caller destroys it. */
struct data_provenance store_set_provenance(const struct store_set *set);

#endif
