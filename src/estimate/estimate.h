/* The estimate: memory, time and traffic of a deck on a number of ranks, found by running the program itself on the
 * planning executor. It allocates no device memory and needs no other ranks; it asks the real executor only how much
 * scratch its ops need. */
#ifndef ESTIMATE_ESTIMATE_H
#define ESTIMATE_ESTIMATE_H

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
#include "estimate/disk_space.h"

enum { ESTIMATE_GROUPS = 12 };

/* The cost of a step on ranks of one kind (comm/grid.h). Kinds differ in work too: only the first of the ranks that own
 * the same state measures its norm (store/store.h, owner). */
struct estimate_rank {
    int rank;                          /* one rank of this kind */
    int64_t memory[BUDGET_CATEGORIES]; /* bytes */
    int64_t need;                      /* sum of memory[]; without BUDGET_HOST if the device has its own memory */
    int64_t snapshot;  /* bytes of a checkpoint's snapshot in host memory, not included in need; 0: none */
    int64_t quantized; /* bytes of the quantized weights and their scales, included in the weights */
    double flops;      /* FLOPs of its ops in a step, causal, recomputation included */
    struct plan_traffic traffic[ESTIMATE_GROUPS]; /* bytes that the rank receives in a step, by group */
    enum layout_axis axes[ESTIMATE_GROUPS];       /* axis of each group */
    int groups;
    double seconds; /* seconds of a step, by the machine profile; 0 without one */
    double exposed; /* exposed communication: seconds saved if transfers took no time */
    /* pipeline bubble, a part of `seconds`: (stages - 1) / virtual_stages micro-batches (Narayanan et al. 2021) */
    double bubble;
};

struct estimate {
    struct setup setup; /* complete */
    int64_t ranks;
    int threads;                 /* CPU threads of a rank */
    char *quantized;             /* what is quantized, and how; owned */
    int64_t parameters, trained; /* of the model without adapters, and those that are trained */

    struct estimate_rank *kinds; /* one for each kind of ranks, [kind_count]; owned */
    int kind_count;
    double batches;      /* bytes of host memory that the loader's batches need on a rank */
    int64_t idle_ranks;  /* ranks that get no row of any step */
    int64_t step_tokens; /* tokens of all ranks, padding included */
    double token_flops[FLOPS_CONVENTIONS];

    char *data_missing;         /* why an epoch cannot be counted, such as missing data; else NULL; owned */
    int64_t epoch_windows;      /* windows of data.train; 0 with data_missing */
    int64_t epoch_tokens;       /* tokens of the windows, special tokens included */
    double epoch_steps;         /* a lower bound: rows may be padded at their ends */
    struct store_list stores;   /* stores of data.train */
    struct store_share *shares; /* [stores.count] of a weighted blend (loader/store_epochs.h); else NULL; owned */
    struct disk_space disk;
};

/* Returns the number of CPU threads of a rank: `asked` (device.threads) or OMP_NUM_THREADS, else its share of this
 * process's CPUs if all ranks ran on this machine. */
int estimate_threads(int64_t asked, int64_t ranks);

/* Makes the estimate of a deck whose layout is not open (estimate/layout_choice.h) on `ranks` ranks of `threads`
 * threads. target: the executor that will run it, asked for scratch sizes only. rates: the machine profile; NULL: no
 * times. Local. The caller destroys it also after an error. ERROR_USER: keys are out of range or do not fit
 * each other, or a store exists and is damaged. A race between the streams of a step is a bug, and fatal. */
int estimate_create(struct estimate *estimate, const struct deck *deck, int64_t ranks, int threads,
                    struct executor *target, const struct machine_rates *rates);
void estimate_destroy(struct estimate *estimate);

/* Recomputes estimate->kinds after a change of estimate->setup. */
void estimate_dry_run(struct estimate *estimate, struct executor *target, const struct machine_rates *rates);

/* Returns the kind of ranks that needs the most memory. Reports show it as "a rank". */
const struct estimate_rank *estimate_neediest(const struct estimate *estimate);

/* Returns the kind of ranks whose step takes the longest. Reports show its times. */
const struct estimate_rank *estimate_slowest(const struct estimate *estimate);

/* Plans only the memory: writes the bytes of the rank that needs the most, by category, to memory[BUDGET_CATEGORIES],
 * and returns its `need`. The setup is complete. */
int64_t estimate_memory(int64_t *memory, const struct setup *setup, struct executor *target);

/* Returns the cost of a step on the rank that needs the most memory. The setup is complete. */
struct estimate_rank estimate_step(const struct setup *setup, struct executor *target,
                                   const struct machine_rates *rates);

#endif
