#include "train/run.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "bridge/config.h"
#include "bridge/export.h"
#include "comm/launcher.h"
#include "io/lock.h"
#include "bridge/safetensors.h"
#include "model/family.h"
#include "step/initialise.h"
#include "step/learning_rate.h"
#include "step/snapshot.h"
#include "train/control.h"
#include "train/fit.h"
#include "train/fit_choice.h"
#include "train/layout.h"
#include "train/meter.h"
#include "train/origin.h"
#include "train/precision_text.h"
#include "train/profiler.h"
#include "train/room.h"
#include "train/session.h"
#include "train/settings.h"
#include "train/start.h"
#include "train/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- The run ----------------------------------------------------------------------------------------------------- */

enum {
    SKIPS_IN_A_ROW = 10, /* diverged steps after which a run ends that skips them */
    MOST_REWINDS = 5     /* to one checkpoint; at the next divergence the run ends */
};

struct run {
    struct session session;
    struct meter meter;
    struct control control;
    struct profiler profiler;
    struct carried carried;            /* what every checkpoint holds besides the model; rank 0 */
    const struct tokenizer *tokenizer; /* of the stores, open; rank 0 */
    char *deck_text;
    int64_t step, tokens; /* done, or on their way in the engine */
    int64_t unpadded;     /* this rank's part of the tokens that are no padding, of steps that were taken; the ranks'
                             sum is the run's */
    struct begun {
        int64_t step, tokens; /* number; the run's tokens with it */
        struct meter_work work;
        double rate;                 /* of learning */
        double seconds;              /* that the host was busy with it */
        bool measured;               /* what quantization loses */
        struct blend_position after; /* of the data, behind its rows; owned */
    } begun[ENGINE_RETURNS];
    int64_t first_step; /* where this program began */
    int64_t saved_step; /* that has a checkpoint in the output folder; -1 = none */
    struct snapshot snapshot;
    bool damaged; /* the checkpoint to go on from is; its error is recorded, not told */
    bool beside;  /* checkpoints may be written beside steps */
    double grown; /* seconds that the snapshot's memory has taken */
    struct saving {
        struct checkpoint_save *save; /* NULL: none is under way */
        struct checkpoint_meta meta;  /* its place in the data and choices are its own */
        void *choices;
        char *path;
        int64_t step;
        double waited; /* by the run, seconds */
        bool of_step;  /* with moments, under the step's name */
    } saving;
    int64_t validated_step; /* of the last validation; 0 = none */
    int64_t best_step;      /* of the lowest validation loss; 0 = none */
    double best_loss;
    uint64_t digest;             /* of the state after step digest_step */
    int64_t digest_step;         /* -1 = none has been computed */
    struct gradient_norms norms; /* of steps that made an update */
    int64_t skipped;             /* diverged steps in a row */
    const char *resumed;         /* the checkpoint that this program began from, borrowed; NULL: none */
    int64_t rewound_to, rewinds; /* the step of the last rewind, and how many in a row went there */
    double load_seconds;         /* of reading the checkpoint that the run goes on from */
    int64_t load_bytes;          /* of its file */
    struct deck_changes changed; /* keys, since the checkpoint that the run goes on from */
    char *blended;               /* what became of the stores; NULL: they are the same */
    char *stretched;             /* what became of the learning rate by them; NULL: nothing by train.steps */
    char *stopped;               /* why the run ends early; NULL: it does not */
};

/* -- Start weights ----------------------------------------------------------------------------------------------- */

/* Where a run starts from; NULL for what it does not start from. */
struct start {
    char *resumed; /* the checkpoint that it goes on from */
    char *origin;  /* that of model.initialise_from, when it is new */
    char *aside;   /* which checkpoints were found to be bad; rank 0 */
};

/* Does the learning rate go by train.steps, which has changed? Freed with free(); NULL: no. */
static char *describe_stretch(const struct deck *old, const struct deck *new_, int64_t step)
{
    if (old->train.steps == new_->train.steps || new_->schedule.decay > 0 ||
        new_->schedule.kind == DECK_SCHEDULE_CONSTANT)
        return NULL;
    return memory_format("the learning rate falls over train.steps, which were %lld and are %lld now: its schedule is "
                         "%s, and the next step has %.4g instead of %.4g",
                         (long long)old->train.steps, (long long)new_->train.steps,
                         new_->train.steps > old->train.steps ? "stretched" : "shortened", learning_rate_at(new_, step),
                         learning_rate_at(old, step));
}

static int compare_decks(struct run *run, const struct checkpoint_meta *meta, const char *path)
{
    struct deck old;
    int code = deck_read_text(&old, meta->deck_text, path, NULL, 0);
    if (code != ERROR_NONE)
        return code;
    run->changed = deck_compare(&old, &run->session.deck);
    run->stretched = describe_stretch(&old, &run->session.deck, run->step);
    return ERROR_NONE;
}

/* The keys that the state of delayed scaling hangs on. Freed with free(). */
static char *describe_scaling(const struct deck *deck)
{
    static const char *const keys[] = {"precision.recipe", "precision.history", "precision.format", "precision.margin"};
    return deck_keys_text(deck, keys, deck->precision.recipe == DECK_RECIPE_DELAYED ? 4 : 1, ", ");
}

