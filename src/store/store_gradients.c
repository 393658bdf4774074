/* Gradients. Whole gradients are summed over ranks once per step. Sharded gradients, and bf16 gradients that ops do not
 * round: each micro-batch's contribution is computed in a buffer, summed, and added. */
#include "store/store_private.h"

/* Clears the padding between a unit's weights, which the unit does not write but which is summed and measured with the
 * gradients. Padding at the end of the buffer is in no shard. */
static void clear_padding(const struct unit *unit, struct stream *stream, enum dtype statistic)
{
    for (int w = 0; w < unit->weight_count; w++) {
        const struct weight *weight = &unit->weights[w];
        const int64_t elements = weight->rows * weight->cols, end = weight->offset + elements;
        const enum dtype dtype = unit_gradient_dtype(unit, weight->storage, statistic);
        if (weight->home == unit && weight->reserved > elements)
            LAUNCH(stream, FILL, fill,
                   .x = tensor_vector((char *)unit->gradient_base[weight->storage] + end * dtype_size(dtype), dtype,
                                      weight->reserved - elements),
                   .value = 0);
    }
}

/* Opens the buffer for a contribution, which was used three acquisitions before. The contribution overwrites it. */
static void open_contribution(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh)
{
    struct flat_store *own = store->self;
    struct gradient_contribution *to = &own->contributions[store_state(store, unit)->position % STORE_BUFFERS];
    if (to->pending)
        store_start_transfers(store, stream);
    if (to->used)
        event_wait(&to->added, stream);
    to->used = true;
    to->fresh = fresh;
    own->contributed = true;
    store_point(unit, to->values, own->statistic, unit->gradient_base);
    unit->gradient_fresh = true;
    clear_padding(unit, stream, own->statistic);
}

/* Opens the stored bf16 gradients of matrices, and the fp32 sums of vectors. */
static void open_rounded(const struct flat_store *own, struct unit *unit, struct stream *stream, bool fresh)
{
    const struct unit_state *state = &own->states[unit->index];
    unit->gradient_base[STORAGE_MATRIX] = state->gradients.data;
    unit->gradient_base[STORAGE_VECTOR] = state->vectors.data;
    unit->gradient_fresh = fresh;
    if (fresh)
        clear_padding(unit, stream, own->statistic);
}

void store_gradients_open(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh, bool last)
{
    struct flat_store *own = store->self;
    const struct unit_state *state = store_state(store, unit);
    unit->gradient_rounded = store_rounds(own, unit, last);
    if (unit->gradient_rounded) {
        open_rounded(own, unit, stream, fresh);
        return;
    }
    if (own->contributes && state->shard_elements > 0) {
        open_contribution(store, unit, stream, fresh);
        return;
    }
    store_point(unit, state->gradients.data, own->statistic, unit->gradient_base);
    unit->gradient_fresh = fresh;
    if (state->lent)
        clear_padding(unit, stream, own->statistic);
}

void store_gradients_close(struct weight_store *store, struct unit *unit, struct stream *stream, bool last)
{
    (void)stream;
    struct flat_store *own = store->self;
    struct unit_state *state = store_state(store, unit);
    const bool buffered = own->contributes && !unit->gradient_rounded;
    struct gradient_contribution *from = buffered ? &own->contributions[state->position % STORE_BUFFERS] : NULL;
    store_point(unit, NULL, own->statistic, unit->gradient_base);
    if (state->shard_elements == 0)
        return;
    if (from != NULL)
        from->pending = true;
    if (from != NULL || (last && (unit->gradient_rounded || store_sums(own, state))))
        own->pending[own->pending_count++] = (struct pending_sum){state, from, last};
}

/* All-to-all of shards: row r of `in` [ranks, shard_elements] goes to rank r of the sharding group, row r of `out`
 * comes from rank r. With groups near and far, only the ranks of a node exchange: row k * near + j of `out` comes from
 * rank j of this node, and is its part for the rank at this rank's position on node k. */
static void exchange(struct flat_store *own, struct tensor in, struct tensor out)
{
    struct group *near = own->groups->near;
    if (near == NULL) {
        LAUNCH(own->reduce, ALL_TO_ALL, all_to_all, .group = own->groups->reduce, .in = in, .out = out);
        return;
    }
    for (int64_t first = 0; first < in.rows; first += near->size)
        LAUNCH(own->reduce, ALL_TO_ALL, all_to_all, .group = near, .in = tensor_rows(&in, first, near->size),
               .out = tensor_rows(&out, first, near->size));
}

