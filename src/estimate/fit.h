/* Checks whether a deck fits into a rank's memory, on device and host. All functions are local. */
#ifndef ESTIMATE_FIT_H
#define ESTIMATE_FIT_H

#include "store/budget.h"
#include "estimate/fit_advice.h"
#include "setup/setup.h"

struct memory_fit {
    int64_t limit;         /* bytes that a rank may use */
    bool of_deck;          /* the limit is device.memory, not a share of this machine's free memory */
    int64_t need;          /* bytes that the deck needs */
    char advice[FIT_TEXT]; /* what to change in the deck if need > limit, else "" */
};

/* Writes the bytes that a rank may use: device.memory or, if that is 0, the free memory (fit_free). ERROR_ENVIRONMENT:
 * this machine does not report its free memory. */
int fit_limit(int64_t *limit, const struct setup *setup, int64_t sharing, struct executor *target);

/* Returns the part of a limit that automatic choices may use: all of device.memory; if that is 0, all but an eighth of
 * the host's memory or a 64th of a device's, which is left to other programs. */
int64_t fit_usable(const struct setup *setup, int64_t limit, const struct executor *target);

/* Compares need, the memory that the deck's plan needs, with fit_limit. If it does not fit, finds advice by planning
 * decks that need less: first with one key changed, then with two and more, of precision.weight_copies, parallel.shard
 * if there are several ranks, memory.recompute, train.micro_batch, parallel.context, memory.head_tokens,
 * precision.compute, in this order; the advice names the first that fits. target: as for estimate_create. Errors as
 * fit_limit. */
int fit_check(struct memory_fit *fit, const struct setup *setup, int64_t need, int64_t sharing,
              struct executor *target);

/* Returns ERROR_USER with limit, need and advice if the deck does not fit, else ERROR_NONE. */
int fit_refuse(const struct memory_fit *fit);

/* Returns the bytes of host memory that a rank may offload to: its share of the free memory, which `sharing` ranks
 * divide, less the batches of its loader. */
int64_t fit_host(const struct setup *setup, int64_t sharing);

/* Returns the bytes of host memory that a rank may use for snapshots (state/snapshot.h) after its engine is made; an
 * eighth of the free memory is left to other programs. */
int64_t fit_snapshot(const struct setup *setup, const struct budget *budget, int64_t sharing, struct executor *target);

/* Returns ERROR_USER if the deck's layers offload more than `host` bytes from a device that has its own memory. */
int fit_check_host(const struct setup *setup, int64_t bytes, int64_t host, const struct executor *target);

/* Checks device and host memory before a training run allocates. ERROR_USER: the deck needs more than it may use. All
 * ranks of a node must have returned from it before one of them allocates. */
int fit_check_training(const struct setup *setup, int64_t sharing, struct executor *target);

/* Returns the bytes that a rank may still allocate: free memory of target's device, or this machine's free memory
 * divided by `sharing` ranks; 0 if it is not known. */
int64_t fit_free(struct executor *target, int64_t sharing);

#endif
