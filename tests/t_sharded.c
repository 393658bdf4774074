/* Every sharding level, over 4 ranks and over 2 with replicas, gives the losses and norms of ranks that own everything,
 * for toys of every family and with delayed, current and block scaling; gradients are those of the documented order of
 * sums, to the bit. Every order that events allow gives the same bits, and each missing wait is a race. Injected faults
 * in quantized gathers are noticed; checkpoints pass between runs with fp32 masters and without.
 *
 * ranks: 4 */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/grid.h"
#include "cpu/cpu.h"
#include "checkpoint/checkpoint.h"
#include "plan/order.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/late.h"
#include "ref/poison.h"
#include "ref/toy.h"
#include "ref/wrapper.h"

#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 4, MOST = 3, HALF = 4 };

static struct comm *world;
static bool measures; /* what quantization loses, in every step */

/* Groups in which `ranks` hold the state once. */
struct division {
    struct grid grid;
    struct parallel_groups groups;
};
static struct division four, two;

static void division_create(struct division *division, int ranks)
{
    const struct grid_shape shape = {.tensor = 1, .context = 1, .shard = ranks};
    CHECK(grid_create(&division->grid, world, &shape) == ERROR_NONE);
    division->groups =
        (struct parallel_groups){.data = comm_group_create(division->grid.data, NULL, "data"),
                                 .gather = comm_group_create(division->grid.shard, NULL, "gather"),
                                 .reduce = comm_group_create(division->grid.shard, NULL, "reduce"),
                                 .replicas = comm_group_create(division->grid.replicas, NULL, "replicas")};
    division->groups.all = division->groups.data;
    division->groups.reduce->copies = division->groups.replicas->copies =
        true; /* as on GPUs, so that sums need scratch */
}

static void division_destroy(struct division *division)
{
    comm_group_destroy(division->groups.data);
    comm_group_destroy(division->groups.gather);
    comm_group_destroy(division->groups.reduce);
    comm_group_destroy(division->groups.replicas);
    grid_destroy(&division->grid);
}

struct layout {
    enum toy_kind kind;
    enum dtype compute;
    int micro_batches, slots;
    bool split;
    enum deck_recompute recompute;
    int recipe; /* enum deck_recipe */
};

/* Which ranks own which state. */
struct owners {
    const struct division *division; /* NULL: every rank owns all state */
    struct sharding sharding;
};
static const struct owners everyone;

static void make(struct toy *toy, struct executor *executor, const struct layout *layout, struct owners owners,
                 bool replays)
{
    const struct parallel_groups whole = groups_replicated(four.groups.data);
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(layout->kind);
    options.settings.precision = toy_precision(layout->recipe);
    options.settings.precision.head = layout->recipe != DECK_RECIPE_NONE;
    if (measures)
        options.settings.precision.statistics = options.settings.precision.eight;
    options.groups = owners.division != NULL ? &owners.division->groups : &whole;
    options.sharding = owners.sharding;
    options.settings.rounds_gradients =
        sharding_rounds(&owners.sharding) && !sharding_shards_gradients(&owners.sharding);
    options.compute = layout->compute;
    options.slots = layout->slots;
    options.split_backward = layout->split;
    options.recompute = layout->recompute;
    options.replays = replays;
    toy_create(toy, &options);
    toy->engine.statistics = measures;
}

