/* Does a deck fit into the memory of a rank? */
#ifndef ESTIMATE_FIT_H
#define ESTIMATE_FIT_H

#include "store/budget.h"
#include "estimate/fit_advice.h"
#include "setup/setup.h"

struct memory_fit {
    int64_t limit;         /* bytes that a rank may use */
    bool of_deck;          /* by device.memory, else a share of what this machine has free */
    int64_t need;          /* bytes that the deck needs */
    char advice[FIT_TEXT]; /* what to change where need > limit, else "" */
};

/* Bytes that a rank may use: device.memory, or, where that is 0, what this machine can hand out divided by the
 * `sharing` ranks that run on it, or what target's device has left. Local. ERROR_ENVIRONMENT: this machine does not say
 * what is free. */
int fit_limit(int64_t *limit, const struct setup *setup, int64_t sharing, struct executor *target);

/* Of a limit, what a program that chooses by itself makes use of: all of device.memory; where that is 0, an eighth of
 * the host's memory or a 64th of a device's is left to others. */
int64_t fit_room(const struct setup *setup, int64_t limit, const struct executor *target);

/* Compares need, budget_total of the deck's forecast, with fit_limit. Advice is found by planning decks that need less:
 * first with one key changed, then with two and more, of precision.weight_copies, parallel.shard where there are
 * several ranks, memory.recompute, train.micro_batch, parallel.context, memory.head_tokens, precision.compute, in this
 * order; the first that fits is named. target: as for forecast_create. Local. Errors as fit_limit. */
int fit_check(struct memory_fit *fit, const struct setup *setup, int64_t need, int64_t sharing,
              struct executor *target);

/* ERROR_USER with limit, need and advice where it does not fit, else ERROR_NONE. */
int fit_refuse(const struct memory_fit *fit);

/* Bytes of this machine's memory that a rank may offload to: of what is free its share, where `sharing` ranks divide
 * it, without the rows of two steps. */
int64_t fit_host(const struct setup *setup, int64_t sharing);

/* Bytes of host memory that a rank whose engine is made may take for snapshots (state/snapshot.h), with an eighth of
 * what is free left to others. */
int64_t fit_snapshot(const struct setup *setup, const struct budget *budget, int64_t sharing, struct executor *target);

/* ERROR_USER where the deck's layers offload more bytes than `host` from a device that has memory of its own. */
int fit_check_host(const struct setup *setup, int64_t bytes, int64_t host, const struct executor *target);

/* For a training that is about to allocate: ERROR_USER if the deck needs more than it may use, of the device or of the
 * host. Local; the ranks of a node must all have asked before one of them allocates. */
int fit_check_training(const struct setup *setup, int64_t sharing, struct executor *target);

/* Bytes that a rank may still allocate on target's memory: of its device, or of this machine, where `sharing` ranks
 * divide them; 0 when neither says. */
int64_t fit_free(struct executor *target, int64_t sharing);

#endif
