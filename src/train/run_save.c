/* The checkpoints of a run, and its final model. */
#include "train/run_private.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "file/run_folder.h"
#include "bridge/export.h"
#include "bridge/safetensors.h"
#include "state/snapshot.h"
#include "train/control.h"
#include "monitor/meter.h"
#include "estimate/disk_space.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

/* Computes the digest of the current step if it is unknown: at most once per step, because all weights and moments pass
 * through the host. Collective. */
static void update_digest(struct train_run *run)
{
    if (run->digest_step != run->step)
        run->digest = checkpoint_digest(run->session.world, &run->session.engine);
    run->digest_step = run->step;
}

/* Fills the metadata of this step's checkpoint. The saving owns the position and the tuned kernels. */
static void fill_meta(struct train_run *run, struct saving *saving)
{
    struct session *s = &run->session;
    saving->meta = (struct checkpoint_meta){.deck_text = run->deck_text,
                                            .version = PACKAGE_VERSION,
                                            .step = run->step,
                                            .tokens = run->tokens,
                                            .unpadded = comm_sum_i64(s->world, run->unpadded),
                                            .norms = run->norms,
                                            .seed = (int64_t)s->setup.train.seed,
                                            .position = loader_position(s->train),
                                            .store = loader_checksum(s->train),
                                            .provenance = *loader_provenance(s->train),
                                            .digest = run->digest_step == run->step ? run->digest : 0,
                                            .vocabulary = s->model.settings.vocabulary,
                                            .validation_step = run->validated_step,
                                            .best_step = run->best_step,
                                            .best_loss = run->best_loss,
                                            .carried = &run->carried,
                                            .opened = run->tokenizer};
    snprintf(saving->meta.tokenizer, sizeof saving->meta.tokenizer, "%s", loader_tokenizer(s->train)->name);
    if (saving->of_step && s->executor->tuning != NULL) { /* so that a resumed run uses the same kernels */
        const void *tuned_kernels = s->executor->tuning->table(s->executor->owner, &saving->meta.tuned_kernels_bytes);
        saving->tuned_kernels = memory_allocate(saving->meta.tuned_kernels_bytes);
        memcpy(saving->tuned_kernels, tuned_kernels, (size_t)saving->meta.tuned_kernels_bytes);
        saving->meta.tuned_kernels = saving->tuned_kernels;
    }
}

static void destroy_saving(struct saving *saving)
{
    blend_position_destroy(&saving->meta.position);
    memory_free(saving->tuned_kernels);
    free(saving->path);
    *saving = (struct saving){0};
}

/* Begins a checkpoint at `path`, which the saving then owns. background: it is written in the background. */
static int begin_save(struct train_run *run, char *path, bool of_step, bool background)
{
    struct session *s = &run->session;
    struct saving *saving = &run->saving;
    const double start = clock_seconds();
    *saving = (struct saving){.path = path, .step = run->step, .of_step = of_step, .background = background};
    comm_begin_long_work();
    fill_meta(run, saving);
    int code = checkpoint_begin(&saving->save, s->world, &s->engine, &saving->meta, path, of_step,
                                background ? &run->snapshot : NULL);
    comm_end_long_work();
    saving->waited = clock_seconds() - start;
    meter_add(&run->meter, METER_CHECKPOINT, saving->waited);
    if (code == ERROR_NONE)
        control_saved(&run->control, saving->waited);
    else
        destroy_saving(saving);
    return code;
}

static void log_save(struct train_run *run, const struct checkpoint_written *written, double ending)
{
    const struct saving *saving = &run->saving;
    const struct meter_save save = {saving->path, written->digest, written->bytes, written->seconds,
                                    saving->waited + ending};
    meter_add_wait(&run->meter, METER_CHECKPOINT, ending);
    if (saving->background)
        meter_add(&run->meter, METER_WRITE, written->seconds);
    meter_checkpoint(&run->meter, saving->step, &save);
}

static int prune(struct train_run *run)
{
    const struct setup *setup = &run->session.setup;
    const double start = clock_seconds();
    const struct checkpoint_rule rule = {
        .keep = setup->saving.keep,
        .keep_every = setup->saving.keep_every,
        /* at the time of this save: a later validation may have found a better step, whose file is not written yet */
        .best_step = setup->saving.keep_best ? run->saving.meta.best_step : 0};
    const int code = checkpoint_prune(run->session.world, setup->folder, &rule);
    meter_add_wait(&run->meter, METER_CHECKPOINT, clock_seconds() - start);
    return code;
}

/* Finishes the save in flight, and removes checkpoints that the rule no longer keeps. */
static int end_save(struct train_run *run)
{
    struct saving *saving = &run->saving;
    struct checkpoint_written written;
    const double start = clock_seconds();
    comm_begin_long_work();
    int code = checkpoint_end(saving->save, &written);
    comm_end_long_work();
    const bool whole = code == ERROR_NONE;
    if (whole)
        log_save(run, &written, clock_seconds() - start);
    if (whole && saving->of_step) {
        run->digest = written.digest;
        run->digest_step = run->saved_step = saving->step;
        code = prune(run);
    }
    if (saving->of_step)
        run->unsaved_step = whole ? 0 : saving->step;
    if (whole)
        control_written(&run->control, written.seconds + clock_seconds() - start);
    destroy_saving(saving);
    return code;
}