/* Sums rows of bf16 numbers, in order, in fp32. */
static void sum_rounded(struct flat_store *own, struct tensor rows, struct tensor sum)
{
    LAUNCH(own->reduce, JOIN, join, .high = tensor_rows(&rows, 0, 1), .to = sum);
    for (int64_t r = 1; r < rows.rows; r++)
        LAUNCH(own->reduce, ADD, add, .from = tensor_rows(&rows, r, 1), .to = sum);
}

/* Reduce-scatter of bf16 parts. With near and far, each node's sum is rounded to bf16 once more; node sums are computed
 * in `flat`, whose values have already been sent. */
static void scatter_rounded(struct flat_store *own, const struct unit_state *state, struct tensor flat,
                            struct tensor sum)
{
    struct group *far = own->groups->far;
    struct tensor sent = store_rows(own, state, own->sent, DTYPE_BF16);
    struct tensor received = store_rows(own, state, own->received, DTYPE_BF16);
    LAUNCH(own->reduce, SPLIT, split, .from = flat, .high = tensor_vector(own->sent, DTYPE_BF16, flat.cols));
    exchange(own, sent, received);
    if (far != NULL) {
        const struct tensor sums = tensor_matrix(flat.data, flat.dtype, far->size, state->shard_elements);
        const int64_t near = own->groups->near->size;
        for (int node = 0; node < far->size; node++)
            sum_rounded(own, tensor_rows(&received, node * near, near), tensor_rows(&sums, node, 1));
        LAUNCH(own->reduce, SPLIT, split, .from = tensor_vector(sums.data, sums.dtype, tensor_count(&sums)),
               .high = tensor_vector(own->sent, DTYPE_BF16, tensor_count(&sums)));
        sent = tensor_rows(&sent, 0, far->size);
        received = tensor_rows(&received, 0, far->size);
        LAUNCH(own->reduce, ALL_TO_ALL, all_to_all, .group = far, .in = sent, .out = received);
    }
    sum_rounded(own, received, sum);
}

/* Returns the scratch for a sum by copies, one row for each rank of the group; absent if the executor sums otherwise.
 */
static struct tensor scratch_for(char *scratch, const struct group *group, struct tensor summed)
{
    const struct tensor absent = {0};
    return scratch != NULL ? tensor_matrix(scratch, summed.dtype, group->size, tensor_count(&summed) / group->size)
                           : absent;
}

/* Reduce-scatter of `flat` [1, ranks * shard_elements] over the sharding group; this rank's shard goes to `sum` [1,
 * shard_elements], which may be its part of `flat`. */
static void scatter(struct flat_store *own, const struct unit_state *state, struct tensor flat, struct tensor sum)
{
    const struct tensor part = store_own_shard(own, state, &flat);
    if (own->ranks == 1 || state->complete) {
        if (sum.data != part.data)
            LAUNCH(own->reduce, COPY, copy, .from = part, .to = sum);
        return;
    }
    if (own->sent != NULL)
        scatter_rounded(own, state, flat, sum);
    else
        LAUNCH(own->reduce, REDUCE_SCATTER, reduce_scatter, .group = own->groups->reduce,
               .in = store_rows(own, state, flat.data, flat.dtype), .out = sum,
               .scratch = scratch_for(own->scratch, own->groups->reduce, flat));
}

static void sum_replicas(struct flat_store *own, const struct unit_state *state, struct tensor shard)
{
    struct group *replicas = own->groups->replicas;
    if (!state->complete && group_size(replicas) > 1)
        LAUNCH(own->reduce, ALL_REDUCE, all_reduce, .group = replicas, .x = shard,
               .scratch = scratch_for(own->replicas_scratch, replicas, shard));
}

/* Returns the group that sums the parameter's gradient: all tensor ranks, or the kv replicas. */
static struct group *group_of_holders(const struct flat_store *own, const struct parameter *p)
{
    return p->owners == group_size(own->groups->shared) ? own->groups->shared : own->groups->kv_replicas;
}

/* Sums this rank's shard of gradients of which each tensor rank computes a term, in one launch for consecutive
 * parameters. All of these ranks have the same shard. */
