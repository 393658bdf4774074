#include "ref/sharded.h"
#include "base/error.h"
#include "base/memory.h"

#include <math.h>

/* Buffers are used in turn: a tied head and its embedding have two, and what comes next is gathered into the third. */
enum { BUFFERS = 3 };

struct holding {
    struct shard shards[STORAGE_COUNT];
    struct event summed;
    int visit;  /* the place among the action's units at which it was acquired last */
    bool fresh; /* the next contribution replaces the gradient */
};

/* Whole flat buffers of a unit. */
struct weights {
    struct tensor flat[STORAGE_COUNT];
    struct tensor copies; /* of them, as bf16 to fill it; absent: no unit has any */
    struct event gathered, released;
};

struct gradients {
    struct tensor flat[STORAGE_COUNT];
    struct tensor sum[STORAGE_COUNT]; /* a cut, of what is then added to the gradient */
    struct event complete, scattered;
    bool used; /* in this action */
};

struct sharded {
    struct store store;
    struct stream *communication;
    struct group *group;
    const struct context *context;
    bool poisoned;
    bool trains;
    struct holding *units; /* [unit_count] */
    struct weights weights[BUFFERS];
    struct gradients gradients[BUFFERS];
    struct event begun;
    struct unit *const *visits;
    int visit_count, acquired;
};

enum sharded_wait sharded_left_out;

static void wait_for(enum sharded_wait purpose, struct event *event, struct stream *stream)
{
    if (purpose != sharded_left_out)
        event_wait(event, stream);
}

/* Elements of a rank's cut, the same on all: the last cuts may reach beyond the buffer's end. */
static int64_t cut_of(int64_t elements, int ranks)
{
    int64_t unit = (int64_t)ranks * UNIT_ALIGNMENT;
    return (elements + unit - 1) / unit * UNIT_ALIGNMENT;
}

/* The first `cut` columns of each row of a buffer for larger units, as [ranks, cut] without gaps. */
static struct tensor rows_of(const struct sharded *own, const struct tensor *flat, int64_t cut)
{
    return tensor_matrix(flat->data, flat->dtype, own->group->size, cut);
}

static void poison(const struct sharded *own, struct stream *stream, const struct tensor *flat)
{
    if (own->poisoned)
        for (int s = 0; s < STORAGE_COUNT; s++)
            LAUNCH(stream, FILL, fill, .x = flat[s], .value = NAN);
}

/* -- Weights ----------------------------------------------------------------------------------------------------- */

static void gather(struct sharded *own, int visit)
{
    struct weights *to = &own->weights[visit % BUFFERS];
    const struct holding *holding = &own->units[own->visits[visit]->index];
    if (visit >= BUFFERS)
        wait_for(SHARDED_RELEASED, &to->released, own->communication);
    for (int s = 0; s < STORAGE_COUNT; s++) {
        const struct tensor *from = &holding->shards[s].weight.value;
        if (from->cols > 0)
            LAUNCH(own->communication, ALL_GATHER, all_gather, .group = own->group, .in = *from,
                   .out = rows_of(own, &to->flat[s], from->cols));
    }
    event_record(&to->gathered, own->communication);
}

static void begin(struct store *store, struct unit *const *units, int count, struct stream *stream)
{
    struct sharded *own = store->self;
    own->visits = units;
    own->visit_count = count;
    own->acquired = 0;
    for (int b = 0; b < BUFFERS; b++)
        own->gradients[b].used = false;
    event_record(&own->begun, stream); /* the buffers are free, and the weights up to date */
    wait_for(SHARDED_BEGUN, &own->begun, own->communication);
    gather(own, 0);
}

