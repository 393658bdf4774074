#include "train/run.h"
#include "train/run_private.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thousands.h"
#include "bridge/config.h"
#include "comm/launcher.h"
#include "checkpoint/lock.h"
#include "architecture/family.h"
#include "state/initialise.h"
#include "train/learning_rate.h"
#include "state/snapshot.h"
#include "train/control.h"
#include "estimate/fit.h"
#include "estimate/fit_choice.h"
#include "train/folder_check.h"
#include "setup/epochs.h"
#include "setup/model.h"
#include "setup/layout.h"
#include "monitor/meter.h"
#include "train/origin.h"
#include "setup/precision_text.h"
#include "train/profiler.h"
#include "estimate/disk_space.h"
#include "train/session.h"
#include "setup/settings.h"
#include "setup/walltime.h"
#include "train/start.h"
#include "train/tuning.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- Start weights ----------------------------------------------------------------------------------------------- */

/* The sources of the initial state; all NULL: the seed. */
struct start {
    char *resumed; /* checkpoint to resume from */
    char *origin;  /* checkpoint of model.initialise_from, for a new run */
    char *aside;   /* message: which checkpoints were found to be damaged; rank 0 */
};

/* Describes how a changed train.steps changes the learning rate; NULL: it does not. Freed with free(). */
static char *describe_stretch(const struct deck *old_deck, const struct learning_rate_settings *now, int64_t step)
{
    const struct learning_rate_settings old = setup_learning_rate(old_deck);
    if (old.steps == now->steps || !now->to_last_step || now->kind == DECK_SCHEDULE_CONSTANT)
        return NULL;
    return memory_format("the learning rate decays until train.steps, which changed from %lld to %lld: the schedule is "
                         "%s, and the next step has %.4g instead of %.4g",
                         (long long)old.steps, (long long)now->steps,
                         now->steps > old.steps ? "stretched" : "shortened", learning_rate_at(now, step),
                         learning_rate_at(&old, step));
}

static int compare_decks(struct train_run *run, const struct checkpoint_meta *meta, const char *path)
{
    struct deck *old = deck_create();
    int code = deck_read_text(old, meta->deck_text, path, NULL, 0);
    if (code == ERROR_NONE) {
        run->changed = deck_compare(old, run->deck);
        run->stretched = describe_stretch(old, &run->session.setup.learning_rate, run->step);
        char *before = deck_key_text(old, "validation.metric"), *now = deck_key_text(run->deck, "validation.metric");
        if (strcmp(before, now) != 0)
            run->best_step = 0; /* what is best starts again with another metric */
        free(before);
        free(now);
    }
    memory_free(old);
    return code;
}

/* Freed with free(). */
static char *describe_scaling(const struct deck *deck)
{
    static const char *const keys[] = {"precision.recipe", "precision.history", "precision.format", "precision.margin"};
    char *recipe = deck_key_text(deck, keys[0]);
    const bool delayed = strcmp(recipe, "\"delayed\"") == 0;
    free(recipe);
    return deck_keys_text(deck, keys, delayed ? 4 : 1, ", ");
}

/* Logs that the checkpoint's state of delayed scaling is not used, or that the checkpoint does not have one. */
static void log_scaling(const struct train_run *run, const struct checkpoint_meta *meta, const char *path)
{
    const struct session *s = &run->session;
    const bool delays = delayed_scaling_present(&s->engine.scaling);
    if (s->engine.scaling.restored || (!delays && !meta->scales))
        return;
    struct deck *old = deck_create();
    const bool known = deck_read_text(old, meta->deck_text, path, NULL, 0) == ERROR_NONE;
    char *before = describe_scaling(old), *now = describe_scaling(run->deck);
    if (known)
        log_info("# %s: %s was written with %s; this run has %s",
                 delays ? "delayed scaling starts again" : "the scales of delayed scaling are left out", path, before,
                 now);
    free(before);
    free(now);
    memory_free(old);
}

void run_take_counts(struct train_run *run, const struct checkpoint_meta *meta, const char *path)
{
    run->step = meta->step;
    run->tokens = meta->tokens;
    run->unpadded = run->session.world->rank == 0 ? meta->unpadded : 0;
    run->norms = meta->norms;
    run->validated_step = meta->validation_step;
    run->best_step = meta->best_step;
    run->best_loss = meta->best_loss;
    char *own = checkpoint_path(run->session.setup.folder, meta->step);
    run->saved_step = strcmp(own, path) == 0 ? meta->step : -1;
    free(own);
}