static void sum_partial(struct flat_store *own, const struct unit_state *state, struct tensor shard)
{
    const struct unit *unit = &own->units[state - own->states];
    for (int i = 0, next; i < unit->parameter_count; i = next) {
        const struct parameter *p = &unit->parameters[i];
        int64_t end = p->offset;
        for (next = i; next < unit->parameter_count; next++) {
            const struct parameter *q = &unit->parameters[next];
            if (q->partial != p->partial || q->owners != p->owners || q->storage != p->storage)
                break;
            end = q->offset + q->part.rows * q->part.cols;
        }
        const int64_t class = p->storage == STORAGE_VECTOR ? unit->elements[STORAGE_MATRIX] : 0;
        const struct index_range common = store_common(state, own->rank, class + p->offset, class + end);
        if (p->partial && common.count > 0)
            LAUNCH(own->reduce, ALL_REDUCE, all_reduce, .group = group_of_holders(own, p),
                   .x = tensor_columns(&shard, common.first - own->rank * state->shard_elements, common.count));
    }
}

/* Sums over replicas and tensor ranks, once per step, after the sum over the sharding group. */
static void finish_sum(struct flat_store *own, const struct unit_state *state, struct tensor shard)
{
    sum_replicas(own, state, shard);
    if (state->partial)
        sum_partial(own, state, shard);
}

/* fp32 gradients: the first contribution (fresh) is reduced into the stored shard; later ones are reduced into their
 * buffer and added. */
static void accumulate(struct flat_store *own, const struct unit_state *state, struct tensor flat, bool fresh,
                       bool last)
{
    const struct tensor shard = store_own_shard(own, state, &state->gradients),
                        sum = store_own_shard(own, state, &flat);
    scatter(own, state, flat, fresh ? shard : sum);
    if (!fresh)
        LAUNCH(own->reduce, ADD, add, .from = sum, .to = shard);
    if (last)
        finish_sum(own, state, shard);
}

/* Adds earlier contributions to a whole one: bf16 gradients, but the fp32 sums of vectors where ops round matrices. */
static void add_earlier(struct flat_store *own, const struct unit_state *state, struct tensor flat)
{
    const struct unit *unit = &own->units[state - own->states];
    const int64_t count = unit->rounds_gradients ? unit->elements[STORAGE_MATRIX] : flat.cols;
    if (count > 0)
        LAUNCH(own->reduce, ADD, add, .from = tensor_columns(&state->gradients, 0, count),
               .to = tensor_columns(&flat, 0, count));
    if (unit->rounds_gradients && state->vectors.cols > 0)
        LAUNCH(own->reduce, ADD, add, .from = state->vectors, .to = tensor_columns(&flat, count, state->vectors.cols));
}

/* Rounds the vectors of a unit whose ops round the matrices' gradients, which are not summed over ranks. */
static void round_vectors(struct flat_store *own, const struct unit_state *state)
{
    const int64_t matrices = own->units[state - own->states].elements[STORAGE_MATRIX], vectors = state->vectors.cols;
    if (vectors > 0)
        LAUNCH(own->reduce, SPLIT, split, .from = state->vectors,
               .high = tensor_columns(&state->gradients, matrices, vectors));
}

/* bf16 gradients: sums in fp32 in the contribution's buffer, then rounds. Whole gradients are reduced with the last
 * contribution. */
static void accumulate_rounded(struct flat_store *own, const struct unit_state *state, struct tensor flat, bool fresh,
                               bool last)
{
    const struct tensor kept = state->gradients, sum = store_own_shard(own, state, &flat);
    if (own->sharded_gradients)
        scatter(own, state, flat, sum);
    if (!fresh && own->sharded_gradients)
        LAUNCH(own->reduce, ADD, add, .from = kept, .to = sum);
    else if (!fresh)
        add_earlier(own, state, flat);
    if (last && !own->sharded_gradients)
        scatter(own, state, flat, sum);
    if (last)
        finish_sum(own, state, sum);
    if (last || own->sharded_gradients)
        LAUNCH(own->reduce, SPLIT, split, .from = sum, .high = store_own_shard(own, state, &kept));
    else
        LAUNCH(own->reduce, SPLIT, split, .from = flat, .high = kept);
}

/* Adds exactly. contributions: maximum number of contributions in `from`. */
static void add_exactly(struct flat_store *own, struct tensor from, struct tensor to, bool fresh, int64_t contributions)
{
    LAUNCH(own->reduce, EXACT_ADD, exact_add, .from = from, .to = to, .quantum = own->exact.gradient,
           .most = own->exact.most * (double)contributions, .accumulate = !fresh);
}

static void add_rows_exactly(struct flat_store *own, struct tensor rows, struct tensor to, bool fresh,
                             int64_t contributions)
{
    for (int64_t r = 0; r < rows.rows; r++)
        add_exactly(own, tensor_rows(&rows, r, 1), to, fresh && r == 0, contributions);
}

