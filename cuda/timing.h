/* How long ways to do the same take on a device, to choose one by. */
#ifndef CUDA_TIMING_H
#define CUDA_TIMING_H

#include "cuda/kernel.h"

/* Launches a way's work on the target's stream once, such that it may be launched again; false: it cannot be. */
typedef bool timing_launch(const struct cuda_target *target, const void *self, int way);

/* The fastest way, and the milliseconds of each: the least of a few rounds in which they take turns, so that a change
 * of clocks meets all of them. Each is launched once before, so that it is warm. One that is far behind after the first
 * round has that round's time, and one that cannot be launched has ages.
 * Of long launches those that are close are then timed again, each alone for long enough that the clocks are what its
 * own power leaves it, as they are in a training: there what is fast for a moment may be the slowest (on an H200 at its
 * limit of 700 W the order of cuBLASLt's algorithms changes, by up to 5 %). */
int timing_compare(const struct cuda_target *target, timing_launch *launch_way, const void *self, int ways,
                   float *milliseconds);

#endif
