/* The loop of a run: its steps, and the validations and checkpoints between them. */
#include "train/run_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/learning_rate.h"
#include "train/control.h"
#include "monitor/meter.h"
#include "train/profiler.h"
#include "train/session.h"

#include <math.h>
#include <stdlib.h>

/* Ends the run early, with its state saved. */
static int stop(struct train_run *run, enum control_request request, const char *why)
{
    meter_note(&run->meter, run->step, "stop", why);
    run->stopped = memory_string(why);
    profiler_end(&run->profiler, &run->meter, run->step);
    int code = run->step > 0 ? run_save_step(run) : ERROR_NONE;
    if (code != ERROR_NONE)
        return code;
    if (request == CONTROL_ABANDON)
        return comm_agree(
            run->session.world,
            error_environment(
                "%s: the run has stopped after step %lld, and resumes from there when it is started again", why,
                (long long)run->step));
    if (run->step == 0) {
        log_info("# stopped before the first step: there is nothing to save");
        return ERROR_REQUEUE;
    }
    log_info("# stopped after step %lld of %lld: all is saved", (long long)run->step,
             (long long)run->session.setup.steps);
    return ERROR_REQUEUE;
}

static bool stopping(void *self)
{
    return control_stopping(&((struct train_run *)self)->control);
}

static bool has_loss(const struct train_run *run, const struct session_validation *found)
{
    if (found->labels == 0 && run->session.world->rank == 0)
        log_warn("data.valid: the validation rows have no labels, so there is no validation loss");
    return found->labels > 0;
}

_Static_assert((int)DECK_METRIC_R2 == (int)VALIDATION_R2 + 1, "the deck's metrics are the loss, then the validation's");

/* Returns the number of a validation that is the lower the better it is. */
static double cost_of(const struct train_run *run, const struct session_validation *found)
{
    const enum deck_metric metric = run->session.setup.validation_metric;
    return metric == DECK_METRIC_LOSS ? found->loss : -found->metrics[(int)metric - 1];
}

char *run_stop_early(struct train_run *run)
{
    struct setup *setup = &run->session.setup;
    const int64_t waited = run->validated_step - run->best_step;
    if (setup->patience == 0 || run->best_step == 0 || setup->validation_every == 0 || run->step >= setup->steps ||
        run->step != run->validated_step || waited < setup->patience * setup->validation_every)
        return NULL;
    setup->steps = run->step;
    return memory_format("early stopping: no validation was better than that of step %lld (validation.patience = %lld)",
                         (long long)run->best_step, (long long)setup->patience);
}

/* Ends the run here if early stopping says so. */
static void stop_early(struct train_run *run)
{
    char *text = run_stop_early(run);
    if (text != NULL)
        meter_note(&run->meter, run->step, "early_stop", text);
    free(text);
}

/* Validates. A validation that a stop request interrupts is repeated after resuming, because the checkpoint does not
 * count it. */
static int validate(struct train_run *run)
{
    struct session_validation found;
    double start = clock_seconds();
    bool done = session_validate(&run->session, stopping, run, &found);
    const double seconds = clock_seconds() - start;
    meter_add(&run->meter, METER_VALIDATION, seconds);
    if (!done)
        return ERROR_NONE;
    run->validated_step = run->step;
    if (!has_loss(run, &found))
        return ERROR_NONE;
    meter_validation(&run->meter, run->step, found.loss, found.labels, seconds, found.metrics);
    const double cost = cost_of(run, &found);
    if (!isfinite(cost) || (run->best_step > 0 && cost >= run->best_loss)) {
        stop_early(run);
        return ERROR_NONE;
    }
    const int64_t best_step = run->best_step;
    const double best_loss = run->best_loss;
    run->best_step = run->step;
    run->best_loss = cost;
    int code = run->session.setup.saving.keep_best ? run_try_save_step(run) : ERROR_NONE;
    if (run->session.setup.saving.keep_best && run->saved_step != run->step) {
        run->best_step = best_step; /* the save failed: the previous best step is the best one that has a file */
        run->best_loss = best_loss;
    }
    return code;
}

int run_evaluate(struct train_run *run)
{
    struct session_validation found;
    if (!session_validate(&run->session, stopping, run, &found))
        return ERROR_REQUEUE;
    if (has_loss(run, &found))
        meter_evaluation(&run->meter, run->step, found.loss, found.labels, run->session.setup.valid_stores,
                         run->session.setup.validation_rows);
    return ERROR_NONE;
}

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

bool run_validation_due(const struct train_run *run)
{
    const struct setup *setup = &run->session.setup;
    return run->session.valid != NULL && run->step > run->validated_step &&
           (run->step == setup->steps || due(run->step, setup->validation_every));
}

/* Removes the sign of a NaN, so that messages say "nan". */
static double unsigned_nan(double value)
{
    return isnan(value) ? (double)NAN : value;
}

/* Logs the quantization errors of the step that was finished last. Collective. */
static void log_statistics(struct train_run *run, int64_t step, double labels)
{
    struct statistics_row *rows;
    const struct session *s = &run->session;
    const int64_t count =
        statistics_take(&run->session.engine, s->groups.stages != NULL ? s->world : s->grid.data, labels, &rows);
    meter_statistics(&run->meter, step, rows, count);
    free(rows);
}