/* Of a state of delayed scaling that is not taken over, or that the checkpoint has not. */
static void tell_scaling(const struct run *run, const struct checkpoint_meta *meta, const char *path)
{
    const struct session *s = &run->session;
    const bool delays = delayed_scaling_present(&s->engine.scaling);
    struct deck old;
    if (s->engine.scaling.restored || (!delays && !meta->scales) ||
        deck_read_text(&old, meta->deck_text, path, NULL, 0) != ERROR_NONE)
        return;
    char *before = describe_scaling(&old), *now = describe_scaling(&s->deck);
    log_info("# %s: %s was written with %s; this run has %s",
             delays ? "delayed scaling starts anew" : "the scales of delayed scaling are left out", path, before, now);
    free(before);
    free(now);
}

/* What the host counts, as it was when the checkpoint `path` was written. */
static void take_counts(struct run *run, const struct checkpoint_meta *meta, const char *path)
{
    run->step = meta->step;
    run->tokens = meta->tokens;
    run->unpadded = run->session.world->rank == 0 ? meta->unpadded : 0;
    run->norms = meta->norms;
    run->validated_step = meta->validation_step;
    run->best_step = meta->best_step;
    run->best_loss = meta->best_loss;
    char *own = checkpoint_path(run->session.deck.output.folder, meta->step);
    run->saved_step = strcmp(own, path) == 0 ? meta->step : -1;
    free(own);
}

static int64_t bytes_of_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

static int resume(struct run *run, const char *path)
{
    struct session *s = &run->session;
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(s->world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    take_counts(run, &meta, path);
    run->first_step = run->step;
    code = start_check(s, &meta, path);
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
        tell_scaling(run, &meta, path);
    }
    blend_position_destroy(&place);
    checkpoint_meta_destroy(&meta);
    return code;
}

static int start_weights(struct run *run, const struct start *start)
{
    struct session *s = &run->session;
    const char *path = start->resumed != NULL ? start->resumed : start->origin;
    run->resumed = start->resumed;
    run->saved_step = run->digest_step = -1;
    if (path == NULL) {
        engine_initialise(&s->engine, (uint64_t)s->deck.train.seed);
        return ERROR_NONE;
    }
    int code = start->resumed != NULL ? resume(run, path) : origin_read_weights(s, path);
    return code == ERROR_NONE ? origin_read_carried(s->world, path, &run->carried) : code;
}

/* -- Checkpoints ------------------------------------------------------------------------------------------------- */

/* All weights and moments pass through the host for it, so once for each step that is written. Collective. */
static void update_digest(struct run *run)
{
    if (run->digest_step != run->step)
        run->digest = checkpoint_digest(run->session.world, &run->session.engine);
    run->digest_step = run->step;
}

/* What the checkpoint of this step says of the run. Its position and choices are saving's own. */
static void fill_meta(struct run *run, struct saving *saving)
{
    struct session *s = &run->session;
    saving->meta = (struct checkpoint_meta){.deck_text = run->deck_text,
                                            .version = PACKAGE_VERSION,
                                            .step = run->step,
                                            .tokens = run->tokens,
                                            .unpadded = comm_sum_i64(s->world, run->unpadded),
                                            .norms = run->norms,
                                            .seed = s->deck.train.seed,
                                            .position = loader_position(s->train),
                                            .store = loader_checksum(s->train),
                                            .lineage = *loader_lineage(s->train),
                                            .digest = run->digest_step == run->step ? run->digest : 0,
                                            .vocabulary = s->model.settings.vocabulary,
                                            .validation_step = run->validated_step,
                                            .best_step = run->best_step,
                                            .best_loss = run->best_loss,
                                            .carried = &run->carried,
                                            .opened = run->tokenizer};
    snprintf(saving->meta.tokenizer, sizeof saving->meta.tokenizer, "%s", loader_tokenizer(s->train)->name);
    if (saving->of_step && s->executor->class->choices != NULL) { /* what goes on from here computes alike */
        const void *choices = s->executor->class->choices(s->executor, &saving->meta.choices_bytes);
        saving->choices = memory_allocate(saving->meta.choices_bytes);
        memcpy(saving->choices, choices, (size_t)saving->meta.choices_bytes);
        saving->meta.choices = saving->choices;
    }
}

static void destroy_saving(struct saving *saving)
{
    blend_position_destroy(&saving->meta.position);
    memory_free(saving->choices);
    free(saving->path);
    *saving = (struct saving){0};
}

/* Begins a checkpoint at `path`, which becomes saving's. `beside`: it is written while steps go on. */
static int begin_save(struct run *run, char *path, bool of_step, bool beside)
{
    struct session *s = &run->session;
    struct saving *saving = &run->saving;
    const double start = clock_seconds();
    *saving = (struct saving){.path = path, .step = run->step, .of_step = of_step};
    comm_begin_long_work();
    fill_meta(run, saving);
    int code = checkpoint_begin(&saving->save, s->world, &s->engine, &saving->meta, path, of_step,
                                beside ? &run->snapshot : NULL);
    comm_end_long_work();
    saving->waited = clock_seconds() - start;
    meter_add(&run->meter, METER_CHECKPOINT, saving->waited);
    if (code == ERROR_NONE)
        control_saved(&run->control, saving->waited);
    else
        destroy_saving(saving);
    return code;
}

