/* The forecast: what a deck will take on so many ranks, found by running the program itself on the planning executor.
 * Nothing is allocated, no other rank is needed; only the real executor is asked what scratch its ops need. */
#ifndef ESTIMATE_FORECAST_H
#define ESTIMATE_FORECAST_H

#include "comm/grid.h"
#include "loader/store_epochs.h"
#include "loader/store_list.h"
#include "deck/deck.h"
#include "architecture/flops.h"
#include "plan/log.h"
#include "store/budget.h"
#include "setup/layout.h"
#include "setup/setup.h"
#include "estimate/rates.h"
#include "estimate/room.h"

enum { FORECAST_GROUPS = 12 };

/* What a step takes on ranks of one kind (comm/grid.h): not all do the same, as what several hold one measures
 * (store/store.h, holder). */
struct forecast_rank {
    int rank;                          /* one that stands for all */
    int64_t memory[BUDGET_CATEGORIES]; /* bytes */
    int64_t need;                      /* their sum; without BUDGET_HOST where the device has memory of its own */
    int64_t snapshot;                  /* of a checkpoint, in host memory, beside these; 0: none */
    int64_t copies;                    /* of the weights' bytes: copies of few bits and their scales */
    double flops;                      /* that its ops do in a step, causal, recomputation included */
    struct plan_traffic traffic[FORECAST_GROUPS]; /* bytes that the rank receives in a step */
    enum layout_axis axes[FORECAST_GROUPS];       /* of these groups */
    int groups;
    double seconds; /* of a step, by the forecast's rates; 0 without */
    double exposed; /* of these, what transfers add to a step in which they took no time */
    double bubble; /* of these, what it waits for other stages: (stages - 1) / virtual of a micro-batch's time, which is
                      (p - 1) / (v m) of that of all m (Narayanan et al. 2021) */
};

struct forecast {
    struct setup setup; /* complete */
    int64_t ranks;
    int threads;     /* of a rank */
    char *quantized; /* what is, and how; owned */
    int64_t parameters;

    struct forecast_rank *kinds; /* of ranks [kind_count]; owned */
    int kind_count;
    double batches;      /* bytes of host memory that the loader's batches take on a rank */
    int64_t idle_ranks;  /* that get no row of any step */
    int64_t step_tokens; /* of all ranks, padding included */
    double token_flops[FLOPS_CONVENTIONS];

    char *data_missing;         /* why an epoch cannot be counted, such as data that is not there; else NULL; owned */
    int64_t epoch_windows;      /* of data.train; 0 with data_missing */
    int64_t epoch_tokens;       /* in windows, specials included */
    double epoch_steps;         /* at least: rows may have room left at their ends */
    struct store_list stores;   /* of data.train */
    struct store_share *shares; /* [stores.count] of a weighted blend (loader/store_epochs.h); else NULL; owned */
    struct disk_room room;
};

/* CPU threads that a rank would have: `asked` (device.threads) or OMP_NUM_THREADS, else its share of the CPUs of this
 * process when all ranks run on this machine. */
int forecast_threads(int64_t asked, int64_t ranks);

/* Forecasts a run of the deck, which leaves nothing open (estimate/layout_choice.h), on so many ranks of so many
 * threads. target: the executor that will run it, asked for scratch sizes alone. rates: how fast it will be; NULL:
 * seconds are not told. Local. ERROR_USER: keys that are out of range or do not fit each other, a store that is there
 * and no good. A race between the streams of a step is a bug and fatal. Destroy it in any case. */
int forecast_create(struct forecast *forecast, const struct deck *deck, int64_t ranks, int threads,
                    struct executor *target, const struct machine_rates *rates);
void forecast_destroy(struct forecast *forecast);

/* Forecasts what ranks take once more, after a change of the forecast's setup. */
void forecast_rehearse(struct forecast *forecast, struct executor *target, const struct machine_rates *rates);

/* Of its kinds of ranks that which needs the most memory: what is told of a rank. */
const struct forecast_rank *forecast_neediest(const struct forecast *forecast);

/* Of its kinds of ranks that which takes the longest: what is told of a step. */
const struct forecast_rank *forecast_slowest(const struct forecast *forecast);

/* Only the bytes of the rank that needs the most: by category into memory[BUDGET_CATEGORIES], and their sum, as above.
 * The setup is complete. */
int64_t forecast_memory(int64_t *memory, const struct setup *setup, struct executor *target);

/* What a step takes on the rank that needs the most, alone. The setup as above. */
struct forecast_rank forecast_step(const struct setup *setup, struct executor *target,
                                   const struct machine_rates *rates);

#endif
