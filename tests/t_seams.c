/* A step has the same bits with another store, which poisons with NaN what is not acquired or open, and in other
 * schedules, for toys of every family. doc/design.md lists the program's other seams and the tests of their second
 * users. */
#include "steps.h"

#include "cpu/cpu.h"

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
    struct toy_options options = options_of(executor, kind, recipe);
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
    struct toy_options options = options_of(executor, kind, recipe);
    options.recompute = recompute;
    int64_t plain_bytes, bytes;
    char *plain = plain_state(executor, options, &plain_bytes);
    for (int slots = 1; slots <= 3; slots++) {
        for (int split = 0; split <= 1; split++) {
            options.slots = slots;
            options.split_backward = split;
            char *state = state_of(&options, &bytes);
            CHECK(same(plain, plain_bytes, state, bytes));
            free(state);
        }
    }
    free(plain);
}

int main(void)
{
    batches_make();
    struct executor *cpu = cpu_executor_create(2);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test_store(cpu, kind, DTYPE_F32, DECK_RECIPE_NONE);
        test_store(cpu, kind, DTYPE_BF16, DECK_RECIPE_NONE);
        test_schedules(cpu, kind, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE);
        test_schedules(cpu, kind, DECK_RECOMPUTE_FULL, DECK_RECIPE_NONE);
    }
    for (int i = 0; i < 2; i++) {
        const int recipe = i == 0 ? DECK_RECIPE_DELAYED : DECK_RECIPE_BLOCK;
        test_store(cpu, i == 0 ? TOY_AMPLIFY : TOY_ESM2, DTYPE_BF16, recipe);
        test_schedules(cpu, TOY_LLAMA, DECK_RECOMPUTE_NONE, recipe);
        test_schedules(cpu, TOY_ESM2, DECK_RECOMPUTE_NORMS, recipe);
    }
    cpu->class->destroy(cpu);
    return check_end();
}
