/* Every interface of the program has a second implementation with bit-identical results, for toys of every family:
 * executors, recompute policies, schedules, stores and more (doc/design.md). */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "model/block.h"
#include "plan/lifetime.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/reference.h"
#include "ref/toy.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MICRO_BATCHES = 4, STEPS = 3 };

static struct batch batches[MICRO_BATCHES];

/* A few steps; the state after them. */
static char *run_steps(struct toy *toy, int slots, bool split, int64_t *bytes)
{
    struct schedule schedule = schedule_create(MICRO_BATCHES, slots, split);
    for (int s = 0; s < STEPS; s++)
        engine_step(&toy->engine, &schedule, batches, 1e-2);
    schedule_destroy(&schedule);
    return toy_state(toy, bytes);
}

static char *plain_state(struct executor *executor, struct toy_options options, int64_t *bytes)
{
    struct toy toy;
    options.executor = executor;
    options.slots = 1;
    options.split_backward = false;
    toy_create(&toy, &options);
    char *state = run_steps(&toy, 1, false, bytes);
    toy_destroy(&toy);
    return state;
}

static bool same(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return a_bytes == b_bytes && memcmp(a, b, (size_t)a_bytes) == 0;
}

/* -- Store: weights and gradients are NaN outside acquire / release and open / close, in three buffers in turn -------
 */

enum { BUFFERS = 3 };

struct nan_store {
    struct weight_store store, *inner;
    struct model *model;
    struct executor *executor;
    struct stream stream;
    enum dtype compute;
    char *weights[BUFFERS], *gradients[BUFFERS]; /* by storage one behind the other */
    char *copies;                                /* [unit]: the weights as they were written last */
    int64_t capacity;                            /* elements of one storage */
    char *quantized[BUFFERS];                    /* quantized weights, moved as bf16 */
    int64_t quantized_capacity;                  /* such elements */
};

/* A tied head has two units at once, the first and the last, which must not meet in one. */
static int nan_buffer(const struct unit *unit)
{
    return unit->index % BUFFERS;
}

static char *nan_copy(const struct nan_store *n, const struct unit *unit)
{
    return n->copies + unit->index * n->capacity * STORAGE_COUNT * dtype_size(n->compute);
}

static struct tensor nan_view(char *base, int64_t capacity, int storage, int64_t count, enum dtype dtype)
{
    return tensor_vector(base + storage * capacity * dtype_size(dtype), dtype, count);
}

static void nan_fill(struct nan_store *n, char *base, enum dtype dtype)
{
    LAUNCH(&n->stream, FILL, fill, .x = tensor_vector(base, dtype, n->capacity * STORAGE_COUNT), .value = NAN);
}

static void nan_take(struct nan_store *n, struct unit *unit, struct stream *stream)
{
    for (int s = 0; s < STORAGE_COUNT; s++) {
        if (unit->elements[s] == 0)
            continue;
        struct store_shard shard = n->inner->class->shard(n->inner, unit, (enum storage_class)s);
        struct tensor to = nan_view(nan_copy(n, unit), n->capacity, s, unit->elements[s], n->compute);
        LAUNCH(stream, COPY, copy, .from = shard.weight.value, .to = to);
    }
}

static void nan_begin(struct weight_store *store, struct unit *const *units, int count, struct stream *stream,
                      enum store_written written)
{
    struct nan_store *n = store->self;
    n->inner->class->begin(n->inner, units, count, stream, written);
    for (int u = 0; u < n->model->unit_count && written; u++)
        nan_take(n, &n->model->units[u], stream);
}

static void nan_acquire(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    struct nan_store *n = store->self;
    n->inner->class->acquire(n->inner, unit, stream);
    char *buffer = n->weights[nan_buffer(unit)];
    for (int s = 0; s < STORAGE_COUNT; s++) {
        if (unit->elements[s] == 0)
            continue;
        struct tensor to = nan_view(buffer, n->capacity, s, unit->elements[s], n->compute);
        struct tensor from = nan_view(nan_copy(n, unit), n->capacity, s, unit->elements[s], n->compute);
        LAUNCH(stream, COPY, copy, .from = from, .to = to);
        unit->weight_base[s] = to.data;
    }
    if (unit->quantized_bytes > 0) {
        const int64_t count = unit->quantized_bytes / dtype_size(DTYPE_BF16);
        struct tensor to = tensor_vector(n->quantized[nan_buffer(unit)], DTYPE_BF16, count);
        LAUNCH(stream, COPY, copy, .from = tensor_vector(unit->quantized_base, DTYPE_BF16, count), .to = to);
        unit->quantized_base = to.data;
    }
}

static void nan_forget(struct nan_store *n, char *quantized)
{
    if (n->quantized_capacity > 0)
        LAUNCH(&n->stream, FILL, fill, .x = tensor_vector(quantized, DTYPE_BF16, n->quantized_capacity), .value = NAN);
}

