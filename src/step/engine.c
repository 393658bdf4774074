#include "step/engine.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/lm_head.h"
#include "plan/plan.h"

#include <math.h>

/* -- Making ------------------------------------------------------------------------------------------------------ */

static struct tensor batch_tensor(struct budget *budget, int64_t count, enum dtype dtype)
{
    return tensor_vector(budget_allocate(budget, count * dtype_size(dtype), BUDGET_BATCH), dtype, count);
}

static bool generates(const struct engine *e)
{
    return e->settings.memory.use == MEMORY_GENERATE;
}

/* What rows of so many tokens and slots say about their segments. Those of a sequence that goes on see more keys. */
static void describe_segments(const struct engine *e, int64_t row_tokens, int64_t max_segments,
                              struct attention_segments *segments)
{
    int64_t most = e->settings.memory.longest;
    segments->regular = !generates(e) && max_segments == 1;
    segments->longest = generates(e) ? 0 : segments->regular || most == 0 || most > row_tokens ? row_tokens : most;
}

/* All slots count their losses in one place, and what is summed over ranks lies together: one collective does it. */
static void create_batches(struct engine *e)
{
    const struct memory_settings *m = &e->settings.memory;
    int64_t tokens = m->rows * m->row_tokens, segments = m->rows * m->max_segments;
    int64_t squares = m->use == MEMORY_TRAIN ? optimizer_squares(e->model) : 0;
    e->sums = batch_tensor(&e->budget, 2 + squares, DTYPE_F64);
    struct tensor total = tensor_columns(&e->sums, 0, 2), discarded = batch_tensor(&e->budget, 2, DTYPE_F64);
    e->batches = memory_allocate((int64_t)sizeof *e->batches * m->slots);
    for (int s = 0; s < m->slots; s++) {
        struct batch_tensors *b = &e->batches[s];
        b->tokens = batch_tensor(&e->budget, tokens, DTYPE_I32);
        b->labels = batch_tensor(&e->budget, tokens, DTYPE_I32);
        b->positions = batch_tensor(&e->budget, tokens, DTYPE_I32);
        if (e->model->settings.token_dropout)
            b->scale = batch_tensor(&e->budget, tokens, DTYPE_F32);
        b->segments.q_start = b->segments.kv_start = batch_tensor(&e->budget, segments, DTYPE_I32);
        b->segments.q_length = b->segments.kv_length = batch_tensor(&e->budget, segments, DTYPE_I32);
        if (m->use == MEMORY_GENERATE) /* more keys than queries */
            b->segments.kv_length = batch_tensor(&e->budget, segments, DTYPE_I32);
        b->segments.q_offset = batch_tensor(&e->budget, segments, DTYPE_I32); /* zero, as allocated */
        describe_segments(e, m->row_tokens, m->max_segments, &b->segments);
        b->total = total;
        b->discarded = discarded;
    }
}

/* Filled to the last micro-batch, where attention reads most: so it is planned. */
static struct kv_cache create_cache(struct engine *e)
{
    const struct model_settings *s = &e->model->settings;
    enum dtype dtype = e->settings.memory.compute;
    int64_t positions = e->settings.positions, width = 2 * s->kv_heads * s->head_dim;
    void *data = budget_allocate(&e->budget, s->layers * positions * width * dtype_size(dtype), BUDGET_ACTIVATIONS);
    return (struct kv_cache){tensor_matrix(data, dtype, s->layers * positions, width), positions,
                             positions - e->model->tokens};
}

/* A tied head works with the embedding's buffers too. NULL when the unit uses its own alone. */
static struct unit *borrowed_home(struct unit *unit)
{
    for (int w = 0; w < unit->weight_count; w++)
        if (unit->weights[w].home != NULL && unit->weights[w].home != unit)
            return unit->weights[w].home;
    return NULL;
}

static void visit(struct unit **visits, int *count, struct unit *unit)
{
    if (borrowed_home(unit) != NULL)
        visits[(*count)++] = borrowed_home(unit);
    visits[(*count)++] = unit;
}

/* The units in the order in which a forward, then a backward acquires them. */
static void create_visits(struct engine *e)
{
    const int units = e->model->unit_count;
    e->visits = memory_allocate((int64_t)sizeof *e->visits * 4 * units);
    int count = 0;
    for (int u = 0; u < units; u++)
        visit(e->visits, &count, &e->model->units[u]);
    e->visit_count = count;
    for (int u = units - 1; u >= 0; u--)
        visit(e->visits, &count, &e->model->units[u]);
}

