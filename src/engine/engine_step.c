/* Steps: actions of a schedule, measurement of the gradient, update; evaluation. */
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine_private.h"

#include <string.h>

void engine_start_totals(struct engine *e)
{
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->sums, .value = 0);
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->batches[0].discarded, .value = 0);
    if (tensor_present(&e->batch_total))
        LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->batch_total, .value = 0);
}

void engine_add_totals(struct engine *e)
{
    const struct exact_quanta *exact = &e->settings.sharding.exact;
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    if (!tensor_present(&e->batch_total))
        return;
    LAUNCH(stream, EXACT_ADD, exact_add, .from = e->batch_total, .to = e->total, .quantum = exact->loss,
           .most = exact->most_loss, .accumulate = true);
    LAUNCH(stream, FILL, fill, .x = e->batch_total, .value = 0);
}

void engine_sum_over_ranks(struct engine *e, struct tensor x)
{
    if (e->groups.all->size > 1)
        LAUNCH(&e->streams[STREAM_COMPUTE], ALL_REDUCE, all_reduce, .group = e->groups.all, .x = x);
}

/* The argument of run_part, which replay_run calls. */
struct step_part {
    struct engine *engine;
    const struct replay_key *key;
    const struct schedule_action *action; /* the action, for a forward or a backward */
};

static void wait_for_gradients(struct engine *e, struct unit *unit, struct stream *stream)
{
    if (unit->frozen)
        return;
    e->store->class->gradients_wait(e->store, unit, stream);
    if (unit->on_two_stages && unit->here)
        engine_sum_two_stages(e, unit, stream);
}

/* Measures units in the order in which backward completes them, so that the last reduction is waited for last. */
static void measure(struct engine *e, struct stream *stream)
{
    launch_range(stream, "measure");
    for (int u = e->model->unit_count - 1; u >= 0; u--) {
        wait_for_gradients(e, &e->model->units[u], stream);
        optimizer_measure(&e->optimizer, e->store, &e->model->units[u], stream);
    }
    engine_sum_over_ranks(e, e->sums);
    delayed_scaling_share(&e->scaling, e->groups.all, stream);
    launch_range_end(stream);
}

static void update(struct engine *e, struct stream *stream)
{
    optimizer_scale(&e->optimizer, stream, e->total);
    delayed_scaling_update(&e->scaling, stream);
    for (int u = 0; u < e->model->unit_count; u++)
        optimizer_update(&e->optimizer, e->store, &e->model->units[u], stream);
}

static void run_part(void *self)
{
    const struct step_part *part = self;
    struct engine *e = part->engine;
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    switch (part->key->part) {
    case REPLAY_FORWARD:
        engine_run_forward(e, PASS_FORWARD, part->action->chunk, part->action->slot);
        return;
    case REPLAY_BACKWARD:
        engine_run_backward(e, part->action);
        if (part->key->measures)
            measure(e, stream);
        return;
    case REPLAY_UPDATE:
        launch_range(stream, "update");
        update(e, stream);
        launch_range_end(stream);
        return;
    case REPLAY_GENERATE: /* no part of a step */
        return;
    }
}

/* A captured graph joins all streams at its end, so a last backward, whose reductions are waited for later, is not
 * captured. */
static void run_or_replay(struct engine *e, const struct replay_key *key, const struct schedule_action *action)
{
    struct step_part part = {e, key, action};
    if (key->last && !key->measures)
        run_part(&part);
    else
        replay_run(&e->replay, key, &e->streams[STREAM_COMPUTE], run_part, &part);
}

static void run_action(struct engine *e, const struct schedule_action *action, bool measures)
{
    const struct batch_tensors *batch = engine_batch(e, action->chunk, action->slot);
    const bool forward = action->kind == ACTION_FORWARD;
    const struct replay_key key = {.part = forward ? REPLAY_FORWARD : REPLAY_BACKWARD,
                                   .chunk = action->chunk,
                                   .slot = action->slot,
                                   .gradients = forward ? 0 : (int)action->gradients,
                                   .first = !forward && action->first,
                                   .written = forward ? e->written[action->chunk] : STORE_WRITTEN_NONE,
                                   .last = !forward && action->last,
                                   .measures = measures,
                                   .statistics = tensor_present(&e->execution.quantization_errors),
                                   .tokens = batch->tokens.cols,
                                   .segments = batch->segments.q_start.cols,
                                   .labelled = batch->labelled.rows.cols,
                                   .longest = batch->segments.longest,
                                   .full = batch->segments.full};
    run_or_replay(e, &key, action);
    if (forward) /* also after a replay */
        engine_seen(e, action->chunk);
}