static void tell_save(struct run *run, const struct checkpoint_written *written, double ending)
{
    const struct saving *saving = &run->saving;
    const struct meter_save save = {saving->path, written->digest, written->bytes, written->seconds,
                                    saving->waited + ending};
    meter_add_wait(&run->meter, METER_CHECKPOINT, ending);
    meter_add(&run->meter, METER_WRITE, written->seconds);
    control_saved_beside(&run->control, written->seconds + ending);
    meter_checkpoint(&run->meter, saving->step, &save);
}

/* Ends the save that is under way, and removes checkpoints that are no longer kept. */
static int end_save(struct run *run)
{
    struct session *s = &run->session;
    struct saving *saving = &run->saving;
    struct checkpoint_written written;
    const double start = clock_seconds();
    comm_begin_long_work();
    int code = checkpoint_end(saving->save, &written);
    comm_end_long_work();
    if (code == ERROR_NONE)
        tell_save(run, &written, clock_seconds() - start);
    if (code == ERROR_NONE && saving->of_step) {
        run->digest = written.digest;
        run->digest_step = run->saved_step = saving->step;
        const struct checkpoint_rule rule = {.keep = s->deck.checkpoint.keep,
                                             .keep_every = s->deck.checkpoint.keep_every,
                                             .best_step = s->deck.checkpoint.keep_best ? run->best_step : 0};
        code = checkpoint_prune(s->world, s->deck.output.folder, &rule);
    }
    destroy_saving(saving);
    return code;
}

/* Where the run could do without the checkpoint of a step. */
static int tolerate(struct run *run, int64_t step, int code)
{
    if (code != ERROR_ENVIRONMENT || run->session.deck.checkpoint.on_failure != DECK_FAILURE_CONTINUE)
        return code;
    meter_note(&run->meter, step, "save_failed",
               "a checkpoint could not be written, or an old one not removed; going on (checkpoint.on_failure = "
               "\"continue\")");
    return ERROR_NONE;
}

/* Ends the save of an earlier step, if one is under way. */
static int settle(struct run *run)
{
    const int64_t step = run->saving.step;
    return run->saving.save != NULL ? tolerate(run, step, end_save(run)) : ERROR_NONE;
}

/* Settles it once no rank has to wait. */
static int settle_when_ready(struct run *run)
{
    return run->saving.save != NULL && checkpoint_ready(run->saving.save) ? settle(run) : ERROR_NONE;
}

/* Begins this step's checkpoint, unless there is one or it is under way. */
static int begin_step(struct run *run, bool beside)
{
    if (run->saved_step == run->step || (run->saving.save != NULL && run->saving.step == run->step))
        return ERROR_NONE;
    int code = settle(run);
    if (code == ERROR_NONE) /* what was learned of other data is not saved */
        code = loader_recheck(run->session.train, run->session.world);
    if (code == ERROR_NONE)
        code = begin_save(run, checkpoint_path(run->session.deck.output.folder, run->step), true, beside);
    return code;
}

/* Writes this step's checkpoint, unless there is one. */
static int save_step(struct run *run)
{
    int code = begin_step(run, false);
    return code == ERROR_NONE && run->saving.save != NULL ? end_save(run) : code;
}

/* The same where the run could do without. */
static int try_save_step(struct run *run)
{
    return tolerate(run, run->step, save_step(run));
}

/* The same beside the steps that follow, where that can be. */
static int try_begin_step(struct run *run)
{
    return run->beside ? tolerate(run, run->step, begin_step(run, true)) : try_save_step(run);
}

/* Memory for snapshots is taken little by little, for at most a hundredth of the time, before the first needs it. */
static void grow_snapshot(struct run *run)
{
    enum { HOPED = 4 /* chunks a second */ };
    const double start = clock_seconds(),
                 chunk = run->snapshot.grown > 0 ? run->grown / run->snapshot.grown : 1.0 / HOPED;
    if (run->beside && run->grown + chunk < (start - run->meter.started) / 100 && snapshot_grow(&run->snapshot))
        run->grown += clock_seconds() - start;
}

/* Ends the run early, with everything saved. */
static int stop(struct run *run, enum control_wish wish, const char *why)
{
    meter_note(&run->meter, run->step, "stop", why);
    run->stopped = memory_string(why);
    int code = run->step > 0 ? save_step(run) : ERROR_NONE;
    if (code != ERROR_NONE)
        return code;
    if (wish == CONTROL_ABANDON)
        return comm_agree(run->session.world,
                          error_environment("%s: the run has stopped after step %lld, and goes on from there when it "
                                            "is started again",
                                            why, (long long)run->step));
    if (run->step == 0) {
        log_info("# stopped before the first step: there is nothing to save");
        return ERROR_REQUEUE;
    }
    log_info("# stopped after step %lld of %lld: all is saved", (long long)run->step,
             (long long)run->session.deck.train.steps);
    return ERROR_REQUEUE;
}

/* -- The loop ---------------------------------------------------------------------------------------------------- */

static bool stopping(void *self)
{
    return control_stopping(&((struct run *)self)->control);
}

/* A validation that is given up for a stop is made again where the run goes on, since the checkpoint does not count it.
 */