static void create_rope_table(struct engine *e)
{
    int64_t positions = generates(e) ? e->settings.positions : e->settings.memory.row_tokens;
    int64_t width = e->model->settings.head_dim;
    enum dtype dtype = e->settings.memory.statistic;
    int64_t bytes = positions * width * dtype_size(dtype);
    e->rope_table = tensor_matrix(budget_allocate(&e->budget, bytes, BUDGET_BATCH), dtype, positions, width);
    if (e->executor->class->dry)
        return;
    struct tensor host = e->rope_table;
    host.data = memory_allocate(bytes);
    for (int64_t p = 0; p < positions; p++)
        for (int64_t i = 0; i < width; i++)
            tensor_put(&host, p, i, rope_table_value(&e->model->settings, p, i));
    LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = host, .to = e->rope_table);
    engine_synchronize(e);
    memory_free(host.data);
}

/* Host memory that the device reads and writes when it comes to it. */
static void create_host(struct engine *e)
{
    enum { MORE = 256 /* for what goes along with a batch or with an update */ };
    const struct memory_settings *m = &e->settings.memory;
    const struct batch largest = {.rows = m->rows, .row_tokens = m->row_tokens, .max_segments = m->max_segments};
    staging_create(&e->staging, e->executor, batch_bytes(&largest) + MORE);
    for (int i = 0; i < ENGINE_RETURNS; i++) {
        struct engine_return *r = &e->returns[i];
        r->total = tensor_vector(e->executor->class->allocate(e->executor, 2 * dtype_size(DTYPE_F64), MEMORY_HOST),
                                 DTYPE_F64, 2);
        r->norm = tensor_vector(e->executor->class->allocate(e->executor, dtype_size(m->statistic), MEMORY_HOST),
                                m->statistic, 1);
    }
}

static void destroy_host(struct engine *e)
{
    for (int i = 0; i < ENGINE_RETURNS; i++) {
        e->executor->class->release(e->executor, e->returns[i].total.data, MEMORY_HOST);
        e->executor->class->release(e->executor, e->returns[i].norm.data, MEMORY_HOST);
    }
    staging_destroy(&e->staging);
}

/* The units' dry runs have found their scratch; an update needs some too. */
static void reserve_for_update(struct engine *e)
{
    struct executor *plan = plan_executor_create(e->executor);
    struct stream stream = {plan, STREAM_COMPUTE, NULL};
    for (int u = 0; u < e->model->unit_count; u++)
        optimizer_measure(&e->optimizer, e->store, &e->model->units[u], &stream);
    optimizer_scale(&e->optimizer, &stream, e->batches[0].total);
    for (int u = 0; u < e->model->unit_count; u++)
        optimizer_update(&e->optimizer, e->store, &e->model->units[u], &stream);
    budget_reserve(&e->budget, plan);
    plan->class->destroy(plan);
}

static void start_transfers(const struct context *context)
{
    const struct engine *e = context->engine;
    e->store->class->start_transfers(e->store, context->stream);
}

void engine_create(struct engine *e, struct executor *executor, struct model *model, struct group *group,
                   const struct engine_settings *settings)
{
    *e = (struct engine){.executor = executor, .model = model, .group = group, .settings = *settings};
    const struct memory_settings *m = &e->settings.memory;
    for (int i = 0; i < STREAM_COUNT; i++)
        e->streams[i] = (struct stream){executor, i, NULL};
    budget_create(&e->budget, executor);
    bool trains = m->use == MEMORY_TRAIN;
    const struct store_request request = {.model = model,
                                          .budget = &e->budget,
                                          .communication = &e->streams[STREAM_COMMUNICATION],
                                          .group = group,
                                          .compute = m->compute,
                                          .statistic = m->statistic,
                                          .trains = trains};
    e->store = (settings->make_store != NULL ? settings->make_store : store_create_replicated)(&request);
    create_visits(e);
    create_batches(e);
    create_rope_table(e);
    create_host(e);
    replay_create(&e->replay, executor, settings->replays && (group->class == NULL || !group->class->waits));
    if (trains)
        optimizer_create(&e->optimizer, &settings->optimizer, tensor_columns(&e->sums, 2, e->sums.cols - 2), &e->budget,
                         m->statistic);
    e->context = (struct context){.stream = &e->streams[STREAM_COMPUTE],
                                  .transfers = &e->streams[STREAM_COMMUNICATION],
                                  .batch = &e->batches[0],
                                  .rope_table = e->rope_table,
                                  .compute = m->compute,
                                  .statistic = m->statistic,
                                  .address = memory_address,
                                  .memory = &e->memory,
                                  .shares = start_transfers,
                                  .engine = e};
    if (generates(e))
        e->context.cache = create_cache(e);
    memory_create(&e->memory, model, m, &e->context, &e->budget);
    e->context.cache.filled = 0;
    if (trains)
        reserve_for_update(e);
}