static void acquire(struct store *store, struct unit *unit, struct stream *stream)
{
    struct sharded *own = store->self;
    const int visit = own->acquired++;
    if (visit >= own->visit_count || own->visits[visit] != unit)
        error_fatal("unit %s is acquired out of turn", unit->name);
    if (visit + 1 < own->visit_count)
        gather(own, visit + 1);
    struct weights *from = &own->weights[visit % BUFFERS];
    wait_for(SHARDED_GATHERED, &from->gathered, stream);
    own->units[unit->index].visit = visit;
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->weight_base[s] = from->flat[s].data;
    unit->copy_base = from->copies.data;
    if (own->trains && unit->copy_bytes > 0)
        unit->class->copy_weights(own->context, unit);
}

static void release(struct store *store, struct unit *unit, struct stream *stream)
{
    struct sharded *own = store->self;
    struct weights *held = &own->weights[own->units[unit->index].visit % BUFFERS];
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->weight_base[s] = NULL;
    unit->copy_base = NULL;
    poison(own, stream, held->flat);
    if (own->poisoned && tensor_present(&held->copies))
        LAUNCH(stream, FILL, fill, .x = held->copies, .value = NAN);
    event_record(&held->released, stream);
}

/* -- Gradients --------------------------------------------------------------------------------------------------- */

static struct gradients *gradients_of(struct sharded *own, const struct unit *unit)
{
    return &own->gradients[unit->index % BUFFERS];
}

/* A contribution is made in a buffer of its own, of which a unit may leave parts alone. */
static void gradients_open(struct store *store, struct unit *unit, struct stream *stream, bool fresh)
{
    struct sharded *own = store->self;
    struct gradients *g = gradients_of(own, unit);
    if (g->used)
        wait_for(SHARDED_SCATTERED, &g->scattered, stream);
    g->used = true;
    for (int s = 0; s < STORAGE_COUNT; s++) {
        LAUNCH(stream, FILL, fill, .x = g->flat[s], .value = 0);
        unit->gradient_base[s] = g->flat[s].data;
    }
    unit->gradient_fresh = true;
    own->units[unit->index].fresh = fresh;
}

static void scatter(struct sharded *own, struct gradients *g, const struct holding *holding)
{
    struct stream *stream = own->communication;
    for (int s = 0; s < STORAGE_COUNT; s++) {
        const struct shard *shard = &holding->shards[s];
        const int64_t cut = shard->gradient.cols;
        if (cut == 0)
            continue;
        struct tensor sum = holding->fresh ? shard->gradient : tensor_columns(&g->sum[s], 0, cut);
        LAUNCH(stream, REDUCE_SCATTER, reduce_scatter, .group = own->group, .in = rows_of(own, &g->flat[s], cut),
               .out = sum);
        if (!holding->fresh)
            LAUNCH(stream, ADD, add, .from = sum, .to = shard->gradient);
    }
}

static void gradients_close(struct store *store, struct unit *unit, struct stream *stream, bool last)
{
    struct sharded *own = store->self;
    struct gradients *g = gradients_of(own, unit);
    struct holding *holding = &own->units[unit->index];
    for (int s = 0; s < STORAGE_COUNT; s++)
        unit->gradient_base[s] = NULL;
    event_record(&g->complete, stream);
    wait_for(SHARDED_COMPLETE, &g->complete, own->communication);
    scatter(own, g, holding);
    poison(own, own->communication, g->flat);
    event_record(&g->scattered, own->communication);
    if (last)
        event_record(&holding->summed, own->communication);
}

/* They have started, and the next action's first gather comes behind them. */
static void nothing(struct store *store, struct stream *stream)
{
    (void)store, (void)stream;
}

static void gradients_wait(struct store *store, struct unit *unit, struct stream *stream)
{
    struct sharded *own = store->self;
    wait_for(SHARDED_SUMMED, &own->units[unit->index].summed, stream);
}

/* -- Making ------------------------------------------------------------------------------------------------------ */

/* Each action gathers anew, and makes copies of what it has gathered. */
static void updated(struct store *store, struct unit *unit, struct stream *stream)
{
    (void)store, (void)unit, (void)stream;
}

static struct shard shard_of(struct store *store, struct unit *unit, enum storage storage)
{
    struct sharded *own = store->self;
    return own->units[unit->index].shards[storage];
}