static void nan_release(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    struct nan_store *n = store->self;
    nan_fill(n, n->weights[nan_buffer(unit)], n->compute);
    nan_forget(n, n->quantized[nan_buffer(unit)]);
    n->inner->class->release(n->inner, unit, stream);
}

static void nan_open(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh, bool last)
{
    struct nan_store *n = store->self;
    n->inner->class->gradients_open(n->inner, unit, stream, fresh, last);
    for (int s = 0; s < STORAGE_COUNT; s++) {
        if (unit->elements[s] == 0)
            continue;
        struct tensor to = nan_view(n->gradients[nan_buffer(unit)], n->capacity, s, unit->elements[s], DTYPE_F32);
        if (!fresh)
            LAUNCH(stream, COPY, copy, .from = tensor_vector(unit->gradient_base[s], DTYPE_F32, unit->elements[s]),
                   .to = to);
        else /* padding between parameters is written by nobody, and must stay as the plain store's: zero */
            LAUNCH(stream, FILL, fill, .x = to, .value = 0);
        unit->gradient_base[s] = to.data;
    }
}

static void nan_close(struct weight_store *store, struct unit *unit, struct stream *stream, bool last)
{
    struct nan_store *n = store->self;
    for (int s = 0; s < STORAGE_COUNT; s++) {
        if (unit->elements[s] == 0)
            continue;
        struct store_shard shard = n->inner->class->shard(n->inner, unit, (enum storage_class)s);
        LAUNCH(stream, COPY, copy, .from = tensor_vector(unit->gradient_base[s], DTYPE_F32, unit->elements[s]),
               .to = shard.gradient);
    }
    nan_fill(n, n->gradients[nan_buffer(unit)], DTYPE_F32);
    n->inner->class->gradients_close(n->inner, unit, stream, last);
}

static void nan_start(struct weight_store *store, struct stream *stream)
{
    struct nan_store *n = store->self;
    n->inner->class->start_transfers(n->inner, stream);
}

static void nan_end(struct weight_store *store, struct stream *stream, bool last)
{
    struct nan_store *n = store->self;
    n->inner->class->end(n->inner, stream, last);
}

static void nan_wait(struct weight_store *store, struct unit *unit, struct stream *stream)
{
    struct nan_store *n = store->self;
    n->inner->class->gradients_wait(n->inner, unit, stream);
}

static struct store_shard nan_shard(struct weight_store *store, struct unit *unit, enum storage_class storage)
{
    struct nan_store *n = store->self;
    return n->inner->class->shard(n->inner, unit, storage);
}

static void nan_destroy(struct weight_store *store)
{
    struct nan_store *n = store->self;
    n->inner->class->destroy(n->inner);
    for (int i = 0; i < BUFFERS; i++) {
        memory_free(n->weights[i]);
        memory_free(n->gradients[i]);
        memory_free(n->quantized[i]);
    }
    memory_free(n->copies);
}

static const struct store_class nan_class = {.begin = nan_begin,
                                             .acquire = nan_acquire,
                                             .release = nan_release,
                                             .gradients_open = nan_open,
                                             .gradients_close = nan_close,
                                             .start_transfers = nan_start,
                                             .end = nan_end,
                                             .gradients_wait = nan_wait,
                                             .shard = nan_shard,
                                             .destroy = nan_destroy};

static void test_store(struct executor *executor, enum toy_kind kind, enum dtype compute, int recipe)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    options.compute = compute;
    int64_t plain_bytes, bytes;
    char *plain = plain_state(executor, options, &plain_bytes);
    struct toy toy;
    toy_create(&toy, &options);
    struct nan_store n = {
        .store = {&nan_class, &n}, .inner = toy.engine.store, .model = &toy.model, .executor = executor};
    n.stream = (struct stream){executor, STREAM_COMPUTE, NULL};
    n.compute = compute;
    for (int u = 0; u < toy.model.unit_count; u++) {
        const int64_t quantized = toy.model.units[u].quantized_bytes / dtype_size(DTYPE_BF16);
        for (int s = 0; s < STORAGE_COUNT; s++)
            if (toy.model.units[u].elements[s] > n.capacity)
                n.capacity = toy.model.units[u].elements[s];
        n.quantized_capacity = quantized > n.quantized_capacity ? quantized : n.quantized_capacity;
    }
    for (int i = 0; i < BUFFERS; i++) {
        n.weights[i] = memory_allocate(n.capacity * STORAGE_COUNT * 4);
        n.gradients[i] = memory_allocate(n.capacity * STORAGE_COUNT * 4);
        nan_fill(&n, n.weights[i], compute);
        nan_fill(&n, n.gradients[i], DTYPE_F32);
        n.quantized[i] = memory_allocate(n.quantized_capacity * dtype_size(DTYPE_BF16));
        nan_forget(&n, n.quantized[i]);
    }
    n.copies = memory_allocate(toy.model.unit_count * n.capacity * STORAGE_COUNT * 4);
    toy.engine.store = &n.store;
    engine_weights_written(&toy.engine);
    char *state = run_steps(&toy, 1, false, &bytes);
    CHECK(same(plain, plain_bytes, state, bytes));
    free(state);
    free(plain);
    toy_destroy(&toy);
}