/* Waits for the oldest step in flight and logs it. */
static int take_step(struct train_run *run)
{
    struct session *s = &run->session;
    const struct launched_step *launched = &run->launched[s->engine.returned % ENGINE_RETURNS];
    double start = clock_seconds();
    struct engine_result result = engine_take(&s->engine);
    meter_add(&run->meter, METER_STEP, launched->seconds + clock_seconds() - start);
    double loss = result.labels > 0 ? result.loss_sum / result.labels : 0;
    bool finite = isfinite(loss) && isfinite(result.grad_norm);
    run->unpadded += launched->work.real;
    if (finite)
        gradient_norms_add(&run->norms, result.grad_norm);
    const struct meter_row row = {.step = launched->step,
                                  .loss = unsigned_nan(loss),
                                  .learning_rate = launched->rate,
                                  .grad_norm = unsigned_nan(result.grad_norm),
                                  .outliers = run->norms.outliers,
                                  .tokens = launched->tokens,
                                  .unpadded = run->unpadded,
                                  .seconds = launched->pause + engine_seconds(&s->engine),
                                  .data_wait = launched->data_wait};
    meter_count(&run->meter, &row, finite ? result.loss_sum : 0, finite ? result.labels : 0, &launched->work);
    if (result.labels == 0 && s->world->rank == 0)
        log_warn("step %lld: no row of the global batch has a label, so nothing is learned; check data.train, "
                 "data.mask_degenerate and data.mask_probability",
                 (long long)launched->step);
    if (due(launched->step, s->setup.log_every) || launched->step == 1 || launched->step == s->setup.steps)
        meter_step(&run->meter, &row);
    if (launched->measured)
        log_statistics(run, launched->step, result.labels);
    if (!finite)
        return run_diverged(run, &row, launched);
    run->skipped = 0;
    return ERROR_NONE;
}

/* Waits for steps until at most `left` are in flight. */
static int take_steps(struct train_run *run, int64_t left)
{
    const struct engine *engine = &run->session.engine;
    int code = ERROR_NONE;
    while (code == ERROR_NONE && engine->launched - engine->returned > left)
        code = take_step(run);
    return code;
}

/* Launches a step, then waits for the previous one, so that the device has work while the host logs. */
static int one_step(struct train_run *run)
{
    struct session *s = &run->session;
    double waited = loader_wait_seconds(s->train);
    const struct batch *batches = loader_next(s->train);
    double start = clock_seconds();
    struct launched_step *launched = &run->launched[s->engine.launched % ENGINE_RETURNS];
    blend_position_destroy(&launched->after);
    *launched = (struct launched_step){.step = run->step + 1,
                                       .rate = learning_rate_at(&s->setup.learning_rate, run->step),
                                       .after = loader_position(s->train)};
    s->engine.decoupled_rate = learning_rate_decoupled_at(&s->setup.learning_rate, run->step);
    launched->measured = s->engine.statistics = statistics_due(&s->setup.statistics, launched->step);
    for (int64_t m = 0; m < loader_micro_batches(s->train) && group_rank(s->groups.stages) + s->grid.model->rank == 0;
         m++) {
        launched->work.real += batches[m].real;
        launched->work.positions += batches[m].rows * batches[m].row_tokens;
    }
    profiler_before(&run->profiler, s->executor, launched->step);
    if (s->engine.launched == s->engine.returned)
        launched->pause = meter_pause(&run->meter);
    engine_begin(&s->engine, &s->schedule, batches, launched->rate);
    profiler_after(&run->profiler, &run->meter, launched->step);
    launched->data_wait = loader_wait_seconds(s->train) - waited;
    meter_add(&run->meter, METER_DATA, launched->data_wait);
    launched->seconds = clock_seconds() - start;
    run->step++;
    launched->tokens = run->tokens += s->setup.train.global_rows * s->setup.train.row_tokens;
    return take_steps(run, s->executor->class->event_passed != NULL ? 1 : 0);
}

static int keep_up(struct train_run *run)
{
    const struct setup *setup = &run->session.setup;
    const int64_t step = run->step;
    const bool ends = step >= setup->steps, saves = due(step, setup->saving.every);
    const bool rechecks = !ends && due(step, setup->recheck_every) && run->rechecked_step != step;
    int code = ends || saves || rechecks || run_validation_due(run) ? take_steps(run, 0) : ERROR_NONE;
    if (run->step != step) /* take_steps has rewound the run */
        return code;
    if (code == ERROR_NONE && rechecks)
        code = run_recheck(run); /* first: what is wrong is not saved */
    if (code == ERROR_NONE && run_validation_due(run))
        code = validate(run);
    if (code != ERROR_NONE || run->step == 0 || run_validation_due(run))
        return code;
    if (run->step >= setup->steps && setup->saving.at_end)
        return run_save_step(run);
    return saves ? run_try_begin_step(run) : ERROR_NONE;
}

int run_loop(struct train_run *run)
{
    int code = keep_up(run);
    while (code == ERROR_NONE && (run->step < run->session.setup.steps || run_validation_due(run))) {
        const char *why;
        enum control_request request = control_poll(&run->control, &why);
        code = run_finish_save_when_ready(run);
        if (code == ERROR_NONE && request != CONTROL_NONE)
            code = take_steps(run, 0);
        if (code == ERROR_NONE && request >= CONTROL_STOP)
            return stop(run, request, why);
        if (code == ERROR_NONE && request == CONTROL_SAVE && run->step > 0) {
            meter_note(&run->meter, run->step, "save", why);
            code = run_try_begin_step(run);
        }
        if (code == ERROR_NONE && !run_validation_due(run))
            code = one_step(run);
        run_grow_snapshot(run);
        if (code == ERROR_NONE)
            code = keep_up(run);
    }
    profiler_end(&run->profiler, &run->meter, run->step);
    return code;
}
