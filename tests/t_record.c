/* A recorded step (plan/record.h) that is replayed in random orders has the same bits, for toys of every family. The
 * race check finds no race, and without one of the step's waits it does. */
#include "steps.h"

#include "cpu/cpu.h"
#include "plan/race.h"
#include "plan/record.h"

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
    struct toy_options options = options_of(record, kind, recipe);
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

int main(void)
{
    batches_make();
    struct executor *cpu = cpu_executor_create(2);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++)
        test_record(cpu, kind, DECK_RECIPE_NONE, false);
    test_record(cpu, TOY_LLAMA_TIED, DECK_RECIPE_DELAYED, false);
    test_record(cpu, TOY_LLAMA_TIED, DECK_RECIPE_BLOCK, false);
    test_record(cpu, TOY_LLAMA, DECK_RECIPE_NONE, true);
    cpu->class->destroy(cpu);
    return check_end();
}