void engine_destroy(struct engine *e)
{
    replay_destroy(&e->replay);
    e->store->class->destroy(e->store);
    memory_destroy(&e->memory);
    memory_free(e->batches);
    memory_free(e->visits);
    destroy_host(e);
    budget_destroy(&e->budget);
}

void engine_weights_written(struct engine *e)
{
    for (int u = 0; u < e->model->unit_count; u++)
        e->store->class->updated(e->store, &e->model->units[u], &e->streams[STREAM_COMPUTE]);
}

void engine_synchronize(struct engine *e)
{
    stream_synchronize(&e->streams[STREAM_COMPUTE]);
}

/* -- Running ----------------------------------------------------------------------------------------------------- */

/* Numbers of a batch to the first elements of a tensor, which is then as long as they are. */
static void load_numbers(struct engine *e, void *from, int64_t count, struct tensor *to)
{
    *to = tensor_vector(to->data, to->dtype, count);
    staging_copy(&e->staging, &e->streams[STREAM_COMPUTE], tensor_vector(from, to->dtype, count), *to);
}

/* Are the segments as describe_segments says? Of a plan's batch there is no memory to look at. */
static void check_segments(const struct engine *e, const struct batch *batch, const struct attention_segments *said)
{
    if (e->executor->class->dry || generates(e))
        return;
    for (int64_t s = 0; s < batch->rows * batch->max_segments; s++)
        if (batch->segment_length[s] > said->longest ||
            (said->regular && batch->segment_length[s] > 0 && batch->segment_start[s] != s * said->longest))
            error_fatal("segment %lld of a micro-batch has %d tokens from %d on, where each has %lld at most%s",
                        (long long)s, (int)batch->segment_length[s], (int)batch->segment_start[s],
                        (long long)said->longest, said->regular ? " and begins a row" : "");
}

/* Between staging_next and staging_end. The batch may have fewer tokens and segments than planned; units see those that
 * it has. */
static void stage_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to)
{
    const struct memory_settings *m = &e->settings.memory;
    int64_t tokens = batch->rows * batch->row_tokens, slots = batch->rows * batch->max_segments;
    if (tokens > m->rows * m->row_tokens || slots > m->rows * m->max_segments)
        error_fatal("a micro-batch of %lld tokens in %lld segments is larger than planned", (long long)tokens,
                    (long long)slots);
    load_numbers(e, batch->tokens, tokens, &to->tokens);
    load_numbers(e, batch->labels, tokens, &to->labels);
    load_numbers(e, batch->positions, tokens, &to->positions);
    if (e->model->settings.token_dropout)
        load_numbers(e, batch->scale, tokens, &to->scale);
    load_numbers(e, batch->segment_start, slots, &to->segments.q_start);
    load_numbers(e, batch->segment_length, slots, &to->segments.q_length);
    to->segments.kv_start.cols = to->segments.kv_length.cols = to->segments.q_offset.cols = slots;
    describe_segments(e, batch->row_tokens, batch->max_segments, &to->segments);
    check_segments(e, batch, &to->segments);
}

static void load_batch(struct engine *e, const struct batch *batch, struct batch_tensors *to)
{
    staging_next(&e->staging);
    stage_batch(e, batch, to);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
}

static void acquire(struct engine *e, struct unit *unit)
{
    struct unit *home = borrowed_home(unit);
    if (home != NULL)
        e->store->class->acquire(e->store, home, e->context.stream);
    e->store->class->acquire(e->store, unit, e->context.stream);
}

static void release(struct engine *e, struct unit *unit)
{
    struct unit *home = borrowed_home(unit);
    e->store->class->release(e->store, unit, e->context.stream);
    if (home != NULL)
        e->store->class->release(e->store, home, e->context.stream);
}

