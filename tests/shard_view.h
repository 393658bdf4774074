/* A sharded view of a whole store, for tests of code that works on shards. Of each flat buffer it shows one of `shards`
 * uneven shards, whose ends are inside rows. Rank r has shard r % shards, so several ranks may have the same one. */
#ifndef TESTS_SHARD_VIEW_H
#define TESTS_SHARD_VIEW_H

#include "comm/comm.h"
#include "engine/engine.h"

struct view {
    struct weight_store store;
    struct store_class class;
    struct weight_store *whole;
    int rank, size, shards;
    bool forgets_others; /* an injected fault: other ranks with the same shard are not reported */
};

static inline int64_t view_bound(const struct view *view, int64_t count, int shard)
{
    return shard == view->shards ? count : (count * shard / view->shards + shard) % (count + 1);
}

static inline struct store_shard view_shard(struct weight_store *store, struct unit *unit, enum storage_class storage)
{
    const struct view *view = store->self;
    struct store_shard shard = view->whole->class->shard(view->whole, unit, storage);
    const int shard_rank = view->rank % view->shards;
    int64_t elements = shard.weight.value.cols, first = view_bound(view, elements, shard_rank);
    int64_t count = view_bound(view, elements, shard_rank + 1) - first;
    shard.first = first;
    shard.owner = view->forgets_others ? 0 : view->rank / view->shards;
    shard.owners = view->forgets_others ? 1 : (view->size - shard_rank + view->shards - 1) / view->shards;
    struct tensor *const tensors[] = {&shard.weight.value, &shard.weight.low, &shard.gradient, &shard.m, &shard.v};
    for (int i = 0; i < 5; i++)
        if (tensor_present(tensors[i]))
            *tensors[i] = tensor_columns(tensors[i], first, count);
    return shard;
}

static inline void view_open(struct view *view, struct engine *engine, struct comm *comm, int shards)
{
    view->class = *engine->store->class;
    view->class.shard = view_shard;
    view->whole = engine->store;
    view->rank = comm->rank;
    view->size = comm->size;
    view->shards = shards;
    view->forgets_others = false;
    view->store = (struct weight_store){.class = &view->class, .self = view};
    engine->store = &view->store;
}

static inline void view_close(struct view *view, struct engine *engine)
{
    engine->store = view->whole;
}

#endif