/* Turns a failed checkpoint of a step into a note if the deck tolerates it. */
static int tolerate(struct train_run *run, int64_t step, int code)
{
    if (code != ERROR_ENVIRONMENT || !run->session.setup.saving.tolerated)
        return code;
    meter_note(&run->meter, step, "save_failed",
               "a checkpoint could not be written, or an old one not removed; the run continues (checkpoint.on_failure "
               "= \"continue\")");
    return ERROR_NONE;
}

int run_finish_save(struct train_run *run)
{
    const int64_t step = run->saving.step;
    return run->saving.save != NULL ? tolerate(run, step, end_save(run)) : ERROR_NONE;
}

int run_finish_save_when_ready(struct train_run *run)
{
    if (run->saving.save == NULL)
        return ERROR_NONE;
    const double before = run->snapshot.exchange_seconds;
    const bool ready = checkpoint_ready(run->saving.save);
    const double spent = run->snapshot.exchange_seconds - before;
    run->saving.waited += spent;
    meter_add_wait(&run->meter, METER_CHECKPOINT, spent);
    return ready ? run_finish_save(run) : ERROR_NONE;
}

/* Begins this step's checkpoint, unless there is one or it is in flight. */
static int begin_step(struct train_run *run, bool background)
{
    if (run->saved_step == run->step || (run->saving.save != NULL && run->saving.step == run->step))
        return ERROR_NONE;
    int code = run_finish_save(run);
    if (code == ERROR_NONE) /* a state trained on overwritten data is not saved */
        code = loader_recheck(run->session.train, run->session.world);
    if (code == ERROR_NONE)
        code = begin_save(run, checkpoint_path(run->session.setup.folder, run->step), true, background);
    if (code == ERROR_ENVIRONMENT && run->saving.save == NULL && run->unsaved_step == 0)
        run->unsaved_step = run->step;
    return code;
}

int run_save_step(struct train_run *run)
{
    int code = begin_step(run, false);
    return code == ERROR_NONE && run->saving.save != NULL ? end_save(run) : code;
}

int run_try_save_step(struct train_run *run)
{
    return tolerate(run, run->step, run_save_step(run));
}

int run_try_begin_step(struct train_run *run)
{
    return run->background ? tolerate(run, run->step, begin_step(run, true)) : run_try_save_step(run);
}

void run_log_unsaved(const struct train_run *run)
{
    const struct setup *setup = &run->session.setup;
    char size[BYTES_TEXT], *newest = NULL;
    if (run->session.world->rank != 0 || run->unsaved_step == 0)
        return;
    bytes_text(size, (double)disk_space_of(setup).checkpoint);
    if (checkpoint_newest(setup->folder, &newest) != ERROR_NONE)
        error_clear();
    log_info("# step %lld is not saved. With %s free in %s (a checkpoint is written before an older one is removed), "
             "the same command %s%s",
             (long long)run->unsaved_step, size, setup->folder,
             newest != NULL ? "resumes from " : "starts from the beginning: there is no checkpoint yet",
             newest != NULL ? newest : "");
    free(newest);
}

void run_grow_snapshot(struct train_run *run)
{
    enum { HOPED = 4 /* assumed buffers per second, before the first was measured */ };
    const double start = clock_seconds(),
                 buffer = run->snapshot.grown > 0 ? run->grown / run->snapshot.grown : 1.0 / HOPED;
    if (run->background && run->grown + buffer < (start - run->meter.started) / 100 && snapshot_grow(&run->snapshot))
        run->grown += clock_seconds() - start;
}

/* Returns whether the folder is missing or has another state than `digest`. */
static bool is_stale(const char *folder, uint64_t digest)
{
    struct safetensors *st;
    bool stale = safetensors_open(&st, folder) != ERROR_NONE || st->digest != digest;
    if (st != NULL)
        safetensors_close(st);
    error_clear();
    return stale;
}

/* Writes the Hugging Face folder of checkpoint.export_final, unless it already has this final model. check_export has
 * refused models that cannot be exported, so a failure is ERROR_ENVIRONMENT. */
static int export_final(struct train_run *run, const char *model)
{
    const struct session *s = &run->session;
    char *folder = memory_format("%s/" RUN_EXPORT, s->setup.folder);
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

static int save_final(struct train_run *run, const char *path)
{
    update_digest(run);
    int code = begin_save(run, memory_string(path), false, false);
    return code == ERROR_NONE ? end_save(run) : code;
}

int run_finish(struct train_run *run)
{
    struct session *s = &run->session;
    /* train.steps is below the steps that this run has done: it was only evaluated */
    if (!s->setup.saving.at_end || (run->step > s->setup.steps && run->saved_step == run->step))
        return ERROR_NONE;
    char *path = memory_format("%s/" RUN_FINAL_MODEL, s->setup.folder);
    bool there = false;
    if (run->step == run->first_step) {
        update_digest(run);
        there = checkpoint_matches(s->world, path, run->digest);
    }
    int code = there ? ERROR_NONE : save_final(run, path);
    if (code == ERROR_NONE && s->setup.saving.export_final)
        code = export_final(run, path);
    free(path);
    return code;
}
