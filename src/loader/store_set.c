#include "loader/store_set.h"
#include "base/error.h"
#include "base/memory.h"
#include "loader/megatron_blend.h"

#include <string.h>
#include <xxhash.h>

static int open_stores(struct store_set *set, const char *paths, const char *weights,
                       const struct megatron_settings *megatron)
{
    int code = store_list_parse(&set->list, paths, weights);
    set->stores = memory_allocate(set->list.count * (int64_t)sizeof *set->stores);
    for (int d = 0; d < set->list.count && code == ERROR_NONE; d++) {
        struct data_set *store = &set->stores[d];
        code = data_set_open(store, set->list.paths[d], megatron);
        if (code == ERROR_NONE && strcmp(store->tokenizer->name, set->stores[0].tokenizer->name) != 0)
            code = error_user("key data.train: %s has %s tokens, but %s has %s tokens; prepare both with one tokenizer "
                              "(of Megatron data sets, data.tokenizer names it)",
                              set->list.paths[0], set->stores[0].tokenizer->name, set->list.paths[d],
                              store->tokenizer->name);
    }
    return code;
}

/* Checks that all ranks see the same stores; otherwise global batches would differ silently. Whether the content of a
 * token store matches its checksum is checked when its window index is made (data/windows.h). */
static int compare_stores(const struct store_set *set, struct comm *world)
{
    int code = ERROR_NONE;
    if (comm_max_i64(world, set->list.count) != -comm_max_i64(world, -set->list.count))
        return error_user(
            "key data.train: rank %d finds %d stores, other ranks another number; put the same files on all nodes",
            world->rank, set->list.count);
    for (int d = 0; d < set->list.count; d++) {
        const struct token_store *store = set->stores[d].store;
        const struct megatron_store *megatron = set->stores[d].megatron;
        const uint64_t mine[3] = {data_set_checksum(&set->stores[d]),
                                  (uint64_t)(store != NULL ? store->sequences : megatron->sequences),
                                  (uint64_t)(store != NULL ? store->token_count : megatron->token_count)};
        uint64_t first[3];
        memcpy(first, mine, sizeof first);
        comm_broadcast(world, first, sizeof first, 0);
        if (memcmp(first, mine, sizeof first) != 0)
            code = error_user("%s: rank %d sees another store than rank 0; put the same file on all nodes",
                              set->list.paths[d], world->rank);
    }
    return code;
}

/* Returns the number of samples that the run consumes of store d in Megatron-LM's order; 0: at most one epoch, for
 * several stores without weights. */
static int64_t samples_of(const struct store_set *set, int d, const struct megatron_settings *megatron)
{
    if (set->list.weighted)
        return megatron_blend_samples(set->list.weights[d], megatron->samples);
    return set->list.count == 1 ? megatron->samples : 0;
}

static int check_samples(const struct store_set *set, const struct megatron_settings *megatron)
{
    int64_t all = 0;
    for (int d = 0; d < set->list.count; d++)
        all += data_set_source(&set->stores[d])->windows;
    if (!megatron->ordered || all >= megatron->samples)
        return ERROR_NONE;
    return error_user(
        "key data.weights: not set, so data.order = \"megatron\" uses each data set once, which gives %lld samples, "
        "but train.steps x train.global_batch = %lld; set data.weights, or lower train.steps",
        (long long)all, (long long)megatron->samples);
}

int store_set_open(struct store_set *set, const char *paths, const char *weights, const struct windows_layout *layout,
                   const struct megatron_settings *megatron, struct comm *world)
{
    *set = (struct store_set){0};
    int code = comm_agree(world, open_stores(set, paths, weights, megatron));
    if (code == ERROR_NONE)
        code = comm_agree(world, compare_stores(set, world));
    if (code == ERROR_NONE && megatron->ordered && set->list.weighted)
        megatron_blend_normalise(set->list.weights, set->list.count);
    for (int d = 0; d < set->list.count && code == ERROR_NONE; d++)
        code = data_set_open_windows(&set->stores[d], layout, megatron, samples_of(set, d, megatron), world);
    if (code == ERROR_NONE)
        code = comm_agree(world, check_samples(set, megatron));
    return code;
}

void store_set_close(struct store_set *set)
{
    for (int d = 0; d < set->list.count; d++)
        data_set_close(&set->stores[d]);
    memory_free(set->stores);
    store_list_destroy(&set->list);
}

int store_set_recheck(struct store_set *set, struct comm *world)
{
    int code = ERROR_NONE;
    for (int d = 0; d < set->list.count && code == ERROR_NONE; d++)
        code = data_set_recheck(&set->stores[d]);
    return comm_agree(world, code);
}

uint64_t store_set_checksum(const struct store_set *set)
{
    if (set->list.count == 1)
        return data_set_checksum(&set->stores[0]);
    uint64_t *checksums = memory_allocate(set->list.count * (int64_t)sizeof *checksums);
    for (int d = 0; d < set->list.count; d++)
        checksums[d] = data_set_checksum(&set->stores[d]);
    uint64_t hash = XXH3_64bits(checksums, (size_t)set->list.count * sizeof *checksums);
    memory_free(checksums);
    return hash;
}

struct data_provenance store_set_provenance(const struct store_set *set)
{
    struct data_provenance provenance = provenance_create(set->list.count);
    for (int d = 0; d < set->list.count; d++) {
        provenance.content[d] = (int64_t)data_set_checksum(&set->stores[d]);
        provenance.path[d] = provenance_path(set->list.paths[d]);
    }
    return provenance;
}