/* Sharded exact gradients: adds the ranks' contributions to this rank's shard, each rounded to the unit. With near and
 * far, each node's exact sum is sent in f64. The fp32 buffers are large enough for the f64 sums, since a node has at
 * least two ranks: `flat` for this node's sums, `received` for all nodes'. */
static void add_parts(struct flat_store *own, const struct unit_state *state, struct tensor flat, bool fresh)
{
    const struct parallel_groups *groups = own->groups;
    const struct tensor received = store_rows(own, state, own->received, flat.dtype);
    exchange(own, store_rows(own, state, flat.data, flat.dtype), received);
    if (groups->far == NULL) {
        add_rows_exactly(own, received, state->sums, fresh, 1);
        return;
    }
    const int64_t near = groups->near->size, nodes = groups->far->size;
    const struct tensor sums = tensor_matrix(flat.data, DTYPE_F64, nodes, state->shard_elements);
    const struct tensor all = tensor_matrix(own->received, DTYPE_F64, nodes, state->shard_elements);
    for (int64_t node = 0; node < nodes; node++)
        add_rows_exactly(own, tensor_rows(&received, node * near, near), tensor_rows(&sums, node, 1), true, 1);
    LAUNCH(own->reduce, ALL_TO_ALL, all_to_all, .group = groups->far, .in = sums, .out = all);
    add_rows_exactly(own, all, state->sums, fresh, near);
}

static void accumulate_exactly(struct flat_store *own, const struct unit_state *state, struct tensor flat, bool fresh,
                               bool last)
{
    const struct tensor sum = store_own_shard(own, state, &state->sums);
    if (own->sharded_gradients)
        add_parts(own, state, flat, fresh);
    else
        add_exactly(own, flat, state->sums, fresh, 1);
    if (!last)
        return;
    if (!own->sharded_gradients)
        scatter(own, state, state->sums, sum);
    finish_sum(own, state, sum);
    LAUNCH(own->reduce, EXACT_READ, exact_read, .from = sum, .to = state->gradients);
}

static void accumulate_contribution(struct flat_store *own, const struct unit_state *state,
                                    const struct gradient_contribution *from, bool last)
{
    const struct tensor flat = tensor_vector(from->values, own->statistic, own->ranks * state->shard_elements);
    if (own->exact.gradient > 0)
        accumulate_exactly(own, state, flat, from->fresh, last);
    else if (own->rounds)
        accumulate_rounded(own, state, flat, from->fresh, last);
    else
        accumulate(own, state, flat, from->fresh, last);
}

static void start_sum(struct flat_store *own, const struct pending_sum *next, struct stream *stream)
{
    struct unit_state *state = next->state;
    struct gradient_contribution *from = next->from;
    event_record(&own->complete, stream);
    event_wait(&own->complete, own->reduce);
    if (from == NULL && own->rounds) {
        round_vectors(own, state);
    } else if (from == NULL) {
        accumulate(own, state, state->gradients, true, true);
    } else {
        accumulate_contribution(own, state, from, next->last);
        from->pending = false;
        event_record(&from->added, own->reduce);
    }
    if (next->last)
        event_record(&state->summed, own->reduce);
}

void store_start_transfers(struct weight_store *store, struct stream *stream)
{
    struct flat_store *own = store->self;
    for (int i = 0; i < own->pending_count; i++)
        start_sum(own, &own->pending[i], stream);
    own->pending_count = 0;
}

void store_end(struct weight_store *store, struct stream *stream, bool last)
{
    struct flat_store *own = store->self;
    store_finish_weights(own, stream);
    store_start_transfers(store, stream);
    if (last || !own->contributed)
        return;
    event_record(&own->joined, own->reduce);
    event_wait(&own->joined, stream);
}

void store_gradients_wait(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    const struct flat_store *own = store->self;
    struct unit_state *state = store_state(store, unit);
    if ((own->contributes && state->shard_elements > 0) || store_sums(own, state))
        event_wait(&state->summed, stream);
}

int64_t store_sum_bytes(const struct sharding *sharding, int ranks, int replicas, int64_t elements,
                        int64_t micro_batches)
{
    const bool each = sharding_shards_gradients(sharding);
    const int64_t whole = dtype_size(sharding->exact.gradient > 0 ? DTYPE_F64 : DTYPE_F32);
    const int64_t width = sharding->bf16_sums ? dtype_size(DTYPE_BF16) : each ? dtype_size(DTYPE_F32) : whole;
    const int64_t scattered = (each ? micro_batches : 1) * (ranks - 1) * elements / ranks * width;
    return scattered + 2 * (replicas - 1) * (elements / ranks) / replicas * whole;
}
