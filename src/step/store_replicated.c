#include "base/memory.h"
#include "step/store.h"

struct holding {
    struct shard shards[STORAGE_COUNT];
    struct tensor gradients; /* those of the shards one after the other, so that one collective sums them */
    char *copies;            /* of the weights; NULL: none */
    struct event complete;   /* the gradients are complete on this rank */
    struct event summed;     /* and over the group */
};

struct replicated {
    struct store store;
    struct stream *reduce;
    struct group *group;
    const struct context *context;
    struct holding *units;    /* [unit_count] */
    struct holding **pending; /* [unit_count], pending_count in use: complete, their sums over the group not started */
    int pending_count;
};

static struct tensor flat_tensor(struct budget *budget, int64_t count, enum dtype dtype, enum budget_category category)
{
    return tensor_vector(budget_allocate(budget, count * dtype_size(dtype), category), dtype, count);
}

/* Every rank holds everything: nothing is brought. */
static void begin(struct store *store, struct unit *const *units, int count, struct stream *stream)
{
    (void)store, (void)units, (void)count, (void)stream;
}

static void acquire(struct store *store, struct unit *unit, struct stream *stream)
{
    (void)stream;
    struct replicated *own = store->self;
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->weight_base[s] = own->units[unit->index].shards[s].weight.value.data;
    unit->copy_base = own->units[unit->index].copies;
}

static void release(struct store *store, struct unit *unit, struct stream *stream)
{
    (void)store, (void)stream;
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->weight_base[s] = NULL;
    unit->copy_base = NULL;
}

static void updated(struct store *store, struct unit *unit, struct stream *stream)
{
    struct replicated *own = store->self;
    if (own->units[unit->index].copies == NULL)
        return;
    struct unit *lender = unit_lender(unit);
    if (lender != NULL)
        acquire(store, lender, stream);
    acquire(store, unit, stream);
    unit->class->copy_weights(own->context, unit);
    release(store, unit, stream);
    if (lender != NULL)
        release(store, lender, stream);
}

static void gradients_open(struct store *store, struct unit *unit, struct stream *stream, bool fresh)
{
    (void)stream;
    struct replicated *own = store->self;
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->gradient_base[s] = own->units[unit->index].shards[s].gradient.data;
    unit->gradient_fresh = fresh;
}

static void gradients_close(struct store *store, struct unit *unit, struct stream *stream, bool last)
{
    (void)stream;
    struct replicated *own = store->self;
    struct holding *holding = &own->units[unit->index];
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->gradient_base[s] = NULL;
    if (last && own->group->size > 1 && holding->gradients.cols > 0)
        own->pending[own->pending_count++] = holding;
}

static void start_sum(struct replicated *own, struct holding *holding, struct stream *stream)
{
    event_record(&holding->complete, stream);
    event_wait(&holding->complete, own->reduce);
    LAUNCH(own->reduce, ALL_REDUCE, all_reduce, .group = own->group, .x = holding->gradients);
    event_record(&holding->summed, own->reduce);
}

static void start_transfers(struct store *store, struct stream *stream)
{
    struct replicated *own = store->self;
    for (int i = 0; i < own->pending_count; i++)
        start_sum(own, own->pending[i], stream);
    own->pending_count = 0;
}

static void gradients_wait(struct store *store, struct unit *unit, struct stream *stream)
{
    struct replicated *own = store->self;
    struct holding *holding = &own->units[unit->index];
    if (own->group->size > 1 && holding->gradients.cols > 0)
        event_wait(&holding->summed, stream);
}

static struct shard shard_of(struct store *store, struct unit *unit, enum storage storage)
{
    struct replicated *own = store->self;
    return own->units[unit->index].shards[storage];
}

static void destroy(struct store *store)
{
    struct replicated *own = store->self;
    memory_free(own->pending);
    memory_free(own->units);
    memory_free(own);
}

static const struct store_class replicated_class = {.name = "replicated",
                                                    .begin = begin,
                                                    .acquire = acquire,
                                                    .release = release,
                                                    .gradients_open = gradients_open,
                                                    .gradients_close = gradients_close,
                                                    .start_transfers = start_transfers,
                                                    .end = start_transfers,
                                                    .gradients_wait = gradients_wait,
                                                    .updated = updated,
                                                    .shard = shard_of,
                                                    .destroy = destroy};

static void create_holding(struct holding *holding, const struct unit *unit, const struct store_request *r)
{
    int64_t total = 0, first = 0;
    for (int s = 0; s < STORAGE_COUNT; s++)
        total += unit->elements[s];
    if (r->trains) {
        holding->gradients = flat_tensor(r->budget, total, r->statistic, BUDGET_GRADIENTS);
        if (unit->copy_bytes > 0)
            holding->copies = budget_allocate(r->budget, unit->copy_bytes, BUDGET_WEIGHTS);
    }
    for (int s = 0; s < STORAGE_COUNT; s++) {
        int64_t count = unit->elements[s];
        struct shard *shard = &holding->shards[s];
        shard->holder = r->groups->data->rank;
        shard->holders = r->groups->data->size;
        shard->weight.value = flat_tensor(r->budget, count, r->compute, BUDGET_WEIGHTS);
        if (!r->trains || count == 0)
            continue;
        if (r->compute != r->statistic)
            shard->weight.low = flat_tensor(r->budget, count, DTYPE_I16, BUDGET_WEIGHTS);
        shard->gradient = tensor_columns(&holding->gradients, first, count);
        first += count;
        shard->m = flat_tensor(r->budget, count, r->statistic, BUDGET_OPTIMIZER);
        shard->v = flat_tensor(r->budget, count, r->statistic, BUDGET_OPTIMIZER);
    }
}

struct store *store_create_replicated(const struct store_request *r)
{
    struct replicated *own = memory_allocate(sizeof *own);
    own->store = (struct store){&replicated_class, own};
    own->reduce = &r->streams[STREAM_REDUCE];
    own->group = r->groups->data;
    own->context = r->context;
    own->units = memory_allocate((int64_t)sizeof *own->units * r->model->unit_count);
    own->pending = memory_allocate((int64_t)sizeof *own->pending * r->model->unit_count);
    for (int u = 0; u < r->model->unit_count; u++)
        create_holding(&own->units[u], &r->model->units[u], r);
    return &own->store;
}