/* -- Schedules: two slots, backward in two halves -------------------------------------------------------------------
 */

static void test_schedules(struct executor *executor, enum toy_kind kind, enum deck_recompute recompute, int recipe)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    options.recompute = recompute;
    int64_t plain_bytes, bytes;
    char *plain = plain_state(executor, options, &plain_bytes);
    for (int slots = 1; slots <= 3; slots++) {
        for (int split = 0; split <= 1; split++) {
            struct toy toy;
            options.slots = slots;
            options.split_backward = split;
            toy_create(&toy, &options);
            char *state = run_steps(&toy, slots, split, &bytes);
            CHECK(same(plain, plain_bytes, state, bytes));
            free(state);
            toy_destroy(&toy);
        }
    }
    free(plain);
}

/* -- Keep table: what is made again is what would have been kept ------------------------------------------------- */

static void give_policy(struct recompute *recompute, int layer, int policy)
{
    struct layer_list *list = &recompute->layers[policy % (DECK_RECOMPUTE_FULL + 1)];
    list->ranges[list->count].first = list->ranges[list->count].last = layer;
    list->count++;
}

/* What a layer keeps by a policy does not depend on other layers, but for its output, of which the backward of a
 * post-norm layer after it may read quantized forms alone. */
static void check_kept(const struct toy *mixed, struct toy_options options, int layer)
{
    struct toy alike;
    options.recompute = recompute_of(&mixed->model.settings.recompute, layer);
    options.settings.recompute = (struct recompute){.others = DECK_RECOMPUTE_NONE};
    toy_create(&alike, &options);
    struct id_set *kept = &alike.engine.memory.units[1 + layer].kept,
                  expected = mixed->engine.memory.units[1 + layer].kept;
    const struct id_set dropped = block_dropped_by(&alike.model.units[1 + layer], options.recompute);
    if (options.settings.family->post_norm) {
        id_set_add(kept, UNIT_OUTPUT);
        id_set_add(&expected, UNIT_OUTPUT);
    }
    CHECK(memcmp(kept, &expected, sizeof *kept) == 0);
    for (int id = 0; id < alike.model.units[1 + layer].tensor_count; id++)
        CHECK(!id_set_has(kept, id) || !id_set_has(&dropped, id));
    toy_destroy(&alike);
}

/* Each policy keeps less than those that it includes. */
static void test_policies(struct executor *executor, enum toy_kind kind)
{
    int64_t kept[DECK_RECOMPUTE_FULL + 1];
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        struct toy_options options = toy_options(executor);
        struct toy toy;
        options.settings = toy_settings(kind);
        options.recompute = (enum deck_recompute)policy;
        toy_create(&toy, &options);
        kept[policy] = toy.engine.memory.chunks[0].slot_bytes;
        toy_destroy(&toy);
    }
    CHECK(kept[DECK_RECOMPUTE_ONLY_NORMS] < kept[DECK_RECOMPUTE_NONE]);
    CHECK(kept[DECK_RECOMPUTE_ACTIVATION] < kept[DECK_RECOMPUTE_NONE]);
    CHECK(kept[DECK_RECOMPUTE_NORMS] < kept[DECK_RECOMPUTE_ONLY_NORMS]);
    for (int policy = DECK_RECOMPUTE_NORMS; policy <= DECK_RECOMPUTE_FULL; policy++)
        CHECK(kept[policy] < kept[policy - 1]);
}

/* Each policy in each of the three layers, beside others. */
static void test_keep_table(struct executor *executor, enum toy_kind kind, int recipe)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    int64_t all_bytes, bytes;
    char *all = plain_state(executor, options, &all_bytes);
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        options.recompute = (enum deck_recompute)policy;
        options.settings.recompute = (struct recompute){.others = DECK_RECOMPUTE_NONE};
        give_policy(&options.settings.recompute, 0, policy + 1);
        give_policy(&options.settings.recompute, 2, 3 * policy + 5);
        /* of weights: for each product, or kept; with delayed scaling their amaxes then wait for the next step */
        options.settings.precision.quantizes_per_gemm = policy % 2 == 1 && recipe != DECK_RECIPE_DELAYED;
        struct toy toy;
        toy_create(&toy, &options);
        for (int layer = 0; layer < 3; layer++)
            check_kept(&toy, options, layer);
        char *state = run_steps(&toy, 1, false, &bytes);
        if (!CHECK(same(all, all_bytes, state, bytes)))
            fprintf(stderr, "    model %d, recipe %d, keep table %d\n", (int)kind, recipe, policy);
        free(state);
        toy_destroy(&toy);
    }
    free(all);
}

