/* Compares what ranks found in a recheck (engine/recheck.h): which of them differ from the ranks that must have the
 * same numbers. */
#ifndef TRAIN_RECHECK_VERDICT_H
#define TRAIN_RECHECK_VERDICT_H

#include "comm/grid.h"
#include "engine/recheck.h"

/* Accepted differences from the median, as shares of it, of numbers whose bits may differ because kernels add in
 * another order each time. */
#define RECHECK_LOSS_BOUND 1e-3
#define RECHECK_GRADIENTS_BOUND 2e-2

/* How a rank differs. */
struct recheck_difference {
    bool differs;
    enum recheck_part part; /* the first in the order of the enum */
    bool majority;          /* of the ranks, or passes, that it was compared with, most agree */
};

/* Writes differences[ranks] and returns the number of ranks that differ. values: [ranks][passes][RECHECK_PARTS].
 * widest[RECHECK_PARTS]: the largest accepted difference from the median, as a share of it; 0 where bits agree.
 *
 * Compared are: states of ranks that own the same shard; losses and gradients of ranks with the same place among those
 * that share rows (stage, context and tensor indices), or, with two passes, those of both passes of a rank. Ranks that
 * share rows exchange activations, so all of them differ if one is wrong. Without a majority all compared ranks differ.
 * shape: that of the grid. Local. */
int recheck_compare(struct recheck_difference *differences, const struct grid_shape *shape, int ranks, int passes,
                    const struct recheck_value *values, double *widest);

#endif
