/* Handles a run that diverges: it ends, skips the step, or rewinds. */
#include "train/run_private.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "monitor/meter.h"
#include "train/session.h"

#include <stdlib.h>

enum {
    SKIPS_IN_A_ROW = 10, /* consecutive diverged steps at which a run that skips them ends */
    MOST_REWINDS = 5     /* to one checkpoint; the next divergence ends the run */
};

/* Finds the run's newest good checkpoint, else the one that it resumed from; NULL: none. Freed with free(). */
static int find_last(struct train_run *run, char **path)
{
    char *aside = NULL;
    *path = NULL;
    int code = run->saved_step < 0
                   ? ERROR_NONE
                   : checkpoint_find_reporting(run->session.world, run->session.setup.folder, path, &aside);
    if (aside != NULL)
        meter_note(&run->meter, run->step, "set_aside", aside);
    free(aside);
    if (code == ERROR_NONE && *path == NULL && run->resumed != NULL)
        *path = memory_string(run->resumed);
    return code;
}

/* Reads the checkpoint `path` into the engine, and continues with the rows after those of step `bad`. */
static int rewind_to(struct train_run *run, const char *path, const struct launched_step *bad)
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
        run_take_counts(run, &meta, path);
        run->digest_step = -1;
        loader_seek(s->train, &bad->after, run->step);
    }
    checkpoint_meta_destroy(&meta);
    return code;
}

/* Rewinds to the last checkpoint, and continues with the data after the rows of step `bad`. Later steps in flight are
 * discarded, and their rows are used again. Collective. */
static int rewind_run(struct train_run *run, const struct launched_step *bad, const char *what)
{
    struct session *s = &run->session;
    char *path;
    while (s->engine.launched > s->engine.returned)
        engine_take(&s->engine);
    int code = run_finish_save(run);
    if (code != ERROR_NONE)
        return code;
    const double start = clock_seconds(); /* run_finish_save has counted its own time */
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
        meter_add(&run->meter, METER_CHECKPOINT, clock_seconds() - start);
        meter_rewind(&run->meter, run->step, run_validation_due(run), run->norms.outliers);
        meter_note(&run->meter, run->step, "rewind", note);
        free(note);
    }
    free(path);
    return code;
}

static int skip(struct train_run *run, const struct meter_row *row, const char *what)
{
    if (++run->skipped == SKIPS_IN_A_ROW)
        return error_diverged(
            "step %lld: %s: the run has diverged, %d steps in a row; the last checkpoint, if any, is kept",
            (long long)row->step, what, SKIPS_IN_A_ROW);
    char *note = memory_format("skipped: %s", what);
    meter_note(&run->meter, row->step, "skipped", note);
    free(note);
    return ERROR_NONE;
}

int run_diverged(struct train_run *run, const struct meter_row *row, const struct launched_step *launched)
{
    char *what = memory_format("loss %g, gradient norm %g", row->loss, row->grad_norm);
    struct comm *world = run->session.world;
    const int policy = run->session.setup.on_divergence;
    int code;
    if (policy == DECK_DIVERGENCE_REWIND)
        code = rewind_run(run, launched, what);
    else if (policy == DECK_DIVERGENCE_SKIP)
        code = comm_agree(world, skip(run, row, what));
    else
        code = comm_agree(world,
                          error_diverged("step %lld: %s: the run has diverged; the last checkpoint, if any, is kept",
                                         (long long)row->step, what));
    if (code == ERROR_DIVERGED) {
        char *note = memory_format("diverged: %s", what);
        meter_diverged(&run->meter, row, note);
        free(note);
    }
    free(what);
    return code;
}