/* -- Record: replay in random orders, each wait needed ----------------------------------------------------------- */

/* A second rank with the same data: sums are doubles. Makes a step use both streams without MPI. */
static void twin_all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    (void)group, (void)stream;
    for (int64_t i = 0; i < args->x.cols && !args->maximum; i++) {
        if (args->x.dtype == DTYPE_F64)
            ((double *)args->x.data)[i] *= 2;
        else
            ((float *)args->x.data)[i] *= 2;
    }
}

static const struct group_class twin_class = {.name = "twin", .all_reduce = twin_all_reduce};

/* The quantized weights of a replicated store, into `state` or back; counts bytes when it is NULL. */
static int64_t move_quantized(struct toy *toy, char *state, bool restore)
{
    struct weight_store *store = toy->engine.store;
    int64_t bytes = 0;
    for (int u = 0; u < toy->model.unit_count; u++) {
        struct unit *unit = &toy->model.units[u];
        store->class->acquire(store, unit, NULL);
        if (state != NULL && unit->quantized_bytes > 0)
            memcpy(restore ? unit->quantized_base : state + bytes, restore ? state + bytes : unit->quantized_base,
                   (size_t)unit->quantized_bytes);
        bytes += unit->quantized_bytes;
        store->class->release(store, unit, NULL);
    }
    return bytes;
}

/* offloads: layers 0, 1, 3 and 4 of 5, so two have each buffer. */
static void test_record(struct executor *executor, enum toy_kind kind, int recipe, bool offloads)
{
    struct group twin = {.name = "data", .size = 2, .class = &twin_class};
    struct executor *record = record_executor_create(executor);
    struct toy_options options = toy_options(record);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    options.group = &twin;
    options.slots = 2;
    options.recompute = DECK_RECOMPUTE_NORMS;
    if (offloads) {
        options.settings.layers = 5;
        options.settings.recompute.offloaded = (struct layer_list){2, {{0, 1}, {3, 4}}};
    }
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 2, false);
    engine_step(&toy.engine, &schedule, batches, 1e-2); /* not from zero moments */
    int64_t bytes, after_bytes;
    char *before = toy_state(&toy, &bytes), *quantized = memory_allocate(move_quantized(&toy, NULL, false) + 1);
    move_quantized(&toy, quantized, false);
    record_clear(record);
    engine_step(&toy.engine, &schedule, batches, 1e-2);
    char *eager = toy_state(&toy, &bytes);
    CHECK(!same(before, bytes, eager, bytes));

    for (int order = 0; order < 20; order++) {
        toy_restore(&toy, before);
        move_quantized(&toy, quantized, true);
        record_replay(record, order == 0 ? RECORD_AS_ISSUED : RECORD_RANDOM, (uint64_t)order, -1);
        char *after = toy_state(&toy, &after_bytes);
        CHECK(same(eager, bytes, after, after_bytes));
        free(after);
    }
    const struct plan_log *log = record_executor_log(record);
    struct launch_race races[4];
    int64_t found = race_check(log, -1, races, 4);
    CHECK(found == 0);
    for (int64_t i = 0; i < (found < 4 ? found : 4); i++) {
        char *text = race_describe(&races[i]);
        fprintf(stderr, "    %s\n", text);
        free(text);
    }
    int waits = 0, needed = 0;
    for (int64_t e = 0; e < log->count; e++) {
        if (log->entries[e].kind != PLAN_WAIT)
            continue;
        waits++;
        needed += race_check(log, e, races, 4) > 0;
    }
    /* Of each sum for its gradients, and for each sum. With offload in each forward and backward 7 more, so that it can
     * be recorded by itself; between a forward and its slot's backward two of them are not needed, or four in all. */
    CHECK(waits == 2 * toy.model.unit_count + (offloads ? 2 * MICRO_BATCHES * 7 : 0));
    CHECK(needed == waits - (offloads ? 4 : 0));
    printf("record: %lld entries, %d waits, %d needed\n", (long long)log->count, waits, needed);
    free(before);
    free(eager);
    memory_free(quantized);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    record->class->destroy(record);
}

/* -- Offload: what has been in host memory is what was sent there -----------------------------------------------------
 */

