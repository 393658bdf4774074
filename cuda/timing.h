/* Times several kernels ("ways") that compute the same result, to choose the fastest. */
#ifndef CUDA_TIMING_H
#define CUDA_TIMING_H

#include "cuda/kernel.h"

enum { TIMING_WAYS = 16 }; /* at most */

/* Launches way number `way` once on the target's stream. It must be possible to launch it again. Returns false if the
 * way cannot run. */
typedef bool timing_launch(const struct cuda_target *target, const void *self, int way);

/* Returns the number of the fastest way, and writes milliseconds[ways], ways <= TIMING_WAYS.
 *
 * After a warm-up the ways alternate for a few rounds, so that a change of clocks affects all of them, and the shortest
 * time counts. A way that is much slower in the first round keeps that round's time; a way that cannot run gets a huge
 * time.
 *
 * If launches are long and times close, the best three are timed again, each alone until the clocks have settled at its
 * own power, as in a training. A kernel that is fast in a burst may be the slowest there: on an H200 at its power limit
 * of 700 W the order of cuBLASLt's algorithms changes, by up to 5 %. */
int timing_compare(const struct cuda_target *target, timing_launch *launch_way, const void *self, int ways,
                   float *milliseconds);

#endif
