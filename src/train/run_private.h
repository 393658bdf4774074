/* Shared by the files of train/run_*.c: one training, from the first step of this program to its end. */
#ifndef TRAIN_RUN_PRIVATE_H
#define TRAIN_RUN_PRIVATE_H

#include "checkpoint/carried.h"
#include "checkpoint/checkpoint.h"
#include "state/gradient_norms.h"
#include "state/snapshot.h"
#include "train/control.h"
#include "monitor/meter.h"
#include "train/profiler.h"
#include "train/session.h"

struct train_run {
    struct deck *deck; /* as given, completed by the checkpoint, with what was chosen by memory; borrowed */
    struct session session;
    struct run_meter meter;
    struct run_control control;
    struct profiler profiler;
    struct carried_files carried;      /* what every checkpoint holds besides the model; rank 0 */
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
        double pause;                /* seconds since the step before was counted; 0 where that was in flight */
        double data_wait;            /* seconds */
        bool measured;               /* what quantization loses */
        struct blend_position after; /* of the data, behind its rows; owned */
    } begun[ENGINE_RETURNS];
    int64_t first_step;   /* where this program began */
    int64_t unsaved_step; /* whose checkpoint could not be written, and none since; 0 = none */
    int64_t saved_step;   /* that has a checkpoint in the output folder; -1 = none */
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
        bool beside;   /* the steps, by a thread */
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

/* What the host counts, as it was when the checkpoint `path` was written. Collective. */
void run_take_counts(struct train_run *run, const struct checkpoint_meta *meta, const char *path);

/* -- run_loop.c; collective, with agreed codes ------------------------------------------------------------------- */

/* The steps that are left, and what is due between them. */
int run_loop(struct train_run *run);
/* Of a run that has nothing left to train: its record stays as it is, whatever data.valid is now. */
int run_evaluate(struct train_run *run);
/* Is the validation of this step due? Local. */
bool run_validation_due(const struct train_run *run);

/* -- run_rewind.c ------------------------------------------------------------------------------------------------ */

/* The engine makes no update from what is not finite; what the run makes of it is decided here. Collective; an agreed
 * code. */
int run_diverged(struct train_run *run, const struct meter_row *row, const struct begun *begun);

/* -- run_save.c; collective, with agreed codes ------------------------------------------------------------------- */

/* Writes this step's checkpoint, unless there is one. */
int run_save_step(struct train_run *run);
/* The same where the run could do without (checkpoint.on_failure). */
int run_try_save_step(struct train_run *run);
/* The same beside the steps that follow, where that can be. */
int run_try_begin_step(struct train_run *run);
/* Ends the save of an earlier step, if one is under way. */
int run_settle(struct train_run *run);
/* Settles it once no rank has to wait. */
int run_settle_when_ready(struct train_run *run);
/* Logs what is left of a run that ends since a checkpoint could not be written, and how to resume it. */
void run_tell_unsaved(const struct train_run *run);
/* Memory for snapshots is taken little by little, for at most a hundredth of the time, before the first needs it.
 * Local. */
void run_grow_snapshot(struct train_run *run);
/* Writes the final model where the deck wants it, unless that of this very state is there: a run that was extended, or
 * killed at its very end, may have left another. */
int run_finish(struct train_run *run);

#endif