/* One to four of four layers, beside others, with one and two slots. */
static void test_offload(struct executor *executor, enum toy_kind kind, int recipe)
{
    static const struct layer_list lists[] = {{1, {{0, 0}}}, {1, {{3, 3}}}, {2, {{0, 0}, {2, 3}}}, {1, {{0, 3}}}};
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    options.settings.layers = 4;
    int64_t plain_bytes, bytes;
    char *plain = plain_state(executor, options, &plain_bytes);
    for (int i = 0; i < 4; i++) {
        struct toy toy;
        options.settings.recompute.offloaded = lists[i];
        options.recompute = i == 1 ? DECK_RECOMPUTE_QKV : DECK_RECOMPUTE_NORMS;
        options.slots = 1 + i % 2;
        toy_create(&toy, &options);
        char *state = run_steps(&toy, options.slots, false, &bytes);
        CHECK(same(plain, plain_bytes, state, bytes));
        CHECK(toy.engine.memory.offload[0].count == (i < 2 ? 1 : 1 + i));
        CHECK(toy.engine.budget.bytes[BUDGET_HOST] == toy.engine.memory.offload[0].slot_bytes * options.slots);
        free(state);
        toy_destroy(&toy);
    }
    free(plain);
}

/* -- Operands: one linear in emulated e4m3 through the unchanged unit code ---------------------------------------- */

static char *e4m3_gradients(struct executor *executor, enum toy_kind kind, bool quantised,
                            enum deck_recompute recompute, int64_t *bytes)
{
    static const struct precision one_linear = {
        .kinds = {[PRECISION_EIGHT] = {.quantized = true}}, .eight = {1, {{1, 1}}}, .linears = {[LINEAR_UP] = true}};
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.recompute = recompute;
    struct toy toy;
    if (quantised)
        options.settings.precision = one_linear;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    engine_gradients(&toy.engine, &schedule, batches);
    char *gradients = toy_gradients(&toy, bytes);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    return gradients;
}

static double float_distance(const char *a, const char *b, int64_t bytes)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof(float); i++) {
        float x = ((const float *)a)[i], y = ((const float *)b)[i];
        difference += ((double)x - y) * ((double)x - y);
        norm += (double)y * y;
    }
    return sqrt(difference / norm);
}

static void test_operands(struct executor *cpu, struct executor *reference, enum toy_kind kind)
{
    int64_t bytes, others;
    char *plain = e4m3_gradients(cpu, kind, false, DECK_RECOMPUTE_NONE, &bytes);
    char *own = e4m3_gradients(cpu, kind, true, DECK_RECOMPUTE_NONE, &others);
    char *dropped = e4m3_gradients(cpu, kind, true, DECK_RECOMPUTE_GATE_UP, &others);
    char *oracle = e4m3_gradients(reference, kind, true, DECK_RECOMPUTE_NONE, &others);
    double to_oracle = float_distance(own, oracle, bytes), to_plain = float_distance(own, plain, bytes);
    printf("operands: e4m3 against its oracle %.2e, against fp32 %.2e\n", to_oracle, to_plain);
    /* An element that lies within fp32's rounding (2^-23 relative) of the middle between two e4m3 values may round the
     * other way: one in 2^19 by chance, and then by 2^-4 of itself. e4m3 itself moves gradients by percents. */
    CHECK(to_oracle < 1e-3);
    CHECK(to_plain > 5e-3);
    CHECK(memcmp(own, dropped, (size_t)bytes) == 0);
    free(plain);
    free(own);
    free(dropped);
    free(oracle);
}

/* -- Recipes: every parameter has a gradient ---------------------------------------------------------------------- */

static bool has_gradient(const struct toy *toy, struct unit *unit, const struct parameter *p)
{
    const struct store_shard shard = toy->engine.store->class->shard(toy->engine.store, unit, p->storage);
    for (int64_t i = 0; i < p->part.rows * p->part.cols; i++)
        if (tensor_get(&shard.gradient, 0, p->offset + i) != 0)
            return true;
    return false;
}

/* An operand that its op quantizes has no value from which a bias's gradient could be summed later. */
static void test_gradients(struct executor *cpu, enum toy_kind kind, int recipe)
{
    struct toy_options options = toy_options(cpu);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    options.compute = DTYPE_BF16;
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    engine_gradients(&toy.engine, &schedule, batches);
    for (int u = 0; u < toy.model.unit_count; u++)
        for (int i = 0; i < toy.model.units[u].parameter_count; i++) {
            const struct parameter *p = &toy.model.units[u].parameters[i];
            if (!CHECK(has_gradient(&toy, &toy.model.units[u], p)))
                fprintf(stderr, "    recipe %d: %s has no gradient\n", recipe, p->name);
        }
    schedule_destroy(&schedule);
    toy_destroy(&toy);
}

/* -- Plan: what it says is what ops touch ------------------------------------------------------------------------ */

/* Sums, by category, each block's bytes up to the last that a launch touches. No launch touches bytes after the block
 * in which it begins. */
static void sum_touched(const struct plan_log *log, const struct budget *budget, int64_t *sums)
{
    int64_t wrong = 0;
    for (int i = 0; i < budget->count; i++) {
        const uintptr_t begin = (uintptr_t)budget->blocks[i].address, end = begin + (uintptr_t)budget->blocks[i].bytes;
        uintptr_t last = begin;
        for (struct plan_touch touch = {.log = log}; plan_touch_next(&touch);) {
            const uintptr_t touched = plan_region_end(&touch.region);
            if (touch.region.base < begin || touch.region.base >= end)
                continue;
            wrong += touched > end;
            last = touched > last ? touched : last;
        }
        sums[budget->blocks[i].category] += (int64_t)(last - begin);
    }
    CHECK(wrong == 0);
}