static void destroy(struct store *store)
{
    struct sharded *own = store->self;
    memory_free(own->units);
    memory_free(own);
}

static const struct store_class sharded_class = {.name = "sharded",
                                                 .begin = begin,
                                                 .acquire = acquire,
                                                 .release = release,
                                                 .gradients_open = gradients_open,
                                                 .gradients_close = gradients_close,
                                                 .start_transfers = nothing,
                                                 .end = nothing,
                                                 .gradients_wait = gradients_wait,
                                                 .updated = updated,
                                                 .shard = shard_of,
                                                 .destroy = destroy};

static struct tensor flat_tensor(struct budget *budget, int64_t count, enum dtype dtype, enum budget_category category)
{
    return tensor_vector(budget_allocate(budget, count * dtype_size(dtype), category), dtype, count);
}

static void create_shard(struct shard *shard, int64_t elements, const struct store_request *r)
{
    const int64_t cut = cut_of(elements, r->groups->data->size);
    shard->first = cut * r->groups->data->rank;
    shard->holders = 1;
    shard->weight.value = flat_tensor(r->budget, cut, r->compute, BUDGET_WEIGHTS);
    if (!r->trains || cut == 0)
        return;
    if (r->compute != r->statistic)
        shard->weight.low = flat_tensor(r->budget, cut, DTYPE_I16, BUDGET_WEIGHTS);
    shard->gradient = flat_tensor(r->budget, cut, r->statistic, BUDGET_GRADIENTS);
    shard->m = flat_tensor(r->budget, cut, r->statistic, BUDGET_OPTIMIZER);
    shard->v = flat_tensor(r->budget, cut, r->statistic, BUDGET_OPTIMIZER);
}

static void create_buffers(struct sharded *own, const struct store_request *r, int s)
{
    int64_t largest = 0;
    for (int u = 0; u < r->model->unit_count; u++) {
        int64_t cut = cut_of(r->model->units[u].elements[s], r->groups->data->size);
        largest = cut > largest ? cut : largest;
    }
    for (int b = 0; b < BUFFERS; b++) {
        const int64_t all = largest * r->groups->data->size;
        own->weights[b].flat[s] = flat_tensor(r->budget, all, r->compute, BUDGET_WEIGHTS);
        if (!r->trains)
            continue;
        own->gradients[b].flat[s] = flat_tensor(r->budget, all, r->statistic, BUDGET_GRADIENTS);
        own->gradients[b].sum[s] = flat_tensor(r->budget, largest, r->statistic, BUDGET_GRADIENTS);
    }
}

static void create_copies(struct sharded *own, const struct store_request *r)
{
    int64_t largest = 0;
    for (int u = 0; u < r->model->unit_count; u++)
        largest = r->model->units[u].copy_bytes > largest ? r->model->units[u].copy_bytes : largest;
    for (int b = 0; b < BUFFERS && r->trains && largest > 0; b++)
        own->weights[b].copies = flat_tensor(r->budget, largest / dtype_size(DTYPE_BF16), DTYPE_BF16, BUDGET_WEIGHTS);
}

struct store *sharded_store_create(const struct store_request *r)
{
    struct sharded *own = memory_allocate(sizeof *own);
    own->store = (struct store){&sharded_class, own};
    own->communication = &r->streams[STREAM_REDUCE];
    own->group = r->groups->data;
    own->context = r->context;
    own->trains = r->trains;
    own->units = memory_allocate((int64_t)sizeof *own->units * r->model->unit_count);
    for (int u = 0; u < r->model->unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++)
            create_shard(&own->units[u].shards[s], r->model->units[u].elements[s], r);
    for (int s = 0; s < STORAGE_COUNT; s++)
        create_buffers(own, r, s);
    create_copies(own, r);
    return &own->store;
}

struct store *sharded_store_create_poisoned(const struct store_request *r)
{
    struct store *store = sharded_store_create(r);
    struct sharded *own = store->self;
    own->poisoned = true;
    return store;
}