static int validate(struct run *run)
{
    struct session_validation found;
    double start = clock_seconds();
    bool done = session_validate(&run->session, stopping, run, &found);
    meter_add(&run->meter, METER_VALIDATION, clock_seconds() - start);
    if (!done)
        return ERROR_NONE;
    if (found.labels == 0 && run->session.world->rank == 0)
        log_warn("data.valid: nothing in the rows of the validation is to be predicted, so it has no loss");
    meter_validation(&run->meter, run->step, found.loss, found.labels);
    run->validated_step = run->step;
    if (found.labels == 0 || !isfinite(found.loss) || (run->best_step > 0 && found.loss >= run->best_loss))
        return ERROR_NONE;
    const int64_t best_step = run->best_step;
    const double best_loss = run->best_loss;
    run->best_step = run->step;
    run->best_loss = found.loss;
    int code = run->session.deck.checkpoint.keep_best ? try_save_step(run) : ERROR_NONE;
    if (run->session.deck.checkpoint.keep_best && run->saved_step != run->step) {
        run->best_step = best_step; /* the file of the best before is the best there is */
        run->best_loss = best_loss;
    }
    return code;
}

/* Of a run that has nothing left to train: its record stays as it is, whatever data.valid is now. */
static int evaluate(struct run *run)
{
    struct session_validation found;
    if (!session_validate(&run->session, stopping, run, &found))
        return ERROR_REQUEUE;
    meter_evaluation(&run->meter, run->step, found.loss, found.labels, &run->session.deck);
    return ERROR_NONE;
}

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

static bool validation_due(const struct run *run)
{
    const struct deck *deck = &run->session.deck;
    return run->session.valid != NULL && run->step > run->validated_step &&
           (run->step == deck->train.steps || due(run->step, deck->validation.every));
}

/* The run's newest good checkpoint, or that which it began from; NULL: it has none. Freed with free(). */
static int find_last(struct run *run, char **path)
{
    char *aside = NULL;
    *path = NULL;
    int code = run->saved_step < 0
                   ? ERROR_NONE
                   : checkpoint_find_telling(run->session.world, run->session.deck.output.folder, path, &aside);
    if (aside != NULL)
        meter_note(&run->meter, run->step, "set_aside", aside);
    free(aside);
    if (code == ERROR_NONE && *path == NULL && run->resumed != NULL)
        *path = memory_string(run->resumed);
    return code;
}