static void test_plan(struct executor *cpu, struct toy_options options)
{
    struct executor *plan = plan_executor_create(cpu);
    struct toy toy;
    options.executor = plan;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, options.slots, options.split_backward);
    engine_step(&toy.engine, &schedule, batches, 1e-2);
    engine_evaluate(&toy.engine, batches, 1);
    const struct budget *budget = &toy.engine.budget;
    int64_t touched[BUDGET_CATEGORIES] = {0};
    sum_touched(plan_executor_log(plan), budget, touched);
    int64_t in_category[BUDGET_CATEGORIES] = {0};
    for (int i = 0; i < budget->count; i++)
        in_category[budget->blocks[i].category]++;
    for (int c = 0; c < BUDGET_CATEGORIES; c++) {
        if (c == BUDGET_WORKSPACE || c == BUDGET_MARGIN)
            continue;
        /* each block may end in padding to 256 bytes */
        int64_t padding = in_category[c] * LIFETIME_ALIGNMENT;
        if (!CHECK(touched[c] == budget->bytes[c] ||
                   (touched[c] < budget->bytes[c] && touched[c] > budget->bytes[c] - padding)))
            fprintf(stderr, "    %s: %lld planned, %lld touched\n", budget_category_name((enum budget_category)c),
                    (long long)budget->bytes[c], (long long)touched[c]);
    }
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    plan->class->destroy(plan);
}

/* Peak resident memory of a process that makes an engine and steps, less its value before, against the plan's total. */
static void test_resident(void)
{
    int channel[2];
    CHECK(pipe(channel) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct executor *cpu = cpu_executor_create(2);
        struct toy_options options = toy_options(cpu);
        options.settings.layers = 6;
        options.settings.hidden = 512;
        options.settings.ffn = 1376;
        options.settings.heads = options.settings.kv_heads = 8;
        options.settings.head_dim = 64;
        options.row_tokens = 512;
        struct batch batch;
        toy_batch(&batch, options.rows, options.row_tokens, 5);
        struct toy toy;
        int64_t before = memory_resident_now();
        toy_create(&toy, &options);
        struct schedule schedule = schedule_create(1, 1, false);
        engine_step(&toy.engine, &schedule, &batch, 1e-3);
        double numbers[2] = {(double)(memory_resident_peak() - before), (double)budget_total(&toy.engine.budget)};
        ssize_t written = write(channel[1], numbers, sizeof numbers);
        _exit(written == (ssize_t)sizeof numbers ? 0 : 1);
    }
    double numbers[2] = {0, 0};
    CHECK(read(channel[0], numbers, sizeof numbers) == (ssize_t)sizeof numbers);
    waitpid(child, NULL, 0);
    printf("plan: %.1f MiB planned, %.1f MiB resident\n", numbers[1] / 1048576, numbers[0] / 1048576);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow memory is resident too */
    CHECK(fabs(numbers[0] - numbers[1]) <= 0.05 * numbers[1] + 32e6);
#endif
}

/* -- A unit far larger than the model's: 40 parameters, 300 tensors --------------------------------------------------
 */

enum { WIDE_WEIGHTS = 40, WIDE_LINKS = 149, WIDE_WIDTH = 128, WIDE_STATE = UNIT_FIRST_OWN, WIDE_GRADIENT = 151 };

/* state[k] = state[k - 1] + weight[k % 40], from zero. */
static void wide_forward(struct execution *e, struct unit *unit, struct tensor input)
{
    (void)input;
    for (int k = 0; k < WIDE_LINKS; k++) {
        if (!execution_wants(e, WIDE_STATE + k))
            continue;
        struct tensor state = unit_tensor(e, unit, WIDE_STATE + k);
        if (k == 0)
            LAUNCH(e->stream, FILL, fill, .x = state, .value = 0);
        else
            LAUNCH(e->stream, COPY, copy, .from = unit_tensor(e, unit, WIDE_STATE + k - 1), .to = state);
        LAUNCH(e->stream, ADD, add, .from = unit_weight(e, unit, k % WIDE_WEIGHTS), .to = state);
    }
}

/* gradient[k] = gradient[k + 1] + state[k], from zero: so backward reads every state; a weight's is the sum of its k.
 */
