/* Key header: a setup is everything that one run needs to know, compiled from a deck for a number of ranks. Session,
 * estimate and inference take it and make their engines by it. Keys of a deck are read here, in src/deck, and in the
 * few files of tests/t_deck_readers.sh.
 *
 * A setup is made in two steps, since the executor and the data that the second needs are set up by the first:
 *
 *   setup_create     from deck and ranks: device, data, run and, where the deck leaves no layout open, the layout
 *   setup_complete   from the data's vocabulary and the executor: model and engine
 *
 * Some keys leave a choice to the program: parallel.shard = "auto", parallel.context = 0, memory.recompute = "fit",
 * memory.head_tokens = 0. Whoever chooses (estimate/layout_choice.h, estimate/fit_choice.h) writes the choice into
 * setup->deck and calls setup_update, which derives again what depends on it. */
#ifndef SETUP_SETUP_H
#define SETUP_SETUP_H

#include "comm/grid.h"
#include "core/device.h"
#include "deck/deck.h"
#include "engine/engine.h"
#include "loader/loader.h"

/* See train/learning_rate.h. Updates are counted in steps or rows (schedule.unit); `unit` is one update. */
struct learning_rate_settings {
    enum deck_schedule kind;
    enum deck_rule rule;
    int64_t steps; /* of the run */
    double unit, warmup, hold, decay;
    bool to_last_step; /* decay ends with the run: schedule.decay = 0 */
    struct learning_rate_peak {
        double peak, min_ratio;
    } own, decoupled;
};

/* Steps `start` to `stop` of a run; 0: none, or no end. */
struct step_range {
    int64_t start, stop;
};

struct profile_settings {
    struct step_range steps;
    const char *ranks; /* for profile_lists (setup/profile_ranks.h) */
    bool collectives;
};

struct statistics_settings {
    int64_t every; /* steps; 0: never */
    struct step_range steps;
};

/* When checkpoints are written, and which stay. */
struct saving_settings {
    int64_t every;  /* steps; 0: never */
    double seconds; /* between two; 0: never */
    int64_t keep, keep_every;
    bool keep_best, at_end, export_final;
    bool overlapped; /* with the steps that follow, where memory allows */
    bool tolerated;  /* a checkpoint that cannot be written does not end the run */
};

struct setup {
    struct deck *deck; /* a copy with all choices; owned. The texts below belong to it */
    int64_t ranks;

    /* -- Device -- */
    struct device_request device; /* without communicators and threads */
    int64_t threads;              /* CPU threads of a rank; 0: its share of the node's */
    double memory;                /* bytes that a rank may use; 0: what is free */
    double peak;                  /* FLOP/s of a rank's device; 0: unknown */
    const char *tuning_file, *rates_file;

    /* -- Data -- */
    struct loader_settings train, valid;             /* the caller sets `memory` of both */
    bool random, validates;                          /* random: made data; validates: `valid` names stores */
    const char *train_stores, *valid_stores, *parts; /* the texts of the keys, used or not */

    /* -- Run -- */
    int64_t steps;
    const char *resume; /* train.resume */
    const char *folder, *prometheus;
    bool tensorboard;
    int64_t log_every, validation_every, validation_rows;
    const char *walltime; /* for walltime_parse (setup/walltime.h) */
    enum deck_divergence on_divergence;
    bool initialise_optimizer;
    struct learning_rate_settings learning_rate;
    struct profile_settings profile;
    struct statistics_settings statistics;
    struct saving_settings saving;

    /* -- Layout; unset while the deck leaves it open -- */
    bool open;
    struct grid_shape shape; /* while open, of ranks that all have rows of their own */
    int64_t sharing;         /* ranks with the same rows, or parts of them */
    int64_t tokens;          /* of a rank's micro-batch */
    int64_t micro_batches;   /* of a rank, a step */

    /* -- Model and engine; unset before setup_complete -- */
    bool complete;
    bool fits_recompute, fits_head;             /* the program chooses the recompute policies; the head's chunks */
    const char *fitted_layers, *fitted_offload; /* with fits_recompute, as keys of `memory` have them */
    int64_t head_tokens;                        /* of a chunk of the head */
    struct model_settings model;                /* of rank 0 */
    struct engine_settings engine;              /* without slots, which differ by stage, and without the tensor ranks */
};

/* Local. ERROR_USER: keys that do not fit each other or the number of ranks. Destroy the setup in any case. */
int setup_create(struct setup *setup, const struct deck *deck, int64_t ranks);

/* vocabulary: of the data, where the deck does not say. Local. ERROR_USER, naming the key: no such model, or the
 * executor cannot compute it. */
int setup_complete(struct setup *setup, int64_t vocabulary, const struct executor *executor);

/* Derives layout, model and engine again after keys of the sections parallel, memory and precision or train.micro_batch
 * were changed in setup->deck to values that settings_check_sizes accepts. */
void setup_update(struct setup *setup);

/* The learning rate of a deck alone. */
struct learning_rate_settings setup_learning_rate(const struct deck *deck);

/* Gives every rank the choices of rank 0 (the sections parallel and memory), and updates the setup. Collective. */
void setup_share(struct setup *setup, struct comm *world);

/* For inference with a checkpoint's deck: model, head_tokens, `train` for how its data looked, and an engine of one row
 * and one micro-batch, whose memory, sharding and layer cut the caller sets. Local. Errors as setup_complete. */
int setup_create_inference(struct setup *setup, const struct deck *deck, int64_t vocabulary);

/* A copy of a setup, to try other keys with. */
void setup_copy(struct setup *copy, const struct setup *setup);
void setup_destroy(struct setup *setup);

/* Writes into a deck what memory.recompute = "fit" and memory.head_tokens = 0 have come to, which the deck.cfg and the
 * checkpoints of a run keep. A chosen layout is not kept: another number of ranks may want another. */
void setup_keep_choices(const struct setup *setup, struct deck *deck);

/* Makes the model and the engine of rank number `rank`; groups: its own. Collective if the executor allocates
 * collectively. */
void setup_create_engine(const struct setup *setup, int rank, struct executor *executor,
                         const struct parallel_groups *groups, struct model *model, struct engine *engine);

/* A step of so many micro-batches of rank number `rank`, freed with schedule_destroy. */
struct schedule setup_schedule(const struct setup *setup, int64_t micro_batches, int rank);

#endif
