/* Weights, gradients and moments cut over 4 ranks (ref/sharded.h) against every rank holding all: the same losses;
 * on record, every order that the events allow gives the same bits, and waits that are left out are noticed. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "cpu/cpu.h"
#include "io/checkpoint.h"
#include "plan/race.h"
#include "plan/record.h"
#include "ref/late.h"
#include "ref/sharded.h"
#include "ref/toy.h"

#include <mpi.h>
#include <stdlib.h>

enum { STEPS = 6, MOST = 3 };

static struct comm *world;
static struct group *group;

struct layout {
    enum toy_kind kind;
    enum dtype compute;
    int micro_batches, slots;
    bool split;
    enum deck_recompute recompute;
    int recipe; /* enum deck_recipe */
};

static struct toy_options options_of(struct executor *executor, const struct layout *layout, store_make *make_store)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(layout->kind);
    options.settings.precision = toy_precision(layout->recipe);
    options.group = group;
    options.compute = layout->compute;
    options.slots = layout->slots;
    options.split_backward = layout->split;
    options.recompute = layout->recompute;
    options.make_store = make_store;
    return options;
}

/* Other tokens on each rank, in each micro-batch and at each step. */
static struct engine_result step(struct toy *toy, const struct layout *layout, int number)
{
    struct schedule schedule = schedule_create(layout->micro_batches, layout->slots, layout->split);
    struct batch batches[MOST];
    for (int m = 0; m < layout->micro_batches; m++)
        toy_batch(&batches[m], 2, 48, (uint64_t)((number * MOST + m) * group->size + group->rank));
    struct engine_result result = engine_step(&toy->engine, &schedule, batches, 1e-2);
    for (int m = 0; m < layout->micro_batches; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    return result;
}

struct outcome {
    double losses[STEPS], norms[STEPS];
    uint64_t digest; /* of weights and moments */
};

/* replays: on an executor that can. */
static struct outcome run(struct executor *executor, const struct layout *layout, store_make *make_store, bool replays)
{
    struct toy toy;
    struct outcome outcome;
    struct toy_options options = options_of(executor, layout, make_store);
    options.replays = replays;
    toy_create(&toy, &options);
    for (int s = 0; s < STEPS; s++) {
        struct engine_result result = step(&toy, layout, s);
        outcome.losses[s] = result.loss_sum / result.labels;
        outcome.norms[s] = result.grad_norm;
    }
    outcome.digest = checkpoint_digest(world, &toy.engine);
    toy_destroy(&toy);
    return outcome;
}

static void test_equal(struct executor *cpu, struct layout layout)
{
    struct outcome whole = run(cpu, &layout, NULL, false), cut = run(cpu, &layout, sharded_store_create, false);
    struct outcome poisoned = run(cpu, &layout, sharded_store_create_poisoned, false);
    double loss = check_apart(cut.losses, whole.losses, STEPS), norm = check_apart(cut.norms, whole.norms, STEPS);
    if (world->rank == 0)
        printf("model %d in %s, %d micro-batches: losses %.2e, norms %.2e, state %s\n", (int)layout.kind,
               dtype_name(layout.compute), layout.micro_batches, loss, norm,
               cut.digest == whole.digest ? "equal" : "differs");
    CHECK(memcmp(&cut, &poisoned, sizeof cut) == 0);
    /* sums of one micro-batch are taken in the same order, by ranks; of several, by micro-batches first; the norm's
     * squares are added up cut by cut, so its last bit may differ */
    const double bound = layout.compute == DTYPE_F32 ? 2e-6 : 2e-3;
    CHECK(loss <= bound);
    CHECK(norm <= 10 * bound);
}

/* Recordings hold gathers, scatters and sums, and replay them without the store's code. */
static void test_replays(struct executor *cpu, struct layout layout, store_make *make_store)
{
    struct executor *late = late_executor_create(cpu);
    struct outcome plain = run(cpu, &layout, make_store, false), replayed = run(late, &layout, make_store, true);
    CHECK(memcmp(&plain, &replayed, sizeof plain) == 0);
    /* all parts of a step: forwards, backwards, the update; two steps come before the first replay */
    const int parts = (layout.split ? 3 : 2) * layout.micro_batches + 1;
    CHECK(late_replays(late) >= (STEPS - 2) * parts);
    late->class->destroy(late);
}

/* -- On record --------------------------------------------------------------------------------------------------- */

static void test_record(struct executor *cpu, struct layout layout)
{
    struct executor *record = record_executor_create(cpu);
    struct toy_options options = options_of(record, &layout, sharded_store_create_poisoned);
    struct toy toy;
    int64_t bytes, after_bytes;
    toy_create(&toy, &options);
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
    const struct plan_log *log = record_executor_log(record);
    struct race race;
    if (!CHECK(race_check(log, -1, &race, 1) == 0)) {
        char *text = race_describe(&race);
        fprintf(stderr, "    %s\n", text);
        free(text);
    }
    for (sharded_left_out = SHARDED_NONE + 1; sharded_left_out < SHARDED_WAITS; sharded_left_out++) {
        /* a unit waits for gathers, which come behind the scatters of three units before; a tied head shifts the turns
         */
        if (sharded_left_out == SHARDED_SCATTERED && !toy.model.settings.tied)
            continue;
        record_clear(record);
        step(&toy, &layout, 2); /* in order, on an executor that does all at once */
        if (!CHECK(race_check(log, -1, &race, 1) > 0))
            fprintf(stderr, "    without waits of purpose %d\n", (int)sharded_left_out);
    }
    sharded_left_out = SHARDED_NONE;
    free(before);
    free(eager);
    toy_destroy(&toy);
    record->class->destroy(record);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    group = comm_group_create(world, NULL, "data");
    struct executor *cpu = cpu_executor_create(1);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test_equal(cpu, (struct layout){kind, DTYPE_F32, 1, 1, false, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE});
        test_equal(cpu, (struct layout){kind, DTYPE_F32, 3, 2, true, DECK_RECOMPUTE_NORMS, DECK_RECIPE_NONE});
        test_equal(cpu, (struct layout){kind, DTYPE_BF16, 3, 1, false, DECK_RECOMPUTE_FULL, DECK_RECIPE_NONE});
        test_replays(cpu, (struct layout){kind, DTYPE_F32, 3, 2, true, DECK_RECOMPUTE_NORMS, DECK_RECIPE_NONE},
                     sharded_store_create);
        test_replays(cpu, (struct layout){kind, DTYPE_F32, 2, 1, false, DECK_RECOMPUTE_NONE, DECK_RECIPE_NONE}, NULL);
        test_record(cpu, (struct layout){kind, DTYPE_F32, 2, 2, false, DECK_RECOMPUTE_QKV, DECK_RECIPE_NONE});
    }
    for (int i = 0; i < 2; i++) { /* copies of gathered weights */
        const int recipe = i == 0 ? DECK_RECIPE_DELAYED : DECK_RECIPE_BLOCK;
        test_equal(cpu, (struct layout){TOY_LLAMA_TIED, DTYPE_F32, 1, 1, false, DECK_RECOMPUTE_NORMS, recipe});
        test_equal(cpu, (struct layout){TOY_ESM2, DTYPE_F32, 2, 2, true, DECK_RECOMPUTE_QKV, recipe});
        test_record(cpu, (struct layout){TOY_LLAMA, DTYPE_F32, 2, 2, false, DECK_RECOMPUTE_QKV, recipe});
    }
    test_replays(cpu, (struct layout){TOY_AMPLIFY, DTYPE_F32, 2, 1, false, DECK_RECOMPUTE_FULL, DECK_RECIPE_DELAYED},
                 sharded_store_create);
    cpu->class->destroy(cpu);
    comm_group_destroy(group);
    comm_destroy(world);
    MPI_Finalize();
    return check_end();
}
