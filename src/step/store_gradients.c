/* Gradients: summed over ranks once a step where ranks hold them whole; where they hold cuts, what each micro-batch
 * contributes is made in a buffer of its own, summed, and added. */
#include "step/store_private.h"

/* A unit writes all of its weights' gradients. What it leaves alone is the padding between them, which is summed and
 * measured with them. (That at the buffer's end is in no shard.) */
static void clear_padding(const struct unit *unit, struct stream *stream, enum dtype dtype)
{
    for (int w = 0; w < unit->weight_count; w++) {
        const struct weight *weight = &unit->weights[w];
        const int64_t end = weight->offset + weight->rows * weight->cols, more = end % UNIT_ALIGNMENT;
        if (weight->home == unit && more > 0)
            LAUNCH(stream, FILL, fill,
                   .x = tensor_vector((char *)unit->gradient_base[weight->storage] + end * dtype_size(dtype), dtype,
                                      UNIT_ALIGNMENT - more),
                   .value = 0);
    }
}

/* A contribution is made anew, in the buffer that the visit three before has used. */
static void open_contribution(struct store *store, struct unit *unit, struct stream *stream, bool fresh)
{
    struct flat_store *own = store->self;
    const int visit = store_holding(store, unit)->visit;
    struct contribution *to = &own->contributions[visit % STORE_TURNS];
    if (to->pending)
        store_start_transfers(store, stream);
    if (visit >= STORE_TURNS)
        event_wait(&to->added, stream);
    to->fresh = fresh;
    own->contributed = true;
    store_point(unit, to->values, own->statistic, unit->gradient_base);
    unit->gradient_fresh = true;
    clear_padding(unit, stream, own->statistic);
}

void store_gradients_open(struct store *store, struct unit *unit, struct stream *stream, bool fresh)
{
    struct flat_store *own = store->self;
    if (own->cut_gradients) {
        open_contribution(store, unit, stream, fresh);
        return;
    }
    store_point(unit, store_holding(store, unit)->gradients.data, own->statistic, unit->gradient_base);
    unit->gradient_fresh = fresh;
}

/* Do ranks sum what they hold? */
static bool is_summed(const struct flat_store *own)
{
    return own->ranks > 1 || group_size(own->groups->replicas) > 1;
}

void store_gradients_close(struct store *store, struct unit *unit, struct stream *stream, bool last)
{
    (void)stream;
    struct flat_store *own = store->self;
    struct holding *holding = store_holding(store, unit);
    struct contribution *from = own->cut_gradients ? &own->contributions[holding->visit % STORE_TURNS] : NULL;
    store_point(unit, NULL, own->statistic, unit->gradient_base);
    if (from == NULL && !(last && is_summed(own)))
        return;
    if (from != NULL)
        from->pending = true;
    own->pending[own->pending_count++] = (struct pending_sum){holding, from, last};
}

/* Sums what the ranks of the sharding group have in `flat` [1, ranks * cut]: this rank's cut of it to `sum` [1, cut],
 * which may be that part of `flat`. */
static void scatter(struct flat_store *own, const struct holding *holding, void *flat, struct tensor sum)
{
    if (own->ranks > 1)
        LAUNCH(own->reduce, REDUCE_SCATTER, reduce_scatter, .group = own->groups->reduce,
               .in = store_rows(own, holding, flat, own->statistic), .out = sum);
}

static void sum_replicas(struct flat_store *own, struct tensor cut)
{
    if (group_size(own->groups->replicas) > 1)
        LAUNCH(own->reduce, ALL_REDUCE, all_reduce, .group = own->groups->replicas, .x = cut);
}

/* The sum of a contribution goes to this rank's cut of the gradients, or to the contribution's own and is added. */
static void add_contribution(struct flat_store *own, const struct holding *holding, const struct contribution *from)
{
    if (from->fresh) {
        scatter(own, holding, from->values, holding->gradients);
        return;
    }
    struct tensor flat = tensor_vector(from->values, own->statistic, own->ranks * holding->cut);
    struct tensor sum = store_cut(own, holding, &flat);
    scatter(own, holding, from->values, sum);
    LAUNCH(own->reduce, ADD, add, .from = sum, .to = holding->gradients);
}

static void start_sum(struct flat_store *own, const struct pending_sum *next, struct stream *stream)
{
    struct holding *holding = next->holding;
    const struct tensor cut = store_cut(own, holding, &holding->gradients);
    event_record(&own->complete, stream);
    event_wait(&own->complete, own->reduce);
    if (next->from != NULL)
        add_contribution(own, holding, next->from);
    else
        scatter(own, holding, holding->gradients.data, cut);
    if (next->last)
        sum_replicas(own, cut);
    if (next->from != NULL) {
        next->from->pending = false;
        event_record(&next->from->added, own->reduce);
    }
    if (next->last)
        event_record(&holding->summed, own->reduce);
}

void store_start_transfers(struct store *store, struct stream *stream)
{
    struct flat_store *own = store->self;
    for (int i = 0; i < own->pending_count; i++)
        start_sum(own, &own->pending[i], stream);
    own->pending_count = 0;
}

void store_end(struct store *store, struct stream *stream, bool last)
{
    struct flat_store *own = store->self;
    store_start_transfers(store, stream);
    if (last || !own->contributed)
        return;
    event_record(&own->joined, own->reduce);
    event_wait(&own->joined, stream);
}

void store_gradients_wait(struct store *store, struct unit *unit, struct stream *stream)
{
    if (is_summed(store->self))
        event_wait(&store_holding(store, unit)->summed, stream);
}
