/* Silent corruption: a micro-batch that several ranks compute gives each of them the same numbers, and replicas have
 * the same state. Where they differ, a device has computed or kept something wrong. This file computes the numbers;
 * train/recheck_verdict.h compares them between ranks. */
#ifndef ENGINE_RECHECK_H
#define ENGINE_RECHECK_H

#include "engine/engine.h"

/* A number of one rank, to compare: a hash of its bits, or, where bits may differ, its size (the loss, the norm of the
 * gradients). The other field is 0. */
struct recheck_value {
    uint64_t bits;
    double size;
};

enum recheck_part {
    RECHECK_STATE, /* weights and moments that other ranks own too (struct store_shard); 0 if none do. Always bits */
    RECHECK_LOSS,  /* of this rank's tokens, before the sum over ranks */
    RECHECK_GRADIENTS, /* of this rank's units, before the sum over ranks */
    RECHECK_PARTS
};

/* Runs a schedule in which each micro-batch is `batch`, which must be the same on all ranks, and writes this rank's
 * values[RECHECK_PARTS]. exact: hashes of the bits, else sizes. The schedule must not mark a last micro-batch, so that
 * whole gradients are not summed over ranks.
 *
 * Changes nothing of the training: the next step overwrites gradients and losses, and distributes the weights again.
 * No step may be in flight. Collective over groups.all. */
void recheck_compute(struct engine *engine, const struct schedule *schedule, const struct batch *batch, bool exact,
                     struct recheck_value values[RECHECK_PARTS]);

#endif
