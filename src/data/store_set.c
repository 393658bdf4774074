#include "data/store_set.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>
#include <xxhash.h>

static int open_stores(struct store_set *set, const char *paths, const char *weights)
{
    int code = store_list_parse(&set->list, paths, weights);
    set->stores = memory_allocate(set->list.count * (int64_t)sizeof *set->stores);
    set->windows = memory_allocate(set->list.count * (int64_t)sizeof *set->windows);
    for (int d = 0; d < set->list.count && code == ERROR_NONE; d++) {
        code = token_store_open(&set->stores[d], set->list.paths[d]);
        if (code == ERROR_NONE && set->stores[d]->tokenizer != set->stores[0]->tokenizer)
            code = error_user("key data.train: %s has %s tokens, but %s has %s tokens; prepare both with one tokenizer",
                              set->list.paths[0], set->stores[0]->tokenizer->name, set->list.paths[d],
                              set->stores[d]->tokenizer->name);
    }
    return code;
}

/* Every rank must see the same stores; else global batches would differ without a word. That each copy holds what its
 * checksum says is found when its window index is made (data/windows.h). */
static int compare_stores(const struct store_set *set, struct comm *world)
{
    int code = ERROR_NONE;
    if (comm_max_i64(world, set->list.count) != -comm_max_i64(world, -set->list.count))
        return error_user("key data.train: rank %d finds %d stores, others another number; put one copy on all nodes",
                          world->rank, set->list.count);
    for (int d = 0; d < set->list.count; d++) {
        const struct token_store *store = set->stores[d];
        const uint64_t mine[3] = {store->checksum, (uint64_t)store->sequences, (uint64_t)store->token_count};
        uint64_t first[3];
        memcpy(first, mine, sizeof first);
        comm_broadcast(world, first, sizeof first, 0);
        if (memcmp(first, mine, sizeof first) != 0)
            code = error_user("%s: rank %d sees another store than rank 0; put one copy on all nodes",
                              set->list.paths[d], world->rank);
    }
    return code;
}

static int check_windows(const struct store_set *set)
{
    for (int d = 0; d < set->list.count; d++)
        if (set->windows[d]->index.header.windows == 0)
            return error_user("%s: holds no tokens; prepare it from files with sequences", set->list.paths[d]);
    return ERROR_NONE;
}

int store_set_open(struct store_set *set, const char *paths, const char *weights, const struct windows_layout *layout,
                   struct comm *world)
{
    *set = (struct store_set){0};
    int code = comm_agree(world, open_stores(set, paths, weights));
    if (code == ERROR_NONE)
        code = comm_agree(world, compare_stores(set, world));
    for (int d = 0; d < set->list.count && code == ERROR_NONE; d++)
        code = windows_open(&set->windows[d], set->stores[d], layout, world);
    if (code == ERROR_NONE)
        code = comm_agree(world, check_windows(set));
    return code;
}

void store_set_close(struct store_set *set)
{
    for (int d = 0; d < set->list.count; d++) {
        windows_close(set->windows[d]);
        token_store_close(set->stores[d]);
    }
    memory_free(set->windows);
    memory_free(set->stores);
    store_list_destroy(&set->list);
}

uint64_t store_set_checksum(const struct store_set *set)
{
    if (set->list.count == 1)
        return set->stores[0]->checksum;
    uint64_t *checksums = memory_allocate(set->list.count * (int64_t)sizeof *checksums);
    for (int d = 0; d < set->list.count; d++)
        checksums[d] = set->stores[d]->checksum;
    uint64_t hash = XXH3_64bits(checksums, (size_t)set->list.count * sizeof *checksums);
    memory_free(checksums);
    return hash;
}
