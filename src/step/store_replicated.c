#include "base/memory.h"
#include "step/store.h"

struct holding {
    struct shard shards[STORAGE_COUNT];
    struct tensor gradients; /* those of the shards one after the other, so that one collective sums them */
    struct event complete;   /* the gradients are complete on this rank */
    struct event summed;     /* and over the group */
    bool waits;              /* they are, and their sum over the group has not started */
};

struct replicated {
    struct store store;
    struct stream *communication;
    struct group *data_group;
    struct holding *units; /* [unit_count] */
    int unit_count;
    int waiting, first_waiting; /* units whose `waits` is set; none of a higher index than first_waiting is */
};

static struct tensor flat_tensor(struct budget *budget, int64_t count, enum dtype dtype, enum budget_category category)
{
    return tensor_vector(budget_allocate(budget, count * dtype_size(dtype), category), dtype, count);
}

/* Every rank holds everything: nothing is brought, and nothing else is made of the weights. */
static void begin(struct store *store, struct unit *const *units, int count, struct stream *stream)
{
    (void)store, (void)units, (void)count, (void)stream;
}

static void updated(struct store *store, struct unit *unit, struct stream *stream)
{
    (void)store, (void)unit, (void)stream;
}

static void acquire(struct store *store, struct unit *unit, struct stream *stream)
{
    (void)stream;
    struct replicated *own = store->self;
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->weight_base[s] = own->units[unit->index].shards[s].weight.value.data;
}

static void release(struct store *store, struct unit *unit, struct stream *stream)
{
    (void)store, (void)stream;
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->weight_base[s] = NULL;
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
    const bool waits = last && own->data_group->size > 1 && holding->gradients.cols > 0;
    own->waiting += waits - holding->waits;
    own->first_waiting = waits && unit->index > own->first_waiting ? unit->index : own->first_waiting;
    holding->waits = waits;
}

static void start_sum(struct replicated *own, struct holding *holding, struct stream *stream)
{
    event_record(&holding->complete, stream);
    event_wait(&holding->complete, own->communication);
    LAUNCH(own->communication, ALL_REDUCE, all_reduce, .group = own->data_group, .x = holding->gradients);
    event_record(&holding->summed, own->communication);
    holding->waits = false;
    own->waiting--;
}

/* In the order in which a backward completes them. */
static void start_transfers(struct store *store, struct stream *stream)
{
    struct replicated *own = store->self;
    for (int u = own->first_waiting; own->waiting > 0; u--)
        if (own->units[u].waits)
            start_sum(own, &own->units[u], stream);
    own->first_waiting = 0;
}

static void gradients_wait(struct store *store, struct unit *unit, struct stream *stream)
{
    struct replicated *own = store->self;
    struct holding *holding = &own->units[unit->index];
    if (own->data_group->size > 1 && holding->gradients.cols > 0)
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
                                                    .gradients_wait = gradients_wait,
                                                    .updated = updated,
                                                    .shard = shard_of,
                                                    .destroy = destroy};

static void create_holding(struct holding *holding, const struct unit *unit, const struct group *data_group,
                           struct budget *budget, enum dtype compute, enum dtype statistic, bool trains)
{
    int64_t total = 0, first = 0;
    for (int s = 0; s < STORAGE_COUNT; s++)
        total += unit->elements[s];
    if (trains)
        holding->gradients = flat_tensor(budget, total, statistic, BUDGET_GRADIENTS);
    for (int s = 0; s < STORAGE_COUNT; s++) {
        int64_t count = unit->elements[s];
        struct shard *shard = &holding->shards[s];
        shard->holder = data_group->rank;
        shard->holders = data_group->size;
        shard->weight.value = flat_tensor(budget, count, compute, BUDGET_WEIGHTS);
        if (!trains || count == 0)
            continue;
        if (compute != statistic)
            shard->weight.low = flat_tensor(budget, count, DTYPE_I16, BUDGET_WEIGHTS);
        shard->gradient = tensor_columns(&holding->gradients, first, count);
        first += count;
        shard->m = flat_tensor(budget, count, statistic, BUDGET_OPTIMIZER);
        shard->v = flat_tensor(budget, count, statistic, BUDGET_OPTIMIZER);
    }
}

struct store *store_create_replicated(struct model *model, struct budget *budget, struct stream *communication,
                                      struct group *data_group, enum dtype compute, enum dtype statistic, bool trains)
{
    struct replicated *own = memory_allocate(sizeof *own);
    own->store = (struct store){&replicated_class, own};
    own->communication = communication;
    own->data_group = data_group;
    own->units = memory_allocate((int64_t)sizeof *own->units * model->unit_count);
    own->unit_count = model->unit_count;
    for (int u = 0; u < model->unit_count; u++)
        create_holding(&own->units[u], &model->units[u], data_group, budget, compute, statistic, trains);
    return &own->store;
}