static void run_forward(struct engine *e, enum pass pass, int slot)
{
    struct model *model = e->model;
    e->context.pass = pass;
    e->context.slot = slot;
    e->context.batch = &e->batches[slot];
    launch_range(e->context.stream, "forward");
    e->store->class->begin(e->store, e->visits, e->visit_count, e->context.stream);
    for (int u = 0; u < model->unit_count; u++) {
        acquire(e, &model->units[u]);
        launch_range(e->context.stream, model->units[u].class->name);
        memory_forward_unit(&e->context, &model->units[u]);
        launch_range_end(e->context.stream);
        release(e, &model->units[u]);
    }
    e->store->class->end(e->store, e->context.stream);
    launch_range_end(e->context.stream);
}

static void run_backward(struct engine *e, const struct action *action)
{
    struct model *model = e->model;
    const struct store_class *store = e->store->class;
    bool weights = action->gradients & GRADIENT_WEIGHT;
    struct unit *lent = NULL; /* has gradients of a unit that borrows from it */
    e->context.pass = PASS_BACKWARD;
    e->context.slot = action->slot;
    e->context.batch = &e->batches[action->slot];
    e->context.gradients = action->gradients;
    launch_range(e->context.stream, "backward");
    store->begin(e->store, e->visits + e->visit_count, e->visit_count, e->context.stream);
    for (int u = model->unit_count - 1; u >= 0; u--) {
        struct unit *unit = &model->units[u], *home = borrowed_home(unit);
        acquire(e, unit);
        if (weights && home != NULL)
            store->gradients_open(e->store, home, e->context.stream, action->first);
        if (weights) /* a tied embedding adds to what the head has left */
            store->gradients_open(e->store, unit, e->context.stream, action->first && unit != lent);
        launch_range(e->context.stream, unit->class->name);
        memory_backward_unit(&e->context, unit);
        launch_range_end(e->context.stream);
        if (weights)
            store->gradients_close(e->store, unit, e->context.stream, action->last);
        if (weights && home != NULL)
            store->gradients_close(e->store, home, e->context.stream, false);
        if (home != NULL)
            lent = home;
        release(e, unit);
    }
    store->end(e->store, e->context.stream);
    launch_range_end(e->context.stream);
}

static void start_totals(struct engine *e)
{
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->sums, .value = 0);
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->batches[0].discarded, .value = 0);
}

static void sum_over_ranks(struct engine *e, struct tensor x)
{
    if (e->group->size > 1)
        LAUNCH(&e->streams[STREAM_COMPUTE], ALL_REDUCE, all_reduce, .group = e->group, .x = x);
}

/* What replay.h calls back with. */
struct part {
    struct engine *engine;
    const struct replay_key *key;
    const struct action *action; /* of a forward or a backward */
};

/* In the order in which backward completes them: what is summed last is waited for last. */
static void measure(struct engine *e, struct stream *stream)
{
    launch_range(stream, "measure");
    for (int u = e->model->unit_count - 1; u >= 0; u--) {
        e->store->class->gradients_wait(e->store, &e->model->units[u], stream);
        optimizer_measure(&e->optimizer, e->store, &e->model->units[u], stream);
    }
    sum_over_ranks(e, e->sums);
    launch_range_end(stream);
}

static void update(struct engine *e, struct stream *stream)
{
    optimizer_scale(&e->optimizer, stream, e->batches[0].total);
    for (int u = 0; u < e->model->unit_count; u++) {
        struct unit *unit = &e->model->units[u];
        optimizer_update(&e->optimizer, e->store, unit, stream);
        e->store->class->updated(e->store, unit, stream);
    }
}

static void run_part(void *self)
{
    const struct part *part = self;
    struct engine *e = part->engine;
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    switch (part->key->part) {
    case REPLAY_FORWARD:
        run_forward(e, PASS_FORWARD, part->action->slot);
        return;
    case REPLAY_BACKWARD:
        run_backward(e, part->action);
        if (part->key->measures)
            measure(e, stream);
        return;
    case REPLAY_UPDATE:
        launch_range(stream, "update");
        update(e, stream);
        launch_range_end(stream);
    }
}

/* A recording ends with all streams joined: sums that only a caller waits for cannot be in one. */
static void run_or_replay(struct engine *e, const struct replay_key *key, const struct action *action)
{
    struct part part = {e, key, action};
    if (key->last && !key->measures)
        run_part(&part);
    else
        replay_run(&e->replay, key, &e->streams[STREAM_COMPUTE], run_part, &part);
}

