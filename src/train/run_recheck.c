/* Rechecks a run for silent corruption: a micro-batch is computed by all ranks, and those that must have the same
 * numbers are compared (engine/recheck.h). */
#include "train/run_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/memory.h"
#include "base/range.h"
#include "estimate/device_place.h"
#include "setup/layout.h"
#include "monitor/meter.h"
#include "train/recheck_verdict.h"
#include "train/session.h"
#include "train/shared_batch.h"

#include <stdlib.h>

/* Returns a schedule of as few micro-batches as possible, which sums no whole gradients over ranks. */
static struct schedule make_schedule(const struct session *s)
{
    const bool virtual = s->model.settings.pipeline.chunks > 1; /* the number of micro-batches divides by the stages */
    struct schedule schedule = setup_schedule(&s->setup, virtual ? group_size(s->groups.stages) : 1, s->world->rank);
    for (int i = 0; i < schedule.count; i++)
        schedule.actions[i].last = false;
    return schedule;
}

/* Computes values[passes][RECHECK_PARTS] of this rank. */
static void compute(struct session *s, int passes, struct recheck_value *values)
{
    const bool exact = s->executor->device == NULL || s->setup.device.deterministic;
    struct schedule schedule = make_schedule(s);
    struct batch batch;
    shared_batch_create(&batch, s->world, &s->engine, s->train);
    for (int pass = 0; pass < passes; pass++)
        recheck_compute(&s->engine, &schedule, &batch, exact, &values[pass * RECHECK_PARTS]);
    batch_destroy(&batch);
    schedule_destroy(&schedule);
}

static int report(const struct train_run *run, const struct recheck_difference *differences,
                  const struct device_place *places, bool passes)
{
    static const char *const parts[RECHECK_PARTS] = {"weights or moments differ", "the loss of a micro-batch differs",
                                                     "the gradients of a micro-batch differ"};
    struct fault_list faults = {0};
    char text[PLACE_TEXT_BYTES];
    for (int r = 0; r < run->session.world->size; r++)
        if (differences[r].differs)
            faults_add(&faults, "%s: %s %s%s", device_place_text(text, r, &places[r]), parts[differences[r].part],
                       passes && differences[r].part != RECHECK_STATE ? "when computed again" : "from other ranks'",
                       differences[r].majority || passes ? "" : ", and no majority shows which are right");
    char *agreed = run->rechecked_step >= 0
                       ? memory_format("all ranks agreed after step %lld; checkpoints of later steps may be damaged",
                                       (long long)MIN(run->rechecked_step, run->step))
                       : memory_format("this is the first recheck since the program began at step %lld, so all "
                                       "checkpoints may be damaged",
                                       (long long)run->first_step);
    faults_verdict(
        &faults, "step %lld: silent corruption: ranks differ that must have the same numbers (train.recheck_every); %s",
        (long long)run->step, agreed);
    free(agreed);
    char *message = memory_string(error_message());
    error_clear();
    error_restate(ERROR_ENVIRONMENT, message); /* no user's mistake */
    free(message);
    return ERROR_ENVIRONMENT;
}

/* Writes to the log that all ranks agree, and how far apart they are where bits may differ. */
static void note_agreement(struct train_run *run, const double *widest)
{
    char *text = widest[RECHECK_LOSS] > 0 || widest[RECHECK_GRADIENTS] > 0
                     ? memory_format("all ranks agree: losses within %.1e of the median, gradient norms within %.1e",
                                     widest[RECHECK_LOSS], widest[RECHECK_GRADIENTS])
                     : memory_string("all ranks agree in each bit");
    meter_note(&run->meter, run->step, "recheck", text);
    free(text);
}

/* Names the ranks that differ. values: those of all ranks, on rank 0. Collective. */
static int judge(struct train_run *run, int passes, const struct recheck_value *values)
{
    struct session *s = &run->session;
    struct comm *world = s->world;
    const int ranks = world->rank == 0 ? world->size : 0;
    struct recheck_difference *differences = memory_allocate(ranks * (int64_t)sizeof *differences);
    const struct grid_shape shape = layout_shape_on(s->setup.deck, world->size, s->executor->node_block);
    double widest[RECHECK_PARTS];
    int64_t count = ranks > 0 ? recheck_compare(differences, &shape, ranks, passes, values, widest) : 0;
    int code = ERROR_NONE;
    comm_broadcast(world, &count, sizeof count, 0);
    if (count > 0) {
        struct device_place own, *places = memory_allocate(ranks * (int64_t)sizeof *places);
        device_place_find(&own, s->executor);
        comm_gather(world, &own, places, sizeof own);
        code = comm_agree(world, ranks > 0 ? report(run, differences, places, passes > 1) : ERROR_NONE);
        memory_free(places);
    } else if (ranks > 0) {
        note_agreement(run, widest);
    }
    memory_free(differences);
    return code;
}

int run_recheck(struct train_run *run)
{
    struct session *s = &run->session;
    const double start = clock_seconds();
    const int passes = s->grid.data_ranks > 1 ? 1 : 2;
    const int64_t bytes = passes * RECHECK_PARTS * (int64_t)sizeof(struct recheck_value);
    struct recheck_value own[2 * RECHECK_PARTS];
    struct recheck_value *all = memory_allocate(s->world->rank == 0 ? s->world->size * bytes : 1);
    compute(s, passes, own);
    comm_gather(s->world, own, all, bytes);
    const int code = judge(run, passes, all);
    memory_free(all);
    meter_add(&run->meter, METER_RECHECK, clock_seconds() - start);
    if (code == ERROR_NONE)
        run->rechecked_step = run->step;
    return code;
}