/* Starts measuring quantization errors until the end of the schedule, if this is requested. */
static void start_quantization_errors(struct engine *e)
{
    if (!e->statistics)
        return;
    CHECK_BUG(tensor_present(&e->quantization_errors));
    e->execution.quantization_errors = e->quantization_errors;
    LAUNCH(&e->streams[STREAM_COMPUTE], FILL, fill, .x = e->quantization_errors, .value = 0);
}

/* Runs a schedule. measures: also measures the complete gradient; its squares are summed over ranks with the totals. */
static void run_schedule(struct engine *e, const struct schedule *schedule, const struct batch *batches, bool measures)
{
    for (int c = 0; c < MODEL_CHUNKS; c++)
        CHECK_BUG(schedule->slots[c] <= e->settings.memory.slots[c]);
    CHECK_BUG(!schedule->split_backward || e->settings.memory.split_backward);
    CHECK_BUG(e->settings.memory.gradient_bytes == 0 || schedule->count == 2);
    const bool joins = measures && e->groups.stages == NULL; /* reductions of several chunks are not in one graph */
    engine_start_totals(e);
    start_quantization_errors(e);
    for (int i = 0; i < schedule->count; i++) {
        const struct schedule_action *action = &schedule->actions[i];
        if (action->kind == ACTION_FORWARD)
            engine_load_batch(e, &batches[action->micro_batch], engine_batch(e, action->chunk, action->slot));
        engine_receive(e, action->chunk, action->kind == ACTION_BACKWARD);
        run_action(e, action, joins && i + 1 == schedule->count);
        engine_send(e, action->chunk, action->kind == ACTION_BACKWARD);
    }
    if (measures && !joins)
        measure(e, &e->streams[STREAM_COMPUTE]);
    e->execution.quantization_errors = (struct tensor){0};
}

/* Records time stamp `number` at this point of the compute stream. */
static void mark(struct engine *e, int64_t number)
{
    const struct executor *executor = e->executor;
    e->marks[number % ENGINE_MARKS] = clock_seconds();
    if (executor->profiling != NULL)
        executor->profiling->stamp(executor->owner, &e->streams[STREAM_COMPUTE], number % ENGINE_MARKS);
}

double engine_seconds(const struct engine *e)
{
    const struct executor *executor = e->executor;
    const int64_t from = (e->returned - 1) % ENGINE_MARKS, to = e->returned % ENGINE_MARKS;
    CHECK_BUG(e->returned > 0 && e->launched - e->returned < ENGINE_RETURNS);
    return executor->profiling != NULL ? executor->profiling->stamp_seconds(executor->owner, from, to)
                                       : e->marks[to] - e->marks[from];
}

/* Starts copying the totals to the host, the gradient norm after an update, and quantization errors if measured. */
static void send_return(struct engine *e, bool updated, bool measured)
{
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    struct engine_return *r = &e->returns[e->launched++ % ENGINE_RETURNS];
    CHECK_BUG(e->launched - e->returned <= ENGINE_RETURNS);
    LAUNCH(stream, COPY, copy, .from = e->total, .to = r->total);
    if (updated)
        LAUNCH(stream, COPY, copy, .from = e->optimizer.norm, .to = r->norm);
    if (measured)
        LAUNCH(stream, COPY, copy, .from = e->quantization_errors, .to = r->quantization_errors);
    mark(e, e->launched);
    event_record(&r->read, stream);
    r->updated = updated;
    r->measured = measured;
}

bool engine_ready(struct engine *e)
{
    return e->returned < e->launched &&
           event_passed(&e->returns[e->returned % ENGINE_RETURNS].read, e->executor, false);
}