static void run_action(struct engine *e, const struct action *action, bool measures)
{
    const struct batch_tensors *batch = &e->batches[action->slot];
    const bool forward = action->kind == ACTION_FORWARD;
    const struct replay_key key = {.part = forward ? REPLAY_FORWARD : REPLAY_BACKWARD,
                                   .slot = action->slot,
                                   .gradients = forward ? 0 : (int)action->gradients,
                                   .first = !forward && action->first,
                                   .last = !forward && action->last,
                                   .measures = measures,
                                   .tokens = batch->tokens.cols,
                                   .segments = batch->segments.q_start.cols,
                                   .longest = batch->segments.longest,
                                   .regular = batch->segments.regular};
    run_or_replay(e, &key, action);
}

/* measures: the gradient too, once it is complete; its squares are summed over ranks with the totals. */
static void run_schedule(struct engine *e, const struct schedule *schedule, const struct batch *batches, bool measures)
{
    CHECK_BUG(schedule->slots <= e->memory.slots);
    CHECK_BUG(!schedule->split_backward || e->settings.memory.split_backward);
    start_totals(e);
    for (int i = 0; i < schedule->count; i++) {
        const struct action *action = &schedule->actions[i];
        if (action->kind == ACTION_FORWARD)
            load_batch(e, &batches[action->micro_batch], &e->batches[action->slot]);
        run_action(e, action, measures && i + 1 == schedule->count);
    }
}

/* Sends the totals to the host, and the gradient's norm if an update has been made. */
static void send_return(struct engine *e, bool updated)
{
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    struct engine_return *r = &e->returns[e->begun++ % ENGINE_RETURNS];
    CHECK_BUG(e->begun - e->taken <= ENGINE_RETURNS);
    LAUNCH(stream, COPY, copy, .from = e->batches[0].total, .to = r->total);
    if (updated)
        LAUNCH(stream, COPY, copy, .from = e->optimizer.norm, .to = r->norm);
    event_record(&r->read, stream);
    r->updated = updated;
}

bool engine_ready(struct engine *e)
{
    return e->taken < e->begun && event_passed(&e->returns[e->taken % ENGINE_RETURNS].read, e->executor, false);
}

struct engine_result engine_take(struct engine *e)
{
    CHECK_BUG(e->taken < e->begun);
    struct engine_return *r = &e->returns[e->taken++ % ENGINE_RETURNS];
    event_passed(&r->read, e->executor, true);
    if (e->executor->class->dry)
        return (struct engine_result){0};
    const double *total = r->total.data;
    return (struct engine_result){total[0], total[1], r->updated ? tensor_get(&r->norm, 0, 0) : 0};
}

void engine_begin(struct engine *e, const struct schedule *schedule, const struct batch *batches, double learning_rate)
{
    static const struct replay_key update = {.part = REPLAY_UPDATE};
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    double value; /* wide enough for either type */
    struct tensor there = tensor_columns(&e->optimizer.step, ADAMW_LR, 1), rate = there;
    rate.data = &value;
    tensor_put(&rate, 0, 0, learning_rate);
    run_schedule(e, schedule, batches, true);
    staging_next(&e->staging);
    staging_copy(&e->staging, stream, rate, there);
    staging_end(&e->staging, stream);
    run_or_replay(e, &update, NULL);
    send_return(e, true);
}

struct engine_result engine_step(struct engine *e, const struct schedule *schedule, const struct batch *batches,
                                 double learning_rate)
{
    engine_begin(e, schedule, batches, learning_rate);
    return engine_take(e);
}

struct engine_result engine_gradients(struct engine *e, const struct schedule *schedule, const struct batch *batches)
{
    CHECK_BUG(e->taken == e->begun);
    run_schedule(e, schedule, batches, false);
    for (int u = 0; u < e->model->unit_count; u++)
        e->store->class->gradients_wait(e->store, &e->model->units[u], &e->streams[STREAM_COMPUTE]);
    sum_over_ranks(e, e->batches[0].total);
    send_return(e, false);
    return engine_take(e);
}