static void wide_backward(struct execution *e, struct unit *unit, struct tensor input, struct tensor output_gradient)
{
    (void)input, (void)output_gradient;
    for (int k = WIDE_LINKS - 1; k >= 0; k--) {
        struct tensor gradient = unit_tensor(e, unit, WIDE_GRADIENT + k);
        LAUNCH(e->stream, COPY, copy, .from = unit_tensor(e, unit, WIDE_STATE + k), .to = gradient);
        if (k + 1 < WIDE_LINKS)
            LAUNCH(e->stream, ADD, add, .from = unit_tensor(e, unit, WIDE_GRADIENT + k + 1), .to = gradient);
        struct tensor sum = unit_gradient(e, unit, k % WIDE_WEIGHTS);
        if (k + WIDE_WEIGHTS >= WIDE_LINKS && !unit_accumulates(unit, k % WIDE_WEIGHTS))
            LAUNCH(e->stream, COPY, copy, .from = gradient, .to = sum);
        else
            LAUNCH(e->stream, ADD, add, .from = gradient, .to = sum);
    }
}

static void test_wide_unit(struct executor *cpu, enum deck_recompute policy)
{
    static const struct unit_class class = {.name = "wide", .forward = wide_forward, .backward = wide_backward};
    static float weights[WIDE_WEIGHTS][WIDE_WIDTH], gradients[WIDE_WEIGHTS][WIDE_WIDTH];
    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct unit unit = {.class = &class, .settings = &settings, .name = "wide", .tokens = 1};
    settings.recompute.others = policy;
    struct model model = {
        .settings = settings, .tokens = 1, .unit_count = 1, .units = &unit, .chunk_count = 1, .chunks = {{0, 1}}};
    for (int w = 0; w < WIDE_WEIGHTS; w++) {
        unit_declare_weight(&unit, w, 1, WIDE_WIDTH, STORAGE_VECTOR);
        unit_declare_parameter(&unit, w, WIDE_WIDTH, unit_constant(0), "w%d", w);
        CHECK(unit.parameters[w].offset == w * WIDE_WIDTH);
        for (int i = 0; i < WIDE_WIDTH; i++)
            weights[w][i] = (float)(w + 1) / (float)(i + 3);
    }
    for (int k = 0; k < WIDE_LINKS; k++) {
        unit_declare_tensor(&unit, WIDE_STATE + k, "state", 1, WIDE_WIDTH, ROLE_VALUE);
        unit_declare_tensor(&unit, WIDE_GRADIENT + k, "gradient", 1, WIDE_WIDTH, ROLE_VALUE);
    }
    CHECK(unit.parameter_count == WIDE_WEIGHTS && unit.tensor_count == 300);

    struct budget budget;
    struct engine_memory memory;
    struct stream stream = {cpu, STREAM_COMPUTE, NULL};
    struct batch_tensors batch = {.tokens = tensor_vector(NULL, DTYPE_I32, 1)};
    struct execution_owner owner = {.memory = &memory};
    const struct execution_services services = {.address = memory_address};
    struct execution execution = {.services = &services,
                                  .owner = &owner,
                                  .stream = &stream,
                                  .batch = &batch,
                                  .compute = DTYPE_F32,
                                  .statistic = DTYPE_F32};
    const struct memory_settings of = {
        .compute = DTYPE_F32, .statistic = DTYPE_F32, .slots = {1}, .rows = 1, .row_tokens = 1};
    budget_create(&budget, cpu);
    memory_create(&memory, &model, &of, &execution, &budget);
    /* all states are read again; what a block's policy names is not kept */
    const struct id_set dropped = block_dropped_by(&unit, policy);
    int64_t kept = 0;
    for (int k = 0; k < WIDE_LINKS; k++)
        kept += !id_set_has(&dropped, WIDE_STATE + k);
    CHECK(memory.chunks[0].slot_bytes == kept * WIDE_WIDTH * 4);
    CHECK(memory.transient_bytes <= (WIDE_LINKS - kept + 2) * WIDE_WIDTH * 4);

    unit.weight_base[STORAGE_VECTOR] = weights;
    unit.gradient_base[STORAGE_VECTOR] = gradients;
    unit.gradient_fresh = true;
    execution.pass = PASS_FORWARD;
    memory_forward_unit(&execution, &unit);
    execution.pass = PASS_BACKWARD;
    execution.gradients = GRADIENT_BOTH;
    memory_backward_unit(&execution, &unit);

    int64_t wrong = 0;
    for (int i = 0; i < WIDE_WIDTH; i++) {
        float state[WIDE_LINKS], gradient = 0, sums[WIDE_WEIGHTS] = {0};
        for (int k = 0; k < WIDE_LINKS; k++)
            state[k] = (k > 0 ? state[k - 1] : 0) + weights[k % WIDE_WEIGHTS][i];
        for (int k = WIDE_LINKS - 1; k >= 0; k--)
            sums[k % WIDE_WEIGHTS] += gradient += state[k];
        for (int w = 0; w < WIDE_WEIGHTS; w++)
            wrong += sums[w] != gradients[w][i];
    }
    CHECK(wrong == 0);
    memory_destroy(&memory);
    budget_destroy(&budget);
    unit_destroy(&unit);
}