/* Other tokens on each rank, in each micro-batch and at each step. */
static struct engine_result step(struct toy *toy, const struct layout *layout, int number)
{
    struct schedule schedule = schedule_create(layout->micro_batches, layout->slots, layout->split);
    struct batch batches[MOST];
    for (int m = 0; m < layout->micro_batches; m++)
        toy_batch(&batches[m], 2, 48, (uint64_t)((number * MOST + m) * world->size + world->rank));
    struct engine_result result = engine_step(&toy->engine, &schedule, batches, 1e-2);
    for (int m = 0; m < layout->micro_batches; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    return result;
}

static double loss_of(struct toy *toy)
{
    struct batch batch;
    toy_batch(&batch, 2, 48, 77);
    const struct engine_result result = engine_evaluate(&toy->engine, &batch, 1);
    batch_destroy(&batch);
    return result.loss_sum;
}

struct run_outcome {
    double losses[STEPS], norms[STEPS];
    double between;  /* with a recipe: the loss of an evaluation between two steps */
    uint64_t digest; /* of weights and moments */
};

/* Ranks that own the same shard have the same bits. */
static void check_replicas(const struct toy *toy, struct comm *replicas)
{
    int64_t bytes;
    char *state = toy_state(toy, &bytes), *first = memory_allocate(bytes);
    memcpy(first, state, (size_t)bytes);
    comm_broadcast(replicas, first, bytes, 0);
    CHECK(memcmp(first, state, (size_t)bytes) == 0);
    memory_free(first);
    free(state);
}

/* replays: on an executor that can. */
static struct run_outcome run(struct executor *executor, const struct layout *layout, struct owners owners,
                              bool replays)
{
    struct toy toy;
    struct poison poison;
    struct run_outcome outcome = {0};
    make(&toy, executor, layout, owners, replays);
    poison_store(&poison, &toy.engine);
    for (int s = 0; s < STEPS; s++) {
        struct engine_result result = step(&toy, layout, s);
        outcome.losses[s] = result.loss_sum / result.labels;
        outcome.norms[s] = result.grad_norm;
        if (s == 1 && layout->recipe != DECK_RECIPE_NONE)
            outcome.between = loss_of(&toy);
    }
    outcome.digest = checkpoint_digest(world, &toy.engine);
    /* but for gradients, which are whole, where each rank keeps what it has not summed */
    if (owners.division != NULL && owners.sharding.level >= SHARD_GRADIENTS)
        check_replicas(&toy, owners.division->grid.replicas);
    toy_destroy(&toy);
    return outcome;
}

/* owners[HALF] against `all`. */
static void test_equal(struct executor *cpu, struct layout layout, struct owners all, const struct owners *owners)
{
    struct run_outcome whole = run(cpu, &layout, all, false);
    for (int i = 0; i < HALF; i++) {
        struct run_outcome sharded = run(cpu, &layout, owners[i], false);
        double loss = check_apart(sharded.losses, whole.losses, STEPS),
               norm = check_apart(sharded.norms, whole.norms, STEPS);
        if (world->rank == 0)
            printf("model %d in %s, %d micro-batches, level %d%s over %d: losses %.2e, norms %.2e, state %s\n",
                   (int)layout.kind, dtype_name(layout.compute), layout.micro_batches, (int)owners[i].sharding.level,
                   owners[i].sharding.whole_gradients ? " with whole gradients" : "",
                   owners[i].division->groups.gather->size, loss, norm,
                   sharded.digest == whole.digest ? "equal" : "differs");
        /* sums of one micro-batch are taken in the same order, by ranks; of several, by micro-batches first; the norm's
         * squares are added up shard by shard, so its last bit may differ; where copies have few bits, an element that
         * lies between two of their numbers may take the other, and moves by up to 1/16 of itself */
        const bool rounds = owners[i].sharding.bf16_sums || sharding_rounds(&owners[i].sharding);
        const bool few_bits = layout.recipe != DECK_RECIPE_NONE && layout.micro_batches > 1;
        const double bound = rounds ? 1e-2 : layout.compute != DTYPE_F32 || few_bits ? 2e-3 : 2e-6;
        CHECK(loss <= bound);
        CHECK(norm <= 10 * bound);
    }
}

/* Recordings hold gathers, scatters and sums, and replay them without the store's code. */
static void test_replays(struct executor *cpu, struct layout layout, struct owners owners)
{
    struct executor *late = late_executor_create(cpu);
    struct run_outcome plain = run(cpu, &layout, owners, false), replayed = run(late, &layout, owners, true);
    CHECK(memcmp(&plain, &replayed, sizeof plain) == 0);
    /* all parts of a step: forwards, backwards, the update; two steps come before the first replay */
    const int parts = (layout.split ? 3 : 2) * layout.micro_batches + 1;
    CHECK(late_replays(late) >= (STEPS - 2) * parts);
    late->class->destroy(late);
}

/* -- Row copies in place of weights ------------------------------------------------------------------------------ */

static void count_rows(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    int64_t *gathers = wrapper->self;
    *gathers += op == OP_ALL_GATHER && ((const struct all_gather_args *)args)->in.dtype == DTYPE_E4M3;
    wrapper_pass(wrapper, stream, op, args);
}

static struct run_outcome run_counted(struct executor *cpu, const struct layout *layout, struct owners owners,
                                      int64_t *gathers)
{
    struct wrapper wrapper;
    wrapper_create(&wrapper, cpu, count_rows, gathers);
    return run(&wrapper.executor, layout, owners, false);
}

/* Training gathers the copies of every block; with the same bits it gathers values where statistics are made of them,
 * and where ranks hold values whole. */
static void test_rows(struct executor *cpu, struct layout layout)
{
    enum { LAYERS = 3 };
    const struct owners full = {&four, {.level = SHARD_FULL, .whole_gradients = true}},
                        whole = {&four, {.level = SHARD_OPTIMIZER}};
    int64_t gathers = 0, others = 0;
    const struct run_outcome rows = run_counted(cpu, &layout, full, &gathers);
    const struct run_outcome values = run_counted(cpu, &layout, whole, &others);
    CHECK(memcmp(&rows, &values, sizeof rows) == 0);
    measures = true;
    const struct run_outcome measured = run_counted(cpu, &layout, full, &others);
    measures = false;
    CHECK(memcmp(&rows, &measured, sizeof rows) == 0);
    CHECK(gathers == STEPS * layout.micro_batches * 2 * LAYERS && others == 0);
}

/* -- Room for copies --------------------------------------------------------------------------------------------- */

static void count_scratch(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct all_reduce_args *a = args;
    int64_t *sums = wrapper->self;
    if (op == OP_ALL_REDUCE && a->group == two.groups.replicas)
        sums[tensor_present(&a->scratch)]++;
    wrapper_pass(wrapper, stream, op, args);
}

/* Replicas have scratch for a sum where the memory that it is made in is of their group, and not of the sharding group,
 * which needs it for whole sums that are not copies. */
static void test_scratch(struct executor *cpu, struct layout layout, struct sharding sharding, bool scratch)
{
    int64_t sums[2] = {0};
    struct wrapper wrapper;
    wrapper_create(&wrapper, cpu, count_scratch, sums);
    run(&wrapper.executor, &layout, (struct owners){&two, sharding}, false);
    CHECK(sums[scratch] > 0 && sums[!scratch] == 0);
}

/* -- Gradients, to the last bit ---------------------------------------------------------------------------------- */

/* What each rank's micro-batches contribute, made by an engine that is alone: [rank][micro-batch][elements]. */
struct contributions {
    float *all;
    int64_t elements;
    int micro_batches;
};

static void contributions_create(struct contributions *c, struct executor *cpu, const struct layout *layout)
{
    struct toy toy;
    struct toy_options options = toy_options(cpu);
    int64_t bytes;
    options.settings = toy_settings(layout->kind);
    options.compute = layout->compute;
    toy_create(&toy, &options);
    free(toy_gradients(&toy, &bytes));
    char *own = memory_allocate(bytes * layout->micro_batches);
    for (int m = 0; m < layout->micro_batches; m++) {
        struct batch batch;
        struct schedule schedule = schedule_create(1, 1, false);
        toy_batch(&batch, 2, 48, (uint64_t)(m * world->size + world->rank));
        engine_gradients(&toy.engine, &schedule, &batch);
        char *gradients = toy_gradients(&toy, &bytes);
        memcpy(own + m * bytes, gradients, (size_t)bytes);
        free(gradients);
        batch_destroy(&batch);
        schedule_destroy(&schedule);
    }
    c->elements = bytes / (int64_t)sizeof *c->all;
    c->micro_batches = layout->micro_batches;
    c->all = memory_allocate(bytes * layout->micro_batches * world->size);
    comm_all_gather(world, own, c->all, bytes * layout->micro_batches);
    memory_free(own);
    toy_destroy(&toy);
}

static float rounded(float x)
{
    return bf16_to_f32(f32_high_alone(x));
}

/* The sum of what `ranks` ranks have, as it travels. */
static float sum_of(const float *x, int ranks, bool as_bf16)
{
    float sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += as_bf16 ? rounded(x[r]) : x[r];
    return sum;
}

/* What is kept of a sum between micro-batches. Ops round to even, the store away from zero. */
enum kept { KEPT_WHOLE, KEPT_ROUNDED, KEPT_ROUNDED_BY_OPS };

static enum kept kept_of(const struct unit *unit, enum storage_class storage, const struct sharding *sharding)
{
    if (!sharding_rounds(sharding) || (unit->rounds_gradients && storage == STORAGE_VECTOR))
        return KEPT_WHOLE;
    return unit->rounds_gradients ? KEPT_ROUNDED_BY_OPS : KEPT_ROUNDED;
}

/* The gradient of one element, by the order of sums that store/store.h and design.md promise. */
static float gradient_of(const struct contributions *c, int64_t element, const struct owners *owners, enum kept keeps)
{
    enum { RANKS = 4 };
    const struct sharding *s = &owners->sharding;
    const int ranks = s->level == SHARD_NONE ? 1 : owners->division->groups.gather->size;
    const bool sharded = s->level >= SHARD_GRADIENTS && !s->whole_gradients, travels = ranks > 1 && s->bf16_sums;
    float total = 0;
    for (int first = 0; first < RANKS; first += ranks) { /* replica by replica */
        float kept[RANKS] = {0}, sum = 0;
        for (int m = 0; m < c->micro_batches; m++) {
            const bool last = m + 1 == c->micro_batches;
            float x[RANKS];
            for (int r = 0; r < ranks; r++)
                x[r] = c->all[((first + r) * c->micro_batches + m) * c->elements + element];
            if (sharded)
                x[0] = sum_of(x, ranks, travels);
            for (int r = 0; r < (sharded ? 1 : ranks); r++) {
                x[r] += kept[r];
                kept[r] = keeps == KEPT_WHOLE     ? x[r]
                          : keeps == KEPT_ROUNDED ? rounded(x[r])
                                                  : bf16_to_f32(f32_to_bf16(x[r]));
            }
            if (last)
                sum = sharded ? x[0] : sum_of(x, ranks, travels);
        }
        total += sum;
    }
    return sharding_rounds(s) ? rounded(total) : total;
}

static void test_gradients(struct executor *cpu, struct layout layout, struct owners owners)
{
    struct contributions c;
    struct toy toy;
    struct poison poison;
    int64_t before = 0, wrong = 0, compared = 0;
    contributions_create(&c, cpu, &layout);
    make(&toy, cpu, &layout, owners, false);
    poison_store(&poison, &toy.engine);
    /* no op tolerates transfers: sums start when their buffer is needed */
    toy.engine.execution.services = &(struct execution_services){.address = memory_address};
    struct schedule schedule = schedule_create(layout.micro_batches, 1, false);
    struct batch batches[MOST];
    for (int m = 0; m < layout.micro_batches; m++)
        toy_batch(&batches[m], 2, 48, (uint64_t)(m * world->size + world->rank));
    engine_gradients(&toy.engine, &schedule, batches);
    for (int u = 0; u < toy.model.unit_count; u++) {
        struct unit *unit = &toy.model.units[u];
        for (int s = 0; s < STORAGE_COUNT; s++) {
            const struct store_shard shard =
                toy.engine.store->class->shard(toy.engine.store, unit, (enum storage_class)s);
            const enum kept keeps = kept_of(unit, (enum storage_class)s, &owners.sharding);
            for (int64_t i = 0; i < shard.gradient.cols; i++)
                wrong += tensor_get(&shard.gradient, 0, i) != gradient_of(&c, before + shard.first + i, &owners, keeps);
            compared += shard.gradient.cols;
            before += unit->elements[s];
        }
    }
    CHECK(before == c.elements && compared > 0);
    if (!CHECK(wrong == 0))
        fprintf(stderr, "    %lld of %lld gradients, %d micro-batches, level %d\n", (long long)wrong,
                (long long)compared, layout.micro_batches, (int)owners.sharding.level);
    for (int m = 0; m < layout.micro_batches; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    memory_free(c.all);
}

/* -- Files ------------------------------------------------------------------------------------------------------- */

/* The state of one engine becomes another's, by a checkpoint. */
static void hand_over(struct toy *from, struct toy *to)
{
    struct checkpoint_meta meta = {.deck_text = "# none\n", .version = "0.0-test", .step = 2};
    char name[64] = "";
    if (world->rank == 0)
        snprintf(name, sizeof name, "t_sharded.%d.h5", (int)getpid());
    comm_broadcast(world, name, sizeof name, 0);
    CHECK(checkpoint_write(world, &from->engine, &meta, name, true) == ERROR_NONE);
    CHECK(checkpoint_read(world, &to->engine, name, true) == ERROR_NONE);
    if (world->rank == 0) {
        remove(name);
        strcat(name, ".xxh3");
        remove(name);
    }
}

/* A training goes on with other owners, with masters or without: what bf16 numbers can say passes unchanged. */
static void test_files(struct executor *cpu)
{
    const struct layout layout = {TOY_LLAMA_TIED, DTYPE_BF16, 2, 1, false, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE};
    struct toy masters, rounded, other;
    make(&masters, cpu, &layout, (struct owners){&two, {.level = SHARD_FULL}}, false);
    make(&rounded, cpu, &layout, (struct owners){&four, {.level = SHARD_FULL, .no_masters = true}}, false);
    make(&other, cpu, &layout, (struct owners){&two, {.level = SHARD_OPTIMIZER}}, false);
    for (int s = 0; s < 2; s++)
        step(&masters, &layout, s);
    const uint64_t digest = checkpoint_digest(world, &masters.engine);
    hand_over(&masters, &other);
    CHECK(checkpoint_digest(world, &other.engine) == digest);
    CHECK(loss_of(&other) == loss_of(&masters));
    hand_over(&masters, &rounded);
    CHECK(checkpoint_digest(world, &rounded.engine) != digest);
    CHECK(loss_of(&rounded) == loss_of(&masters)); /* units read the same numbers */
    step(&rounded, &layout, 2);
    hand_over(&rounded, &other);
    CHECK(checkpoint_digest(world, &other.engine) == checkpoint_digest(world, &rounded.engine));
    CHECK(loss_of(&other) == loss_of(&rounded));
    CHECK(engine_updates(&other.engine) == 3);
    toy_destroy(&masters);
    toy_destroy(&rounded);
    toy_destroy(&other);
}

/* -- On record --------------------------------------------------------------------------------------------------- */

static void check_no_race(const struct plan_log *log)
{
    struct launch_race race;
    if (!CHECK(race_check(log, -1, &race, 1) == 0)) {
        char *text = race_describe(&race);
        fprintf(stderr, "    %s\n", text);
        free(text);
    }
}

/* What stands around it. */
static void describe_wait(const struct plan_log *log, int64_t wait)
{
    const int stream = log->entries[wait].stream;
    fprintf(stderr, "    entry %lld, a wait of stream %d for entry %lld:", (long long)wait, stream,
            (long long)log->entries[wait].record);
    for (int64_t e = wait - 8 > 0 ? wait - 8 : 0; e < wait + 8 && e < log->count; e++)
        if (log->entries[e].kind == PLAN_LAUNCH)
            fprintf(stderr, "%s %s/%d", e < wait ? "" : " |", op_info(log->entries[e].op)->name,
                    log->entries[e].stream);
    fprintf(stderr, "\n");
}

/* Does the stream know more for it, where it goes on? Not so where another wait has said as much, or says more before
 * the next launch. */
static bool wait_tells(const struct plan_log *log, int64_t wait)
{
    struct launch_order with, without;
    int64_t next = wait + 1;
    while (next < log->count &&
           (log->entries[next].stream != log->entries[wait].stream || log->entries[next].kind == PLAN_WAIT))
        next++;
    order_create(&with, log, -1);
    order_create(&without, log, wait);
    const bool tells = next < log->count && memcmp(&with.before[next], &without.before[next], sizeof *with.before) != 0;
    order_destroy(&with);
    order_destroy(&without);
    return tells;
}

/* Every wait of a step that orders anything is needed on some rank, given the steps before and after it. (A rank that
 * does not measure a unit's gradient could wait for the last unit's alone.) */
static void test_waits(struct executor *record, struct toy *toy, const struct layout *layout)
{
    const struct plan_log *log = record_executor_log(record);
    int64_t ends[3], waits = 0;
    struct launch_race race;
    record_clear(record);
    for (int s = 0; s < 3; s++) {
        step(toy, layout, 2 + s);
        ends[s] = log->count;
    }
    check_no_race(log);
    for (int64_t e = ends[0]; e < ends[1]; e++) {
        if (log->entries[e].kind != PLAN_WAIT || comm_max_i64(world, wait_tells(log, e)) == 0)
            continue;
        waits++;
        if (!CHECK(comm_max_i64(world, race_check(log, e, &race, 1)) > 0))
            describe_wait(log, e);
    }
    CHECK(waits > 0 && waits == comm_max_i64(world, waits));
}

static void test_record(struct executor *cpu, struct layout layout, struct owners owners)
{
    struct executor *record = record_executor_create(cpu);
    struct toy toy;
    struct poison poison;
    int64_t bytes, after_bytes;
    make(&toy, record, &layout, owners, false);
    poison_store(&poison, &toy.engine);
    step(&toy, &layout, 0);
    char *before = toy_state(&toy, &bytes);
    record_clear(record);
    step(&toy, &layout, 1);
    char *eager = toy_state(&toy, &bytes);
    CHECK(memcmp(before, eager, (size_t)bytes) != 0);
    for (int order = 0; order < 10; order++) { /* the same on all ranks, since collectives must meet */
        toy_restore(&toy, before);
        record_replay(record, order == 0 ? RECORD_AS_ISSUED : RECORD_RANDOM, (uint64_t)order, -1);
        char *after = toy_state(&toy, &after_bytes);
        CHECK(bytes == after_bytes && memcmp(eager, after, (size_t)bytes) == 0);
        free(after);
    }
    test_waits(record, &toy, &layout);
    free(before);
    free(eager);
    toy_destroy(&toy);
    record->class->destroy(record);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    division_create(&four, 4);
    division_create(&two, 2);
    struct executor *cpu = cpu_executor_create(1);
    const struct owners owners[2][HALF] = {{{&four, {.level = SHARD_FULL}},
                                            {&four, {.level = SHARD_OPTIMIZER}},
                                            {&two, {.level = SHARD_GRADIENTS}},
                                            {&two, {.level = SHARD_FULL, .whole_gradients = true}}},
                                           {{&two, {.level = SHARD_FULL}},
                                            {&two, {.level = SHARD_OPTIMIZER}},
                                            {&four, {.level = SHARD_GRADIENTS}},
                                            {&four, {.level = SHARD_FULL, .whole_gradients = true}}}};
    const struct owners rounding[HALF] = {{&two, {.level = SHARD_FULL, .bf16_sums = true}},
                                          {&four, {.level = SHARD_OPTIMIZER, .bf16_sums = true}},
                                          {&four, {.level = SHARD_FULL, .bf16_sums = true, .no_masters = true}},
                                          {&two, {.level = SHARD_OPTIMIZER, .no_masters = true}}};
    const struct owners kept[HALF] = {{&two, {.level = SHARD_FULL, .bf16_gradients = true}},
                                      {&four, {.level = SHARD_OPTIMIZER, .bf16_gradients = true}},
                                      {&four, {.level = SHARD_GRADIENTS, .bf16_gradients = true, .bf16_sums = true}},
                                      {&two, {.level = SHARD_OPTIMIZER, .bf16_gradients = true}}};
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        const struct layout one = {kind, DTYPE_F32, 1, 1, false, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE};
        const struct layout split = {kind, DTYPE_F32, 3, 2, true, DECK_RECOMPUTE_NORMS, DECK_RECIPE_NONE};
        const struct layout bf16 = {kind, DTYPE_BF16, 3, 1, false, DECK_RECOMPUTE_FULL, DECK_RECIPE_NONE};
        const struct layout slots = {kind, DTYPE_F32, 2, 2, false, DECK_RECOMPUTE_QKV, DECK_RECIPE_NONE};
        test_equal(cpu, kind < TOY_ESM2 ? one : bf16, everyone, owners[kind % 2]);
        test_equal(cpu, split, everyone, owners[1 - kind % 2]);
        test_replays(cpu, split, owners[0][kind % HALF]);
        test_replays(cpu, slots, owners[1][kind % HALF]);
        test_replays(cpu, slots, everyone);
        test_record(cpu, slots, owners[0][kind % HALF]);
        if (kind % 2 == 0)
            test_record(cpu, split, owners[1][kind % HALF]);
        else
            test_record(cpu, bf16, rounding[kind % HALF]);
    }
    const struct layout two_batches = {TOY_LLAMA, DTYPE_BF16, 2, 1, false, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE};
    const struct layout one_batch = {TOY_AMPLIFY, DTYPE_F32, 1, 1, false, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE};
    const struct owners exact[] = {
        {&four, {.level = SHARD_FULL}},
        {&two, {.level = SHARD_GRADIENTS}},
        {&four, {.level = SHARD_GRADIENTS, .bf16_sums = true}},
        {&two, {.level = SHARD_FULL, .bf16_sums = true}},
        {&two, {.level = SHARD_FULL, .no_masters = true}},
        {&four, {.level = SHARD_GRADIENTS, .no_masters = true, .bf16_sums = true}},
        {&two, {.level = SHARD_OPTIMIZER, .no_masters = true}},
        {&four, {.level = SHARD_FULL, .whole_gradients = true, .no_masters = true, .bf16_sums = true}},
        {&four, {.level = SHARD_OPTIMIZER, .no_masters = true}},
        {NULL, {.no_masters = true}},
        {&two, {.level = SHARD_FULL, .bf16_gradients = true}},
        {&four, {.level = SHARD_GRADIENTS, .whole_gradients = true, .bf16_gradients = true, .bf16_sums = true}},
        {NULL, {.bf16_gradients = true}},
    };
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        test_gradients(cpu, two_batches, exact[i]);
    test_gradients(cpu, one_batch, (struct owners){&two, {.level = SHARD_OPTIMIZER, .bf16_sums = true}});
    test_gradients(cpu, one_batch, (struct owners){&four, {.level = SHARD_FULL, .whole_gradients = true}});
    const struct layout all_bf16 = {TOY_ESM2, DTYPE_BF16, 3, 1, false, DECK_RECOMPUTE_NORMS, DECK_RECIPE_NONE};
    test_equal(cpu, all_bf16, everyone, rounding);
    test_equal(cpu, two_batches, (struct owners){NULL, {.no_masters = true}}, rounding);
    test_equal(cpu, all_bf16, everyone, kept);
    test_replays(cpu, two_batches, kept[0]);
    test_replays(cpu, all_bf16, rounding[0]);
    test_replays(cpu, all_bf16, rounding[3]);
    test_files(cpu);
    for (int copies = 0; copies <= 1; copies++) {
        two.groups.reduce->copies = copies;
        test_scratch(cpu, all_bf16, (struct sharding){.level = SHARD_GRADIENTS}, true);
        test_scratch(cpu, all_bf16, (struct sharding){.level = SHARD_OPTIMIZER}, copies);
        test_scratch(cpu, all_bf16, (struct sharding){.level = SHARD_GRADIENTS, .no_masters = true}, copies);
    }
    for (int i = 0; i < 3; i++) { /* copies of gathered weights */
        static const int recipes[] = {DECK_RECIPE_DELAYED, DECK_RECIPE_BLOCK, DECK_RECIPE_CURRENT};
        const int recipe = recipes[i];
        test_equal(cpu, (struct layout){TOY_LLAMA_TIED, DTYPE_F32, 1, 1, false, DECK_RECOMPUTE_NORMS, recipe}, everyone,
                   owners[i % 2]);
        test_equal(cpu, (struct layout){TOY_ESM2, DTYPE_F32, 2, 2, true, DECK_RECOMPUTE_QKV, recipe}, everyone,
                   owners[1 - i % 2]);
        test_record(cpu, (struct layout){TOY_LLAMA, DTYPE_F32, 2, 2, false, DECK_RECOMPUTE_QKV, recipe},
                    owners[0][i % 2]);
        if (recipe == DECK_RECIPE_BLOCK)
            continue;
        test_rows(cpu, (struct layout){TOY_ESM2, DTYPE_BF16, 2, 1, false, DECK_RECOMPUTE_NORMS, recipe});
        test_rows(cpu, (struct layout){TOY_LLAMA, DTYPE_F32, 1, 1, false, DECK_RECOMPUTE_FULL, recipe});
    }
    test_replays(cpu, (struct layout){TOY_AMPLIFY, DTYPE_F32, 2, 1, false, DECK_RECOMPUTE_FULL, DECK_RECIPE_DELAYED},
                 owners[0][0]);
    cpu->class->destroy(cpu);
    division_destroy(&four);
    division_destroy(&two);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