void engine_rehearse(struct engine *e, const struct batch *batch)
{
    const struct action backward = {.kind = ACTION_BACKWARD, .first = true, .gradients = GRADIENT_BOTH};
    e->executor->rehearsal = true;
    start_totals(e);
    load_batch(e, batch, &e->batches[0]);
    run_forward(e, PASS_FORWARD, 0);
    run_backward(e, &backward);
    engine_synchronize(e);
    e->executor->rehearsal = false;
}

struct engine_result engine_evaluate(struct engine *e, const struct batch *batches, int64_t count)
{
    CHECK_BUG(e->taken == e->begun);
    start_totals(e);
    for (int64_t i = 0; i < count; i++) {
        load_batch(e, &batches[i], &e->batches[0]);
        run_forward(e, PASS_EVALUATE, 0);
    }
    sum_over_ranks(e, e->batches[0].total);
    send_return(e, false);
    return engine_take(e);
}

/* A copy in host memory, whose data the caller frees. Waits for everything before, so it ends a call that handed memory
 * of its own to the device. */
static struct tensor fetch(struct engine *e, struct tensor from)
{
    void *data = memory_allocate(tensor_count(&from) * dtype_size(from.dtype));
    struct tensor host = tensor_matrix(data, from.dtype, from.rows, from.cols);
    LAUNCH(&e->streams[STREAM_COMPUTE], COPY, copy, .from = from, .to = host);
    engine_synchronize(e);
    return host;
}

static void read_values(struct engine *e, struct tensor from, double *values)
{
    struct tensor host = fetch(e, from);
    for (int64_t i = 0; i < host.cols; i++)
        values[i] = tensor_get(&host, 0, i);
    memory_free(host.data);
}

int64_t engine_updates(struct engine *e)
{
    double updates = 0;
    if (tensor_present(&e->optimizer.updates))
        read_values(e, e->optimizer.updates, &updates);
    return (int64_t)updates;
}

void engine_set_updates(struct engine *e, int64_t updates)
{
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->optimizer.updates, .value = (double)updates);
}

static const struct unit *head_of(const struct engine *e)
{
    return &e->model->units[e->model->unit_count - 1];
}

void engine_score(struct engine *e, const struct batch *batch, double *losses)
{
    start_totals(e);
    load_batch(e, batch, &e->batches[0]);
    run_forward(e, PASS_EVALUATE, 0);
    read_values(e, unit_tensor(&e->context, head_of(e), LM_HEAD_LOSS), losses);
}

void engine_embed(struct engine *e, const struct batch *batch, float *vectors)
{
    load_batch(e, batch, &e->batches[0]);
    run_forward(e, PASS_EMBED, 0);
    struct tensor host = fetch(e, unit_tensor(&e->context, head_of(e), LM_HEAD_NORMED));
    for (int64_t t = 0; t < host.rows; t++)
        for (int64_t i = 0; i < host.cols; i++)
            vectors[t * host.cols + i] = (float)tensor_get(&host, t, i);
    memory_free(host.data);
}

/* -- Generating -------------------------------------------------------------------------------------------------- */

void engine_extend(struct engine *e, const int32_t *tokens, int64_t count, double *logits)
{
    struct kv_cache *cache = &e->context.cache;
    struct batch_tensors *device = &e->batches[0];
    int32_t before = (int32_t)cache->filled, all = (int32_t)(cache->filled + count);
    if (!generates(e) || all > cache->positions)
        error_fatal("a sequence of %d tokens has no room in this engine's cache of %lld", (int)all,
                    (long long)cache->positions);
    struct batch batch;
    batch_create(&batch, 1, count, 1);
    for (int64_t t = 0; t < count; t++) {
        batch.tokens[t] = tokens[t];
        batch.positions[t] = before + (int32_t)t;
    }
    batch.segment_length[0] = (int32_t)count;
    staging_next(&e->staging);
    stage_batch(e, &batch, device);
    load_numbers(e, &before, 1, &device->segments.q_offset);
    load_numbers(e, &all, 1, &device->segments.kv_length);
    staging_end(&e->staging, &e->streams[STREAM_COMPUTE]);
    run_forward(e, PASS_GENERATE, 0);
    read_values(e, lm_head_logits(&e->context, head_of(e), 1), logits);
    cache->filled = all;
    batch_destroy(&batch);
}

int64_t engine_length(const struct engine *e)
{
    return e->context.cache.filled;
}

void engine_truncate(struct engine *e, int64_t length)
{
    if (length < e->context.cache.filled)
        e->context.cache.filled = length;
}
