/* Key header: a setup is everything that one run needs to know, compiled from a deck for a number of ranks. Training,
 * `cistron plan` and inference make their engines from a setup. Deck keys are read only in src/setup, src/deck and the
 * files that tests/t_deck_readers.sh lists (families name keys by place).
 *
 * A setup is made in two steps, because the second needs the executor and the data, which the first configures:
 *
 *    setup_create     from deck and ranks: device, data, run, and the layout unless the deck leaves it open
 *    setup_complete   from the data's vocabulary and the executor: model and engine
 *
 * Some keys leave a choice to the program: parallel.shard = "auto", parallel.context = 0, memory.recompute = "fit",
 * memory.head_tokens = 0. The code that chooses (estimate/layout_choice.h, estimate/fit_choice.h) writes the choice
 * into setup->deck and calls setup_update, which derives the dependent fields again. */
#ifndef SETUP_SETUP_H
#define SETUP_SETUP_H

#include "comm/grid.h"
#include "core/device.h"
#include "deck/deck.h"
#include "engine/engine.h"
#include "loader/loader.h"

/* Settings of train/learning_rate.h. unit, warmup, hold and decay are in steps or rows (schedule.unit); unit is one
 * update. */
struct learning_rate_settings {
    enum deck_schedule kind;
    enum deck_rule rule;
    int64_t steps; /* steps of the run */
    double unit, warmup, hold, decay;
    bool to_last_step; /* schedule.decay = 0: the decay ends with the run */
    struct learning_rate_peak {
        double peak, min_ratio;
    } own, decoupled;
};

/* Steps `start` to `stop` of a run. start = 0: no step; stop = 0: no end. */
struct step_range {
    int64_t start, stop;
};

struct profile_settings {
    struct step_range steps;
    const char *ranks; /* a list for profile_lists (setup/profile_ranks.h) */
    bool collectives;
};

struct statistics_settings {
    int64_t every; /* steps; 0: never */
    struct step_range steps;
};

/* When checkpoints are written, and which are kept. */
struct saving_settings {
    int64_t every;  /* steps; 0: never */
    double seconds; /* seconds between two checkpoints; 0: never */
    int64_t keep, keep_every;
    int64_t stripes; /* of files on Lustre (file/striping.h); 0: not set */
    bool keep_best, at_end, export_final;
    bool overlapped; /* checkpoints are written while the next steps run, if memory allows */
    bool tolerated;  /* a checkpoint that cannot be written does not end the run */
};

struct setup {
    struct deck *deck; /* a copy that includes all choices; owned. The strings below belong to it */
    int64_t ranks;

    /* -- Device -- */
    struct device_request device; /* without communicators and number of threads */
    int64_t threads;              /* CPU threads of a rank; 0: its share of the node's */
    double memory;                /* bytes that a rank may use; 0: the free memory */
    double peak;                  /* FLOP/s of a rank's device; 0: unknown */
    int check;                    /* enum deck_check: the check of devices before the run */
    const char *tuning_file, *rates_file;

    /* -- Data -- */
    struct loader_settings train, valid;             /* the caller sets the field `memory` of both */
    bool random, validates;                          /* random: generated data; validates: `valid` names stores */
    const char *train_stores, *valid_stores, *parts; /* values of the keys, used or not */

    /* -- Run -- */
    int64_t steps;
    const char *resume; /* train.resume */
    const char *folder, *prometheus;
    bool tensorboard;
    int64_t log_every, recheck_every, validation_every, validation_rows;
    enum deck_metric validation_metric; /* decides which validation is the best */
    int64_t patience;                   /* validations without a better one that end the run; 0: any number */
    const char *walltime;               /* text for walltime_parse (setup/walltime.h) */
    enum deck_divergence on_divergence;
    bool initialise_optimizer;
    struct learning_rate_settings learning_rate;
    struct profile_settings profile;
    struct statistics_settings statistics;
    struct saving_settings saving;

    /* -- Layout; unset while the deck leaves it open -- */
    bool open;
    struct grid_shape shape; /* while open: a grid in which every rank has rows of its own */
    int64_t sharing;         /* number of ranks that share rows: tensor x context x pipeline */
    int64_t tokens;          /* tokens of a rank's micro-batch */
    int64_t micro_batches;   /* of a rank in a step */

    /* -- Model and engine; unset before setup_complete -- */
    bool complete;
    bool fits_recompute, fits_head; /* the program chooses the recompute policies, or the head's slice size */
    const char *fitted_layers, *fitted_offload; /* with fits_recompute; as the keys of section `memory` */
    int64_t head_tokens;                        /* tokens of a slice of the head */
    struct model_settings model;                /* settings of rank 0 */
    struct engine_settings engine;              /* without slots, which differ by stage, and without the tensor ranks */
};

/* Makes a setup, which the caller destroys also after an error. Local. ERROR_USER: keys do not fit each other or the
 * number of ranks. */
int setup_create(struct setup *setup, const struct deck *deck, int64_t ranks);

/* Derives model and engine. vocabulary: of the data, used if the deck does not set it. Local. ERROR_USER: unknown or
 * impossible model, or the executor cannot compute it; the message names the key. */
int setup_complete(struct setup *setup, int64_t vocabulary, const struct executor *executor);

/* Derives layout, model and engine again. Call it after changing keys of the sections parallel, memory or precision, or
 * train.micro_batch, in setup->deck to values that settings_check_sizes accepts. */
void setup_update(struct setup *setup);

/* Returns the learning rate settings of a deck. */
struct learning_rate_settings setup_learning_rate(const struct deck *deck);

/* Sends rank 0's choices (the sections parallel and memory) to all ranks, and updates the setup. Collective. */
void setup_share(struct setup *setup, struct comm *world);

/* Makes a setup for inference from a checkpoint's deck: model, head_tokens, `train` (how the training data was
 * prepared), and an engine of one row and one micro-batch. The caller sets the engine's memory and sharding and the
 * model's tensor parallelism. Local. Errors as setup_complete. */
int setup_create_inference(struct setup *setup, const struct deck *deck, int64_t vocabulary);

/* Makes a copy of a setup, for trying other keys. setup_destroy frees a setup. */
void setup_copy(struct setup *copy, const struct setup *setup);
void setup_destroy(struct setup *setup);

/* Writes the choices of memory.recompute = "fit" and memory.head_tokens = 0 into a deck, so that a run's deck.cfg and
 * checkpoints keep them. A chosen layout is not written: another number of ranks may need another one. */
void setup_keep_choices(const struct setup *setup, struct deck *deck);

/* Makes the model and the engine of rank number `rank`, whose groups are `groups`. Collective if the executor allocates
 * collectively. */
void setup_create_engine(const struct setup *setup, int rank, struct executor *executor,
                         const struct parallel_groups *groups, struct model *model, struct engine *engine);

/* Returns the schedule of a step of `micro_batches` micro-batches on rank number `rank`; freed with schedule_destroy.
 */
struct schedule setup_schedule(const struct setup *setup, int64_t micro_batches, int rank);

#endif
