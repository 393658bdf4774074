#include "engine/recheck.h"
#include "base/error.h"
#include "base/range.h"
#include "engine/engine_private.h"

#include <math.h>
#include <xxhash.h>

enum { STAGING_BYTES = 16 << 20 };

/* A weight store that looks at each unit's gradients before it closes them. Its first members make it one. */
struct recheck {
    struct weight_store store; /* passes all calls on to `inner` */
    struct store_class class;
    struct weight_store *inner;
    struct engine *engine;
    bool exact;
    char *staging;                /* [STAGING_BYTES] in the executor's host memory */
    struct tensor square;         /* f64 [1, 1] on the device */
    struct recheck_value *values; /* [RECHECK_PARTS] */
    double squares;               /* of the gradients so far */
};

/* Mixes the bits of a tensor on the device into a hash. */
static uint64_t hash_tensor(struct recheck *r, struct tensor x, uint64_t hash)
{
    struct stream *stream = &r->engine->streams[STREAM_COMPUTE];
    const int64_t most = STAGING_BYTES / dtype_size(x.dtype);
    for (int64_t first = 0; tensor_present(&x) && first < x.cols; first += most) {
        const struct tensor part = tensor_columns(&x, first, MIN(most, x.cols - first));
        LAUNCH(stream, COPY, copy, .from = part, .to = tensor_vector(r->staging, x.dtype, part.cols));
        stream_synchronize(stream);
        hash = XXH3_64bits_withSeed(r->staging, (size_t)(part.cols * dtype_size(x.dtype)), hash);
    }
    return hash;
}

static double sum_of_squares(struct recheck *r, struct tensor x)
{
    struct engine *e = r->engine;
    struct stream *stream = &e->streams[STREAM_COMPUTE];
    const struct sum_squares_args args = {.x = x, .sum = r->square};
    const struct executor_class *class = e->executor->class;
    const struct tensor host = tensor_vector(r->staging, DTYPE_F64, 1);
    if (class->workspace != NULL)
        class->reserve(e->executor, stream->id, class->workspace(e->executor, OP_SUM_SQUARES, &args));
    launch(stream, OP_SUM_SQUARES, &args);
    LAUNCH(stream, COPY, copy, .from = r->square, .to = host);
    stream_synchronize(stream);
    return tensor_get(&host, 0, 0);
}

/* Looks at a unit's gradients weight by weight, without the padding between them. */
static void look(struct recheck *r, const struct unit *unit)
{
    uint64_t *bits = &r->values[RECHECK_GRADIENTS].bits;
    for (int w = 0; w < unit->weight_count; w++) {
        const struct weight *weight = &unit->weights[w];
        const enum dtype dtype = unit_gradient_dtype(unit, weight->storage, r->engine->settings.memory.statistic);
        char *base = unit->gradient_base[weight->storage];
        const int64_t count = weight->rows * weight->cols;
        if (weight->home != unit || base == NULL || count == 0)
            continue;
        const struct tensor gradient = tensor_vector(base + weight->offset * dtype_size(dtype), dtype, count);
        if (r->exact)
            *bits = hash_tensor(r, gradient, *bits);
        else
            r->squares += sum_of_squares(r, gradient);
    }
}

static void gradients_close(struct weight_store *store, struct unit *unit, struct stream *stream, bool last)
{
    struct recheck *r = (struct recheck *)store;
    look(r, unit);
    r->inner->class->gradients_close(r->inner, unit, stream, last);
}

static void run(struct engine *e, const struct schedule *schedule, const struct batch *batch)
{
    engine_start_totals(e);
    for (int i = 0; i < schedule->count; i++) {
        const struct schedule_action *action = &schedule->actions[i];
        const bool backward = action->kind == ACTION_BACKWARD;
        CHECK_BUG(!action->last);
        if (!backward)
            engine_load_batch(e, batch, engine_batch(e, action->chunk, action->slot));
        engine_receive(e, action->chunk, backward);
        if (backward)
            engine_run_backward(e, action);
        else
            engine_run_forward(e, PASS_FORWARD, action->chunk, action->slot);
        engine_send(e, action->chunk, backward);
    }
}

static void look_at_loss(struct recheck *r)
{
    double total[2];
    engine_read_values(r->engine, r->engine->total, total);
    if (r->exact)
        r->values[RECHECK_LOSS].bits = XXH3_64bits(total, sizeof total);
    else
        r->values[RECHECK_LOSS].size = total[0];
}

static void look_at_state(struct recheck *r)
{
    struct engine *e = r->engine;
    uint64_t *bits = &r->values[RECHECK_STATE].bits;
    for (int u = 0; u < e->model->unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            const struct store_shard shard =
                e->store->class->shard(e->store, &e->model->units[u], (enum storage_class)s);
            const struct tensor parts[] = {shard.weight.value, shard.weight.low, shard.m, shard.v};
            for (size_t i = 0; i < sizeof parts / sizeof *parts && shard.owners > 1; i++)
                *bits = hash_tensor(r, parts[i], *bits);
        }
}

void recheck_compute(struct engine *e, const struct schedule *schedule, const struct batch *batch, bool exact,
                     struct recheck_value values[RECHECK_PARTS])
{
    CHECK_BUG(e->returned == e->launched);
    const struct executor_class *class = e->executor->class;
    struct recheck r = {.class = *e->store->class,
                        .inner = e->store,
                        .engine = e,
                        .exact = exact,
                        .staging = class->allocate(e->executor, STAGING_BYTES, MEMORY_HOST),
                        .square = tensor_columns(&e->optimizer.squares, 0, 1), /* every step begins with 0 there */
                        .values = values};
    for (int i = 0; i < RECHECK_PARTS; i++)
        values[i] = (struct recheck_value){0};
    r.class.gradients_close = gradients_close;
    r.store = (struct weight_store){.class = &r.class, .self = e->store->self, .quantized = e->store->quantized};
    e->store = &r.store;
    run(e, schedule, batch);
    e->store = r.inner;
    values[RECHECK_GRADIENTS].size = sqrt(r.squares);
    look_at_loss(&r);
    look_at_state(&r);
    delayed_scaling_restart(&e->scaling, &e->streams[STREAM_COMPUTE]);
    engine_weights_written(e); /* the next forward measures the amaxes of weights again */
    engine_synchronize(e);
    class->release(e->executor, r.staging, MEMORY_HOST);
}