struct engine_result engine_take(struct engine *e)
{
    CHECK_BUG(e->returned < e->launched);
    struct engine_return *r = &e->returns[e->returned++ % ENGINE_RETURNS];
    event_passed(&r->read, e->executor, true);
    if (e->executor->class->dry)
        return (struct engine_result){0};
    const double *total = r->total.data;
    return (struct engine_result){total[0], total[1], r->updated ? tensor_get(&r->norm, 0, 0) : 0};
}

void engine_quantization_errors(const struct engine *e, double *errors)
{
    CHECK_BUG(e->returned > 0);
    const struct engine_return *r = &e->returns[(e->returned - 1) % ENGINE_RETURNS];
    CHECK_BUG(r->measured && e->launched - e->returned < ENGINE_RETURNS);
    if (!e->executor->class->dry)
        memcpy(errors, r->quantization_errors.data, (size_t)tensor_count(&r->quantization_errors) * sizeof *errors);
}

static void send_rate(struct engine *e, const struct tensor *step, double learning_rate)
{
    double value; /* wide enough for either type */
    const struct tensor there = tensor_columns(step, ADAMW_LR, 1);
    struct tensor rate = there;
    rate.data = &value;
    tensor_put(&rate, 0, 0, learning_rate);
    staging_copy(&e->staging, &e->streams[STREAM_COMPUTE], rate, there);
}

void engine_begin(struct engine *e, const struct schedule *schedule, const struct batch *batches, double learning_rate)
{
    static const struct replay_key update = {.part = REPLAY_UPDATE};
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    if (e->launched == e->returned)
        mark(e, e->launched);
    run_schedule(e, schedule, batches, true);
    staging_next(&e->staging);
    send_rate(e, &e->optimizer.steps[0], learning_rate);
    if (e->optimizer.settings.decoupled)
        send_rate(e, &e->optimizer.steps[1], e->decoupled_rate);
    staging_end(&e->staging, stream);
    if (e->copied.serial > 0)
        event_wait(&e->copied, stream);
    run_or_replay(e, &update, NULL);
    engine_written(e, STORE_WRITTEN_TRAINED);
    send_return(e, true, e->statistics);
}

struct engine_result engine_step(struct engine *e, const struct schedule *schedule, const struct batch *batches,
                                 double learning_rate)
{
    engine_begin(e, schedule, batches, learning_rate);
    return engine_take(e);
}

struct engine_result engine_gradients(struct engine *e, const struct schedule *schedule, const struct batch *batches)
{
    CHECK_BUG(e->returned == e->launched);
    run_schedule(e, schedule, batches, false);
    for (int u = 0; u < e->model->unit_count; u++)
        wait_for_gradients(e, &e->model->units[u], &e->streams[STREAM_COMPUTE]);
    engine_sum_over_ranks(e, e->total);
    send_return(e, false, e->statistics);
    return engine_take(e);
}

void engine_tuning_pass(struct engine *e, const struct batch *batch, bool adds)
{
    /* products that write gradients, that add to them, and of bf16 gradients those that are summed over ranks */
    const int passes = !adds ? 1 : e->model->settings.rounds_gradients ? 3 : 2;
    e->executor->tuning_pass = true;
    engine_start_totals(e);
    for (int c = 0; c < e->model->chunk_count; c++) { /* other stages send nothing: the values do not matter */
        engine_load_batch(e, batch, engine_batch(e, c, 0));
        for (int i = 0; i < passes; i++) {
            const struct schedule_action backward = {.kind = ACTION_BACKWARD,
                                                     .chunk = c,
                                                     .first = i == 0,
                                                     .last = i + 1 == passes,
                                                     .gradients = GRADIENT_BOTH};
            engine_run_forward(e, PASS_FORWARD, c, 0);
            engine_run_backward(e, &backward);
        }
    }
    engine_synchronize(e);
    e->executor->tuning_pass = false;
    engine_weights_written(e); /* the next forward measures the amaxes of weights again */
}

struct engine_result engine_evaluate(struct engine *e, const struct batch *batches, int64_t count)
{
    CHECK_BUG(e->returned == e->launched);
    engine_start_totals(e);
    for (int64_t i = 0; i < count; i++) {
        engine_forward_stages(e, PASS_EVALUATE, &batches[i]);
        engine_show_predictions(e, &batches[i]);
    }
    engine_sum_over_ranks(e, e->total);
    send_return(e, false, false);
    return engine_take(e);
}