int main(void)
{
    test_resident(); /* first: the child must not inherit a grown heap, nor a forked OpenMP pool */
    for (int m = 0; m < MICRO_BATCHES; m++)
        toy_batch(&batches[m], 2, 48, (uint64_t)m);
    struct executor *cpu = cpu_executor_create(2), *reference = reference_executor_create();
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test_store(cpu, kind, DTYPE_F32, DECK_RECIPE_NONE);
        test_store(cpu, kind, DTYPE_BF16, DECK_RECIPE_NONE);
        test_schedules(cpu, kind, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE);
        test_schedules(cpu, kind, DECK_RECOMPUTE_FULL, DECK_RECIPE_NONE);
        test_record(cpu, kind, DECK_RECIPE_NONE, false);
        for (int recipe = DECK_RECIPE_NONE; recipe <= DECK_RECIPE_NVFP4; recipe++)
            test_gradients(cpu, kind, recipe);
    }
    for (int i = 0; i < 2; i++) {
        const int recipe = i == 0 ? DECK_RECIPE_DELAYED : DECK_RECIPE_BLOCK;
        test_store(cpu, i == 0 ? TOY_AMPLIFY : TOY_ESM2, DTYPE_BF16, recipe);
        test_schedules(cpu, TOY_LLAMA, DECK_RECOMPUTE_NONE, recipe);
        test_schedules(cpu, TOY_ESM2, DECK_RECOMPUTE_NORMS, recipe);
        test_keep_table(cpu, TOY_LLAMA, recipe);
        test_keep_table(cpu, TOY_ESM2, recipe);
        test_keep_table(cpu, TOY_OLMO2, recipe);
        test_record(cpu, TOY_LLAMA_TIED, recipe, false);
        test_offload(cpu, i == 0 ? TOY_LLAMA : TOY_ESM2, recipe);
    }
    test_keep_table(cpu, TOY_AMPLIFY, DECK_RECIPE_NVFP4);
    test_policies(cpu, TOY_LLAMA);
    test_policies(cpu, TOY_OLMO2);
    test_offload(cpu, TOY_AMPLIFY, DECK_RECIPE_NONE);
    test_record(cpu, TOY_LLAMA, DECK_RECIPE_NONE, true);
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++)
        test_wide_unit(cpu, (enum deck_recompute)policy);
    test_operands(cpu, reference, TOY_LLAMA);
    test_operands(cpu, reference, TOY_ESM2);
    struct group whole = {.name = "data", .rank = 5, .size = 8}, half = {.name = "shard", .rank = 1, .size = 4};
    struct group pair = {.name = "replicas", .rank = 1, .size = 2};
    const struct parallel_groups groups = {
        .all = &whole, .data = &whole, .gather = &half, .reduce = &half, .replicas = &pair};
    for (int layers = 1; layers <= 2; layers++) { /* other units take turns in the store's buffers */
        struct toy_options options = toy_options(NULL);
        options.groups = &groups;
        options.settings = toy_settings(TOY_LLAMA_TIED);
        options.settings.layers = layers;
        options.sharding.level = SHARD_FULL;
        test_plan(cpu, options);
    }
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        struct toy_options options = toy_options(NULL);
        options.groups = &groups;
        options.recompute = (enum deck_recompute)policy;
        options.slots = 1 + policy % 3;
        options.settings = toy_settings((enum toy_kind)(policy % TOY_KINDS));
        give_policy(&options.settings.recompute, 1, policy + 2);
        if (policy < DECK_RECOMPUTE_QKV)
            options.settings.recompute.offloaded = (struct layer_list){1, {{policy % 3, 2}}};
        options.compute = policy % 2 ? DTYPE_BF16 : DTYPE_F32;
        options.head_tokens = 20;
        for (int level = SHARD_NONE; level <= SHARD_FULL; level++) {
            options.sharding = (struct sharding){.level = (enum shard_level)level,
                                                 .bf16_sums = level != SHARD_NONE && policy % 2 == 0,
                                                 .whole_gradients = level == SHARD_FULL && policy >= 4,
                                                 .no_masters = options.compute == DTYPE_BF16 && policy >= 2};
            test_plan(cpu, options);
        }
        struct toy_options rounded = options;
        rounded.groups = NULL;
        rounded.slots = 1;
        rounded.compute = DTYPE_BF16;
        rounded.sharding = (struct sharding){.bf16_gradients = true};
        rounded.settings.rounds_gradients = true;
        test_plan(cpu, rounded);
        for (int recipe = DECK_RECIPE_DELAYED; recipe <= DECK_RECIPE_NVFP4; recipe++) {
            options.settings.precision = toy_precision(recipe);
            options.settings.precision.quantizes_per_gemm = recipe % 2 == 1;
            test_plan(cpu, options);
        }
    }
    cpu->class->destroy(cpu);
    reference->class->destroy(reference);
    return check_end();
}