static int64_t bytes_of_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

static int resume(struct train_run *run, const char *path)
{
    struct session *s = &run->session;
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(s->world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    run_take_counts(run, &meta, path);
    run->first_step = run->step;
    code = start_check(s, run->deck, &meta, path);
    struct blend_position place = {0};
    if (code == ERROR_NONE)
        code = start_place(s, &meta, path, &place, &run->blended);
    if (code == ERROR_NONE)
        code = comm_agree(s->world, compare_decks(run, &meta, path));
    const double start = clock_seconds();
    if (code == ERROR_NONE)
        code = checkpoint_load(s->world, &s->engine, path, true, &run->damaged);
    if (code == ERROR_NONE) {
        loader_seek(s->train, &place, run->step);
        run->load_seconds = clock_seconds() - start;
        run->load_bytes = bytes_of_file(path);
        log_info("# continuing from %s at step %lld (read in %.2f s, %.2f GB/s)", path, (long long)run->step,
                 run->load_seconds, 1e-9 * (double)run->load_bytes / run->load_seconds);
        log_scaling(run, &meta, path);
    }
    blend_position_destroy(&place);
    checkpoint_meta_destroy(&meta);
    return code;
}

static int start_weights(struct train_run *run, const struct start *start)
{
    struct session *s = &run->session;
    const char *path = start->resumed != NULL ? start->resumed : start->origin;
    run->resumed = start->resumed;
    run->saved_step = run->digest_step = run->rechecked_step = -1;
    if (path == NULL) {
        engine_initialise(&s->engine, s->setup.train.seed);
        return ERROR_NONE;
    }
    int code = start->resumed != NULL ? resume(run, path) : origin_read_weights(s, path);
    if (code == ERROR_NONE)
        code = origin_merge_tokenizer(s->world, path, &run->tokenizer);
    return code == ERROR_NONE ? origin_read_carried(s->world, path, &run->carried) : code;
}

/* -- The whole run ----------------------------------------------------------------------------------------------- */

static char *describe_data(const struct session *s)
{
    const struct random_windows_settings *random = &s->setup.train.random;
    if (!s->setup.random)
        return memory_format("%lld window%s and %lld tokens an epoch", (long long)loader_windows(s->train),
                             plural(loader_windows(s->train)), (long long)loader_window_tokens(s->train));
    if (random->median == 0)
        return memory_string("random data: sequences that fill their windows");
    return memory_format("random data: lengths of median %lld and mean %lld tokens", (long long)random->median,
                         (long long)random->mean);
}

/* Logs the epochs of each store. With weights the deck does not show how often a store is repeated. */
static void describe_stores(const struct session *s)
{
    int stores;
    struct store_share *shares = loader_shares(s->train, s->setup.steps, &stores);
    if (shares == NULL)
        return;
    for (int d = 0; d < stores && d < STORE_EPOCHS_SHOWN; d++)
        log_info("# %.1f epochs of %s, at most", shares[d].epochs, shares[d].path);
    store_epochs_warn(shares, stores);
    memory_free(shares);
}

static void describe(const struct train_run *run)
{
    const struct session *s = &run->session;
    const struct model_settings *m = &s->model.settings;
    log_info("# %d rank%s of %d thread%s, %s %s of %lld parameters, %lld layer%s, hidden %lld, vocabulary %lld",
             s->world->size, plural(s->world->size), s->threads, plural(s->threads),
             model_causal(m) ? "causal" : "masked", m->family->name, (long long)model_parameter_count(m),
             (long long)m->layers, plural(m->layers), (long long)m->hidden, (long long)m->vocabulary);
    char *layout = layout_text(s->setup.deck, s->world->size);
    log_info("# layout: %s", layout);
    free(layout);
    char *quantized = precision_text(&m->precision, m->layers, s->executor->class->lacks_products == NULL);
    if (precision_quantizes(&m->precision))
        log_info("# quantized: %s", quantized);
    free(quantized);
    char *data = describe_data(s);
    log_info("# %s, %lld row%s of %lld tokens a step in %lld micro-batch%s a rank", data,
             (long long)s->setup.train.global_rows, plural(s->setup.train.global_rows),
             (long long)s->setup.train.row_tokens, (long long)loader_micro_batches(s->train),
             loader_micro_batches(s->train) == 1 ? "" : "es");
    free(data);
    settings_warn(s->setup.deck);
    describe_stores(s);
    if (s->setup.random && (s->setup.train_stores[0] != '\0' || s->setup.valid_stores[0] != '\0'))
        log_info("# data.source = \"random\": the stores of data.train and data.valid are not read");
    log_info("# memory of a rank, MiB:");
    const int shown = s->engine.budget.bytes[BUDGET_HOST] > 0 ? BUDGET_CATEGORIES : BUDGET_HOST;
    for (int c = 0; c < shown; c++)
        log_info("#   %-12s %10.1f", budget_category_name((enum budget_category)c),
                 (double)s->engine.budget.bytes[c] / (1 << 20));
    if (run->background)
        log_info("#   %-12s %10.1f  of checkpoints, on the host", "snapshot",
                 (double)snapshot_bytes(run->snapshot.engine) / (1 << 20));
}

/* Decides whether checkpoints are written in the background: their snapshots need host memory. Collective. */
static void choose_background(struct train_run *run)
{
    struct session *s = &run->session;
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (!s->setup.saving.overlapped || run->step >= s->setup.steps)
        return;
    const int64_t bytes = snapshot_bytes(&s->engine);
    const int64_t available = fit_snapshot(&s->setup, &s->engine.budget, s->grid.node->size, s->executor);
    run->background = comm_max_i64(s->world, bytes > available) == 0;
    if (run->background)
        snapshot_create(&run->snapshot, &s->engine);
    else
        log_info("# checkpoints are written synchronously: a snapshot needs %s of host memory on a rank, which has %s",
                 bytes_text(need, (double)bytes), bytes_text(limit, available > 0 ? (double)available : 0));
}

/* Logs a change that concerns the user. The event log has all changes in its line "start". */
static void log_change(const struct deck_change *change)
{
    if (!change->logged)
        return;
    char *text = deck_change_text(change);
    log_info("# changed since the checkpoint: %s", text);
    free(text);
}

static void open_meter(struct train_run *run, const struct start *start)
{
    const struct session *s = &run->session;
    const struct setup *setup = &s->setup;
    struct meter_settings settings = {.folder = setup->folder,
                                      .step = run->step,
                                      .steps_total = setup->steps,
                                      .validates = run_validation_due(run),
                                      .outliers = run->norms.outliers,
                                      .tensorboard = setup->tensorboard,
                                      .prometheus = setup->prometheus,
                                      .peak = setup->peak * s->world->size,
                                      .parameters = model_parameter_count(&s->model.settings),
                                      .row_tokens = setup->train.row_tokens,
                                      .planned = budget_total(&s->engine.budget),
                                      .stage = group_rank(s->groups.stages),
                                      .threads = s->threads,
                                      .executor = s->executor,
                                      .resumed = start->resumed != NULL,
                                      .load_seconds = run->load_seconds,
                                      .load_bytes = run->load_bytes,
                                      .changed = run->changed};
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        settings.flops_per_token[c] =
            flops_per_token(&s->model.settings, setup->train.window, (enum flops_convention)c);
    meter_open(&run->meter, s->world, &settings);
    if (start->resumed != NULL)
        meter_add(&run->meter, METER_LOAD, run->load_seconds);
    if (start->aside != NULL)
        meter_note(&run->meter, run->step, "set_aside", start->aside);
    for (int i = 0; i < run->changed.count; i++)
        log_change(&run->changed.changes[i]);
    if (run->blended != NULL && run->step < setup->steps)
        meter_note(&run->meter, run->step, "blended", run->blended);
    if (run->stretched != NULL && run->step < setup->steps)
        meter_note(&run->meter, run->step, "stretched", run->stretched);
}

static void close_meter(struct train_run *run, int code)
{
    char *done = memory_format("%lld step%s", (long long)run->step, plural(run->step));
    if (run->step > run->first_step)
        meter_summary(&run->meter);
    meter_end(&run->meter, code,
              code == ERROR_NONE                              ? done
              : code == ERROR_REQUEUE && run->stopped != NULL ? run->stopped
              : code == ERROR_REQUEUE                         ? "a signal requests a stop"
                                                              : error_printed());
    meter_close(&run->meter);
    free(done);
}

/* Refuses a run at its start if its final model could not be exported. */
static int check_export(const struct setup *setup)
{
    if (!setup->saving.at_end)
        return error_user("key checkpoint.export_final = true: needs a final model; set checkpoint.at_end = true");
    int code = config_check(&setup->model, DIALECT_HF);
    if (code == ERROR_NONE)
        return code;
    char *what = memory_format("key checkpoint.export_final = true: not for this model: %s", error_message());
    error_clear();
    code = error_restate(code, what);
    free(what);
    return code;
}

static int train_with(struct train_run *run, struct deck *deck, struct comm *world, const struct start *start,
                      device_make *make_executor)
{
    struct session *s = &run->session;
    const struct setup *setup = &s->setup;
    double walltime;
    int code = session_create(s, deck, world, start->resumed, make_executor);
    if (code == ERROR_NONE)
        setup_keep_choices(setup, deck);
    const struct token_store *labelled = code == ERROR_NONE ? loader_labelled(s->train) : NULL;
    if (labelled != NULL)
        model_name_labels(deck, labelled->classes, labelled->class_bytes);
    run->deck = deck;
    run->deck_text = deck_print_effective(deck);
    if (code == ERROR_NONE && setup->saving.export_final)
        code = comm_agree(world, check_export(setup));
    if (code == ERROR_NONE)
        code = comm_agree(world, world->rank == 0 ? loader_open_tokenizer(s->train, &run->tokenizer) : ERROR_NONE);
    if (code == ERROR_NONE)
        code = start_weights(run, start);
    char *ended = code == ERROR_NONE ? run_stop_early(run) : NULL;
    if (ended != NULL)
        log_info("# %s", ended);
    free(ended);
    if (code == ERROR_NONE && run->step < setup->steps)
        code = disk_space_check(world, setup);
    if (code == ERROR_NONE)
        code = comm_agree(world, walltime_parse(setup->walltime, &walltime));
    const bool trained = code == ERROR_NONE && run->step >= setup->steps && !run_validation_due(run);
    if (code == ERROR_NONE && !(trained && run->saved_step == run->step))
        code = start_write_deck(world, setup->folder, run->deck_text);
    if (code != ERROR_NONE)
        return code;
    if (run->step < setup->steps)
        tuning_complete(world, setup, &s->engine, s->train);
    choose_background(run);
    open_meter(run, start);
    describe(run);
    if (run->step == setup->steps)
        log_info("# the run is finished: step %lld of %lld", (long long)run->step, (long long)setup->steps);
    if (run->step > setup->steps)
        log_info("# nothing is left to do: the run has done %lld step%s, and train.steps is %lld", (long long)run->step,
                 plural(run->step), (long long)setup->steps);
    profiler_create(&run->profiler, setup, world->rank);
    control_open(&run->control, world, setup->folder, walltime, setup->saving.seconds);
    comm_end_long_work();
    code = run_loop(run);
    if (code == ERROR_NONE && trained && s->valid != NULL)
        code = run_evaluate(run);
    comm_begin_long_work();
    const int late = run_finish_save(run);
    code = code == ERROR_NONE ? late : code;
    if (code == ERROR_NONE)
        code = run_finish(run);
    if (code == ERROR_ENVIRONMENT)
        run_log_unsaved(run);
    control_close(&run->control);
    snapshot_destroy(&run->snapshot);
    close_meter(run, code);
    return code;
}

/* Checks the output folder on rank 0, for a run that resumes from the checkpoint `path`; NULL: a fresh start. */
static int check_folder(struct comm *world, const struct setup *setup, const char *path)
{
    struct checkpoint_meta meta = {0};
    int code = path != NULL ? checkpoint_read_meta(world, path, &meta) : ERROR_NONE;
    if (code != ERROR_NONE)
        return code;
    if (world->rank == 0)
        code = folder_check_run(setup, path, path != NULL ? &meta : NULL);
    if (path != NULL)
        checkpoint_meta_destroy(&meta);
    return comm_agree(world, code);
}

/* Finds what the run starts from. If the deck names an origin or leaves choices to the program, completes it from
 * there. */
static int find_start(struct comm *world, const struct setup *setup, struct deck *deck, struct start *start)
{
    int code = start_find(world, setup, &start->resumed, &start->aside);
    if (code == ERROR_NONE)
        code = check_folder(world, setup, start->resumed);
    if (code == ERROR_NONE && origin_named(deck))
        code = start->resumed != NULL ? origin_inherit(world, deck, start->resumed)
                                      : origin_take(world, deck, &start->origin);
    if (code == ERROR_NONE && start->resumed != NULL && fit_chooses(deck))
        code = start_inherit_fit(world, deck, start->resumed);
    return code;
}

/* One attempt to begin a run: only reading a checkpoint may show that it is damaged. */
struct attempt {
    bool again;  /* the damaged checkpoint is set aside: try again with the previous one */
    char *aside; /* message: which checkpoints were set aside so far; rank 0, owned */
};

/* Joins two texts, each on its own line. Consumes both; either may be NULL. */
static char *join_lines(char *first, char *second)
{
    if (first == NULL || second == NULL)
        return first != NULL ? first : second;
    char *both = memory_format("%s\n  %s", first, second);
    free(first);
    free(second);
    return both;
}

/* Sets a damaged file aside if the program chose it. If the user named it, the error stands. Collective. */
static int leave_damaged(struct comm *world, const char *resume, const char *path, struct attempt *attempt)
{
    attempt->again = strcmp(path, resume) != 0;
    if (!attempt->again)
        return comm_agree(world, error_restate(ERROR_USER, error_message()));
    attempt->aside = join_lines(attempt->aside, checkpoint_set_aside(world, path));
    return ERROR_NONE;
}

static int try_run(struct comm *world, const struct setup *setup, struct attempt *attempt, device_make *make_executor)
{
    struct deck *deck = deck_copy(setup->deck); /* a copy, which the checkpoint may complete */
    struct start start = {NULL, NULL, NULL};
    attempt->again = false;
    int code = find_start(world, setup, deck, &start);
    if (code == ERROR_NONE)
        code = epochs_resolve(deck, world, true);
    start.aside = join_lines(attempt->aside, start.aside);
    attempt->aside = NULL;
    if (code == ERROR_NONE) {
        struct train_run *run = memory_allocate(sizeof *run);
        code = train_with(run, deck, world, &start, make_executor);
        session_destroy(&run->session);
        for (int i = 0; i < ENGINE_RETURNS; i++)
            blend_position_destroy(&run->launched[i].after);
        carried_destroy(&run->carried);
        tokenizer_close(run->tokenizer);
        deck_changes_destroy(&run->changed);
        free(run->blended);
        free(run->stretched);
        free(run->stopped);
        free(run->deck_text);
        if (run->damaged) {
            attempt->aside = start.aside;
            start.aside = NULL;
            code = leave_damaged(world, setup->resume, start.resumed, attempt);
        }
        memory_free(run);
    }
    memory_free(deck);
    free(start.resumed);
    free(start.origin);
    free(start.aside);
    return code;
}

int run_train(struct comm *world, const char *deck_path, const char *from, char *const overrides[], int override_count,
              device_make *make_executor)
{
    struct deck *deck = deck_create();
    struct setup setup = {0}; /* compiled from the deck as read, for work without a session */
    comm_begin_long_work();   /* everything but the loop */
    int code = start_read_deck(world, deck, deck_path, from, overrides, override_count);
    if (code == ERROR_NONE)
        code = comm_agree(world, setup_create(&setup, deck, world->size));
    if (code == ERROR_NONE) {
        comm_set_timeout(setup.device.timeout);
        code = comm_agree(world, settings_check(deck, world->size));
    }
    int made = 0;
    if (code == ERROR_NONE)
        code = start_make_folder(world, setup.folder, &made);
    struct folder_lock lock = {0};
    if (code == ERROR_NONE)
        code = lock_acquire(&lock, world, setup.folder);
    if (code == ERROR_NONE) {
        start_clean_folder(world, setup.folder);
        start_stripe_folder(world, &setup);
    }
    struct attempt attempt = {.again = true};
    while (code == ERROR_NONE && attempt.again)
        code = try_run(world, &setup, &attempt, make_executor);
    free(attempt.aside);
    lock_release(&lock, code != ERROR_NONE && made > 0);
    if (made > 0 && code != ERROR_NONE)
        disk_remove_empty(setup.folder, made);
    setup_destroy(&setup);
    memory_free(deck);
    comm_end_long_work();
    if (code == ERROR_REQUEUE)
        log_info("# exit code %d: the run stopped on request, and the same command resumes it%s", code,
                 launcher_reports_codes() ? " (what mpirun says of a non-zero exit code means this)" : "");
    return code;
}