/* Reads the checkpoint `path` into the engine, and goes on behind the rows of the step `bad`. */
static int rewind_to(struct run *run, const char *path, const struct begun *bad)
{
    struct session *s = &run->session;
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(s->world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    run->rewinds = meta.step == run->rewound_to ? run->rewinds + 1 : 1;
    run->rewound_to = meta.step;
    if (run->rewinds > MOST_REWINDS)
        code = comm_agree(s->world, error_diverged("step %lld: the run has diverged again after %d returns to %s",
                                                   (long long)bad->step, MOST_REWINDS, path));
    if (code == ERROR_NONE)
        code = checkpoint_read(s->world, &s->engine, path, true);
    if (code == ERROR_NONE) {
        take_counts(run, &meta, path);
        run->digest_step = -1;
        loader_seek(s->train, &bad->after, run->step);
    }
    checkpoint_meta_destroy(&meta);
    return code;
}

/* Back to the last checkpoint, past the rows of the steps since then, up to the step `bad`. Steps behind it that are on
 * their way are given up, and their rows come again. Collective. */
static int rewind_run(struct run *run, const struct begun *bad, const char *what)
{
    struct session *s = &run->session;
    const double start = clock_seconds();
    char *path;
    while (s->engine.begun > s->engine.taken)
        engine_take(&s->engine);
    int code = settle(run);
    if (code != ERROR_NONE)
        return code;
    comm_begin_long_work();
    code = find_last(run, &path);
    if (code == ERROR_NONE && path == NULL)
        code = comm_agree(s->world, error_diverged("step %lld: %s: the run has diverged, and has no checkpoint to go "
                                                   "back to yet (checkpoint.every, checkpoint.every_minutes)",
                                                   (long long)bad->step, what));
    if (code == ERROR_NONE)
        code = rewind_to(run, path, bad);
    comm_end_long_work();
    if (code == ERROR_NONE) {
        char *note = memory_format("step %lld: %s: back to step %lld, %s, past the data of steps %lld to %lld",
                                   (long long)bad->step, what, (long long)run->step, path, (long long)run->step + 1,
                                   (long long)bad->step);
        meter_rewind(&run->meter, run->step, validation_due(run), run->norms.outliers);
        meter_note(&run->meter, run->step, "rewind", note);
        meter_add(&run->meter, METER_CHECKPOINT, clock_seconds() - start);
        free(note);
    }
    free(path);
    return code;
}

static int skip(struct run *run, const struct meter_row *row, const char *what)
{
    if (++run->skipped == SKIPS_IN_A_ROW)
        return error_diverged(
            "step %lld: %s: the run has diverged, %d steps in a row; the last checkpoint, if any, stands",
            (long long)row->step, what, SKIPS_IN_A_ROW);
    char *note = memory_format("skipped: %s", what);
    meter_note(&run->meter, row->step, "skipped", note);
    free(note);
    return ERROR_NONE;
}

/* The engine makes no update from what is not finite; what the run makes of it is decided here. */
static int diverged(struct run *run, const struct meter_row *row, const struct begun *begun)
{
    char *what = memory_format("loss %g, gradient norm %g", row->loss, row->grad_norm);
    struct comm *world = run->session.world;
    const int policy = run->session.deck.train.on_divergence;
    int code;
    if (policy == DECK_DIVERGENCE_REWIND)
        code = rewind_run(run, begun, what);
    else if (policy == DECK_DIVERGENCE_SKIP)
        code = comm_agree(world, skip(run, row, what));
    else
        code =
            comm_agree(world, error_diverged("step %lld: %s: the run has diverged; the last checkpoint, if any, stands",
                                             (long long)row->step, what));
    if (code == ERROR_DIVERGED) {
        char *note = memory_format("diverged: %s", what);
        meter_diverged(&run->meter, row, note);
        free(note);
    }
    free(what);
    return code;
}

/* "nan" in messages, whatever its sign. */
static double unsigned_nan(double value)
{
    return isnan(value) ? (double)NAN : value;
}

/* Tells what quantization lost in the step that was taken last. Collective. */
static void tell_statistics(struct run *run, int64_t step)
{
    struct statistics_row *rows;
    const struct session *s = &run->session;
    const int64_t count =
        statistics_take(&run->session.engine, s->groups.stages != NULL ? s->world : s->grid.data, &rows);
    meter_statistics(&run->meter, step, rows, count);
    free(rows);
}

/* Takes the oldest step that is on its way, and tells of it. */
static int take_step(struct run *run)
{
    struct session *s = &run->session;
    const struct begun *begun = &run->begun[s->engine.taken % ENGINE_RETURNS];
    double start = clock_seconds();
    struct engine_result result = engine_take(&s->engine);
    meter_add(&run->meter, METER_STEP, begun->seconds + clock_seconds() - start);
    double loss = result.labels > 0 ? result.loss_sum / result.labels : 0;
    bool finite = isfinite(loss) && isfinite(result.grad_norm);
    run->unpadded += begun->work.real;
    if (finite)
        gradient_norms_add(&run->norms, result.grad_norm);
    const struct meter_row row = {.step = begun->step,
                                  .loss = unsigned_nan(loss),
                                  .learning_rate = begun->rate,
                                  .grad_norm = unsigned_nan(result.grad_norm),
                                  .outliers = run->norms.outliers,
                                  .tokens = begun->tokens,
                                  .unpadded = run->unpadded};
    meter_count(&run->meter, &row, finite ? result.loss_sum : 0, finite ? result.labels : 0, &begun->work);
    if (result.labels == 0 && s->world->rank == 0)
        log_warn("step %lld: no row of the global batch holds a label, so nothing is learned; look at data.train, "
                 "data.mask_degenerate and data.mask_probability",
                 (long long)begun->step);
    if (due(begun->step, s->deck.log.every) || begun->step == 1 || begun->step == s->deck.train.steps)
        meter_step(&run->meter, &row);
    if (begun->measured)
        tell_statistics(run, begun->step);
    if (!finite)
        return diverged(run, &row, begun);
    run->skipped = 0;
    return ERROR_NONE;
}

/* Takes steps until no more than `left` are on their way. */
static int take_steps(struct run *run, int64_t left)
{
    const struct engine *engine = &run->session.engine;
    int code = ERROR_NONE;
    while (code == ERROR_NONE && engine->begun - engine->taken > left)
        code = take_step(run);
    return code;
}

/* Begins a step, and takes the one before, so that a device has work while the host tells of it. */
static int one_step(struct run *run)
{
    struct session *s = &run->session;
    double waited = loader_wait_seconds(s->train);
    const struct batch *batches = loader_next(s->train);
    double start = clock_seconds();
    struct begun *begun = &run->begun[s->engine.begun % ENGINE_RETURNS];
    blend_position_destroy(&begun->after);
    *begun = (struct begun){
        .step = run->step + 1, .rate = learning_rate_at(&s->deck, run->step), .after = loader_position(s->train)};
    s->engine.decoupled_rate = learning_rate_decoupled_at(&s->deck, run->step);
    begun->measured = s->engine.statistics = statistics_due(&s->deck, begun->step);
    for (int64_t m = 0; m < loader_micro_batches(s->train) && group_rank(s->groups.stages) + s->grid.model->rank == 0;
         m++) {
        begun->work.real += batches[m].real;
        begun->work.positions += batches[m].rows * batches[m].row_tokens;
    }
    profiler_before(&run->profiler, s->executor, begun->step);
    engine_begin(&s->engine, &s->schedule, batches, begun->rate);
    profiler_after(&run->profiler, &run->meter, begun->step);
    meter_add(&run->meter, METER_DATA, loader_wait_seconds(s->train) - waited);
    begun->seconds = clock_seconds() - start;
    run->step++;
    begun->tokens = run->tokens += s->deck.train.global_batch * s->deck.data.row_tokens;
    return take_steps(run, s->executor->class->event_passed != NULL ? 1 : 0);
}

/* What is due at the step that the run has come to. */
static int keep_up(struct run *run)
{
    const struct deck *deck = &run->session.deck;
    const int64_t step = run->step;
    const bool ends = step >= deck->train.steps, saves = due(step, deck->checkpoint.every);
    int code = ends || saves || validation_due(run) ? take_steps(run, 0) : ERROR_NONE;
    if (run->step != step) /* a rewind */
        return code;
    if (code == ERROR_NONE && validation_due(run))
        code = validate(run);
    if (code != ERROR_NONE || run->step == 0 || validation_due(run))
        return code;
    if (ends && deck->checkpoint.at_end)
        return save_step(run);
    return saves ? try_begin_step(run) : ERROR_NONE;
}

static int loop(struct run *run)
{
    int code = keep_up(run);
    while (code == ERROR_NONE && (run->step < run->session.deck.train.steps || validation_due(run))) {
        const char *why;
        enum control_wish wish = control_poll(&run->control, &why);
        code = settle_when_ready(run);
        if (code == ERROR_NONE && wish != CONTROL_NONE)
            code = take_steps(run, 0);
        if (code == ERROR_NONE && wish >= CONTROL_STOP)
            return stop(run, wish, why);
        if (code == ERROR_NONE && wish == CONTROL_SAVE && run->step > 0) {
            meter_note(&run->meter, run->step, "save", why);
            code = try_begin_step(run);
        }
        if (code == ERROR_NONE && !validation_due(run))
            code = one_step(run);
        grow_snapshot(run);
        if (code == ERROR_NONE)
            code = keep_up(run);
    }
    return code;
}

/* Is the folder of another state than this one, or not there? */
static bool is_stale(const char *folder, uint64_t digest)
{
    struct safetensors *st;
    bool stale = safetensors_open(&st, folder) != ERROR_NONE || st->digest != digest;
    if (st != NULL)
        safetensors_close(st);
    error_clear();
    return stale;
}

/* The Hugging Face folder of checkpoint.export_final, unless this final model's is there. Could the model not be said
 * in one, the run would not have begun: a failure is the environment's. */
static int export_final(struct run *run, const char *model)
{
    const struct session *s = &run->session;
    char *folder = memory_format("%s/final_model", s->deck.output.folder);
    int code = ERROR_NONE;
    if (s->world->rank == 0 && is_stale(folder, run->digest)) {
        const struct export_settings settings = {
            .checkpoint = model, .folder = folder, .shard_bytes = EXPORT_SHARD_BYTES, .replace = true};
        code = export_run(&settings);
        if (code == ERROR_NONE)
            log_info("# exported to %s", folder);
        else
            code = signals_stopping() ? ERROR_REQUEUE : ERROR_ENVIRONMENT;
    }
    free(folder);
    return comm_agree(s->world, code);
}

static int save_final(struct run *run, const char *path)
{
    update_digest(run);
    int code = begin_save(run, memory_string(path), false, false);
    return code == ERROR_NONE ? end_save(run) : code;
}

/* Writes the final model where the deck wants it, unless that of this very state is there: a run that was extended, or
 * killed at its very end, may have left another. */
static int finish(struct run *run)
{
    struct session *s = &run->session;
    if (!s->deck.checkpoint.at_end)
        return ERROR_NONE;
    char *path = memory_format("%s/final_model.h5", s->deck.output.folder);
    bool there = false;
    if (run->step == run->first_step) {
        update_digest(run);
        there = checkpoint_holds(s->world, path, run->digest);
    }
    int code = there ? ERROR_NONE : save_final(run, path);
    if (code == ERROR_NONE && s->deck.checkpoint.export_final)
        code = export_final(run, path);
    free(path);
    return code;
}

/* -- All of it --------------------------------------------------------------------------------------------------- */

static char *describe_data(const struct session *s)
{
    const struct deck *deck = &s->deck;
    if (deck->data.source == DECK_DATA_STORE)
        return memory_format("%lld windows and %lld tokens an epoch", (long long)loader_windows(s->train),
                             (long long)loader_window_tokens(s->train));
    if (deck->data.random_median == 0)
        return memory_string("random data: sequences that fill their windows");
    return memory_format("random data: lengths of median %lld and mean %lld tokens",
                         (long long)deck->data.random_median, (long long)deck->data.random_mean);
}

static void describe(const struct run *run)
{
    const struct session *s = &run->session;
    const struct model_settings *m = &s->model.settings;
    log_info("# %d ranks of %d threads, %s of %lld parameters, %lld layers, hidden %lld, vocabulary %lld",
             s->world->size, s->threads, family_of(m->family)->name, (long long)model_parameter_count(m),
             (long long)m->layers, (long long)m->hidden, (long long)m->vocabulary);
    char *layout = layout_text(&s->planned, s->world->size);
    log_info("# layout: %s", layout);
    free(layout);
    char *quantized = precision_text(&m->precision, m->layers, s->executor->class->lacks_products == NULL);
    if (precision_quantizes(&m->precision))
        log_info("# quantized: %s", quantized);
    free(quantized);
    char *data = describe_data(s);
    log_info("# %s, %lld rows of %lld tokens a step in %lld micro-batches a rank", data,
             (long long)s->deck.train.global_batch, (long long)s->deck.data.row_tokens,
             (long long)loader_micro_batches(s->train));
    free(data);
    if (s->deck.data.source == DECK_DATA_RANDOM && (s->deck.data.train[0] != '\0' || s->deck.data.valid[0] != '\0'))
        log_info("# data.source = \"random\": the stores of data.train and data.valid are not read");
    log_info("# memory of a rank, MiB:");
    const int shown = s->engine.budget.bytes[BUDGET_HOST] > 0 ? BUDGET_CATEGORIES : BUDGET_HOST;
    for (int c = 0; c < shown; c++)
        log_info("#   %-12s %10.1f", budget_category_name((enum budget_category)c),
                 (double)s->engine.budget.bytes[c] / (1 << 20));
    if (run->beside)
        log_info("#   %-12s %10.1f  of checkpoints, on the host", "snapshot",
                 (double)snapshot_bytes(run->snapshot.engine) / (1 << 20));
}

/* Whether checkpoints are written beside steps: their snapshots need host memory. Collective. */
static void choose_beside(struct run *run)
{
    struct session *s = &run->session;
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (!settings_saves_beside(&s->planned) || run->step >= s->deck.train.steps)
        return;
    const int64_t bytes = snapshot_bytes(&s->engine);
    const int64_t room = fit_snapshot(&s->planned, &s->engine.budget, s->world->size, s->grid.node->size, s->executor);
    run->beside = comm_max_i64(s->world, bytes > room) == 0;
    if (run->beside)
        snapshot_create(&run->snapshot, &s->engine);
    else
        log_info("# checkpoints are written in the step: a snapshot takes %s of a rank's host memory, which has %s",
                 bytes_text(need, (double)bytes), bytes_text(limit, room > 0 ? (double)room : 0));
}

/* The journal has all changes in its line "start". */
static void tell_change(const struct deck_change *change)
{
    if (!change->told)
        return;
    char *text = deck_change_text(change);
    log_info("# changed since the checkpoint: %s", text);
    free(text);
}

static void open_meter(struct run *run, const struct start *start)
{
    const struct session *s = &run->session;
    const struct deck *deck = &s->deck;
    struct meter_settings settings = {.folder = deck->output.folder,
                                      .step = run->step,
                                      .steps_total = deck->train.steps,
                                      .validates = validation_due(run),
                                      .outliers = run->norms.outliers,
                                      .tensorboard = deck->log.tensorboard,
                                      .prometheus = deck->log.prometheus,
                                      .peak = deck->device.peak * 1e12 * s->world->size,
                                      .parameters = model_parameter_count(&s->model.settings),
                                      .row_tokens = deck->data.row_tokens,
                                      .planned = budget_total(&s->engine.budget),
                                      .part = group_rank(s->groups.stages),
                                      .threads = s->threads,
                                      .executor = s->executor,
                                      .resumed = start->resumed != NULL,
                                      .load_seconds = run->load_seconds,
                                      .load_bytes = run->load_bytes,
                                      .changed = run->changed};
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        settings.flops_per_token[c] =
            flops_per_token(&s->model.settings, flops_segment(deck), (enum flops_convention)c);
    meter_open(&run->meter, s->world, &settings);
    if (start->resumed != NULL)
        meter_add(&run->meter, METER_LOAD, run->load_seconds);
    if (start->aside != NULL)
        meter_note(&run->meter, run->step, "set_aside", start->aside);
    for (int i = 0; i < run->changed.count; i++)
        tell_change(&run->changed.changes[i]);
    if (run->blended != NULL && run->step < deck->train.steps)
        meter_note(&run->meter, run->step, "blended", run->blended);
    if (run->stretched != NULL && run->step < deck->train.steps)
        meter_note(&run->meter, run->step, "stretched", run->stretched);
}

/* The program's last words in the log. */
static void close_meter(struct run *run, int code)
{
    char *done = memory_format("%lld steps", (long long)run->step);
    if (run->step > run->first_step)
        meter_summary(&run->meter);
    meter_end(&run->meter, code,
              code == ERROR_NONE                              ? done
              : code == ERROR_REQUEUE && run->stopped != NULL ? run->stopped
              : code == ERROR_REQUEUE                         ? "a signal asks to stop"
                                                              : error_told());
    meter_close(&run->meter);
    free(done);
}

/* A run that could not be exported at its end is refused at its start. */
static int check_export(const struct deck *deck, const struct model_settings *settings)
{
    if (!deck->checkpoint.at_end)
        return error_user("key checkpoint.export_final = true: needs a final model; set checkpoint.at_end = true");
    int code = config_check(settings, DIALECT_HF);
    if (code == ERROR_NONE)
        return code;
    char *what = memory_format("key checkpoint.export_final = true: not for this model: %s", error_message());
    error_clear();
    code = error_restate(code, what);
    free(what);
    return code;
}

static int train_with(struct run *run, const struct deck *deck, struct comm *world, const struct start *start,
                      device_make *make_executor)
{
    struct session *s = &run->session;
    double walltime;
    int code = session_create(s, deck, world, start->resumed, make_executor);
    run->deck_text = deck_print_effective(&s->deck);
    if (code == ERROR_NONE && deck->checkpoint.export_final)
        code = comm_agree(world, check_export(deck, &s->model.settings));
    if (code == ERROR_NONE)
        code = comm_agree(world, world->rank == 0 ? loader_open_tokenizer(s->train, &run->tokenizer) : ERROR_NONE);
    if (code == ERROR_NONE)
        code = start_weights(run, start);
    if (code == ERROR_NONE && run->step < deck->train.steps)
        code = room_check(world, deck, &s->model.settings);
    if (code == ERROR_NONE)
        code = comm_agree(world, control_parse_walltime(deck->train.walltime, &walltime));
    const bool trained = code == ERROR_NONE && run->step >= deck->train.steps && !validation_due(run);
    if (code == ERROR_NONE && !(trained && run->saved_step == run->step))
        code = start_write_deck(world, deck->output.folder, run->deck_text);
    if (code != ERROR_NONE)
        return code;
    if (run->step < deck->train.steps)
        tuning_complete(world, deck, &s->engine, s->train);
    choose_beside(run);
    open_meter(run, start);
    describe(run);
    if (run->step == deck->train.steps)
        log_info("# the run is finished: step %lld of %lld", (long long)run->step, (long long)deck->train.steps);
    if (run->step > deck->train.steps)
        log_info("# nothing is left to do: the run has done %lld steps, and train.steps asks for %lld",
                 (long long)run->step, (long long)deck->train.steps);
    profiler_create(&run->profiler, deck, world->rank);
    control_open(&run->control, world, deck->output.folder, walltime, 60 * deck->checkpoint.every_minutes);
    comm_end_long_work();
    code = loop(run);
    if (code == ERROR_NONE && trained && s->valid != NULL)
        code = evaluate(run);
    comm_begin_long_work();
    const int late = settle(run);
    code = code == ERROR_NONE ? late : code;
    if (code == ERROR_NONE)
        code = finish(run);
    control_close(&run->control);
    snapshot_destroy(&run->snapshot);
    close_meter(run, code);
    return code;
}

/* Finds what the run starts from, and completes the deck from it where it names an origin or chooses by itself. */
static int find_start(struct comm *world, struct deck *deck, struct start *start)
{
    int code = start_find(world, deck, &start->resumed, &start->aside);
    const bool completes = deck->model.initialise_from[0] != '\0';
    if (code == ERROR_NONE && completes)
        code = start->resumed != NULL ? origin_inherit(world, deck, start->resumed)
                                      : origin_take(world, deck, &start->origin);
    if (code == ERROR_NONE && start->resumed != NULL && fit_chooses(deck))
        code = start_inherit_fit(world, deck, start->resumed);
    return code;
}

/* Of a run to begin: a checkpoint may prove to be damaged when it is read. */
struct attempt {
    bool again;  /* it is set aside: with the one before */
    char *aside; /* which were set aside so far; rank 0, owned */
};

/* Two texts, both consumed, either of which may be NULL, on lines of their own. */
static char *join_lines(char *first, char *second)
{
    if (first == NULL || second == NULL)
        return first != NULL ? first : second;
    char *both = memory_format("%s\n  %s", first, second);
    free(first);
    free(second);
    return both;
}

/* Where the damaged file was the program's choice it is set aside, else that is the user's to mend. Collective. */
static int leave_damaged(struct comm *world, const struct deck *deck, const char *path, struct attempt *attempt)
{
    attempt->again = strcmp(path, deck->train.resume) != 0;
    if (!attempt->again)
        return comm_agree(world, error_restate(ERROR_USER, error_message()));
    attempt->aside = join_lines(attempt->aside, checkpoint_set_aside(world, path));
    return ERROR_NONE;
}

static int try_run(struct comm *world, const struct deck *given, struct attempt *attempt, device_make *make_executor)
{
    struct deck deck = *given; /* which the checkpoint may complete */
    struct start start = {NULL, NULL, NULL};
    attempt->again = false;
    int code = find_start(world, &deck, &start);
    start.aside = join_lines(attempt->aside, start.aside);
    attempt->aside = NULL;
    if (code == ERROR_NONE) {
        struct run *run = memory_allocate(sizeof *run);
        code = train_with(run, &deck, world, &start, make_executor);
        session_destroy(&run->session);
        for (int i = 0; i < ENGINE_RETURNS; i++)
            blend_position_destroy(&run->begun[i].after);
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
            code = leave_damaged(world, &deck, start.resumed, attempt);
        }
        memory_free(run);
    }
    free(start.resumed);
    free(start.origin);
    free(start.aside);
    return code;
}

int run_train(struct comm *world, const char *deck_path, const char *from, char *const overrides[], int override_count,
              device_make *make_executor)
{
    struct deck deck;
    comm_begin_long_work(); /* all but the loop */
    int code = start_read_deck(world, &deck, deck_path, from, overrides, override_count);
    if (code == ERROR_NONE) {
        comm_set_timeout(deck.comm.timeout);
        code = comm_agree(world, settings_check(&deck, world->size));
    }
    if (code == ERROR_NONE)
        code = start_make_folder(world, &deck);
    struct lock lock = {0};
    if (code == ERROR_NONE)
        code = lock_acquire(&lock, world, deck.output.folder);
    if (code == ERROR_NONE)
        start_clean_folder(world, &deck);
    struct attempt attempt = {.again = true};
    while (code == ERROR_NONE && attempt.again)
        code = try_run(world, &deck, &attempt, make_executor);
    free(attempt.aside);
    lock_release(&lock);
    comm_end_long_work();
    if (code == ERROR_REQUEUE)
        log_info("# exit code %d: the run stopped because it was asked to, and the same command goes on with it%s",
                 code, launcher_reports_codes() ? " (what mpirun says of a non-zero exit code means this)" : "");
    return code;
}
