/* State and functions that the files train/run_*.c share: one training, from the first step of this program to its
 * end. */
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
    struct deck *deck; /* as given, with the checkpoint's values and fitted choices; borrowed */
    struct session session;
    struct run_meter meter;
    struct run_control control;
    struct profiler profiler;
    struct carried_files carried;      /* carried tensors that every checkpoint has besides the model; rank 0 */
    const struct tokenizer *tokenizer; /* open tokenizer of the stores; rank 0 */
    char *deck_text;
    int64_t step, tokens; /* of the run, including steps in flight */
    int64_t unpadded;     /* tokens without padding on this rank, of finished steps; the ranks' sum is the run's */
    struct launched_step {
        int64_t step, tokens; /* number of the step, and the run's tokens including it */
        struct meter_work work;
        double rate;                 /* learning rate */
        double seconds;              /* host time spent launching the step */
        double pause;                /* seconds from the previous step's end to this launch; 0 if it was in flight */
        double data_wait;            /* seconds spent waiting for the loader */
        bool measured;               /* quantization errors are measured */
        struct blend_position after; /* position in the data after the step's rows; owned */
    } launched[ENGINE_RETURNS];
    int64_t first_step;   /* step at which this program began */
    int64_t unsaved_step; /* step whose checkpoint failed, and no later one succeeded; 0 = none */
    int64_t saved_step;   /* last step that has a checkpoint in the output folder; -1 = none */
    struct snapshot snapshot;
    bool damaged;    /* the checkpoint to resume from is damaged; its error is recorded, not printed */
    bool background; /* checkpoints may be written in the background */
    double grown;    /* seconds spent allocating the snapshot's memory */
    struct saving {
        struct checkpoint_save *save; /* NULL: no save is in flight */
        struct checkpoint_meta meta;  /* owns its position and tuned kernels */
        void *tuned_kernels;
        char *path;
        int64_t step;
        double waited;   /* seconds that the run has waited for the save */
        bool of_step;    /* a checkpoint of a step, with moments; false: the final model */
        bool background; /* written by a thread in the background */
    } saving;
    int64_t rechecked_step;      /* last step after which a recheck found no difference; -1 = none */
    int64_t validated_step;      /* step of the last validation; 0 = none */
    int64_t best_step;           /* step of the best validation; 0 = none */
    double best_loss;            /* its loss, or minus its metric (validation.metric) */
    uint64_t digest;             /* digest of the state after step digest_step */
    int64_t digest_step;         /* -1 = no digest has been computed */
    struct gradient_norms norms; /* of steps that made an update */
    int64_t skipped;             /* consecutive diverged steps */
    const char *resumed;         /* checkpoint resumed from, borrowed; NULL: none */
    int64_t rewound_to, rewinds; /* step of the last rewind, and number of consecutive rewinds to it */
    double load_seconds;         /* seconds spent reading the checkpoint to resume from */
    int64_t load_bytes;          /* bytes of that checkpoint's file */
    struct deck_changes changed; /* keys changed since the checkpoint to resume from */
    char *blended;               /* how the stores changed; NULL: not at all */
    char *stretched;             /* how a changed train.steps changes the learning rate; NULL: not at all */
    char *stopped;               /* why the run ends early; NULL: it does not */
};

/* Sets the host's counters to those of the checkpoint `path`. Collective. */
void run_take_counts(struct train_run *run, const struct checkpoint_meta *meta, const char *path);

/* -- run_loop.c; collective, with agreed codes ------------------------------------------------------------------- */

/* Runs the remaining steps, with the validations and checkpoints between them. */
int run_loop(struct train_run *run);
/* Validates a run that has no steps left to train. The run's best validation stays, whatever data.valid is now. */
int run_evaluate(struct train_run *run);
/* Early stopping: if the last validations were no better than the best one for as long as validation.patience, makes
 * this step the run's last one, and returns a sentence for users, freed with free(). NULL: the run continues. Local. */
char *run_stop_early(struct train_run *run);
/* Returns whether the validation of this step is due. Local. */
bool run_validation_due(const struct train_run *run);

/* -- run_rewind.c ------------------------------------------------------------------------------------------------ */

/* Handles a step with a non-finite loss or gradient norm, in which the engine made no update: ends the run, skips the
 * step or rewinds, as the deck says. Collective; an agreed code. */
int run_diverged(struct train_run *run, const struct meter_row *row, const struct launched_step *launched);

/* -- run_recheck.c ----------------------------------------------------------------------------------------------- */

/* Compares what ranks compute and keep (train.recheck_every), with no step in flight. ERROR_ENVIRONMENT: they differ;
 * the message names the ranks. Collective; an agreed code. */
int run_recheck(struct train_run *run);

/* -- run_save.c; collective, with agreed codes ------------------------------------------------------------------- */

/* Writes this step's checkpoint, unless there is one. */
int run_save_step(struct train_run *run);
/* As run_save_step, but a failure is tolerated when checkpoint.on_failure = "continue". */
int run_try_save_step(struct train_run *run);
/* As run_try_save_step, but writes the checkpoint in the background where that is possible. */
int run_try_begin_step(struct train_run *run);
/* Finishes the save of an earlier step, if one is in flight. */
int run_finish_save(struct train_run *run);
/* As run_finish_save, but only if no rank would have to wait. */
int run_finish_save_when_ready(struct train_run *run);
/* For a run that ends because a checkpoint could not be written: logs which step is not saved, and how to resume. */
void run_log_unsaved(const struct train_run *run);
/* Allocates another piece of the snapshot's memory before the first snapshot needs it, in at most 1 % of the run time.
 * Local. */
void run_grow_snapshot(struct train_run *run);
/* Writes the final model if the deck requests it, unless the file already has exactly this state. A run that was
 * extended, or killed at its very end, may have left another final model. */
int run_finish(struct train_run *run);

#endif
