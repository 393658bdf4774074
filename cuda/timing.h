/* Timing several kernels ("ways") that compute the same, to choose the fastest. */
#ifndef CUDA_TIMING_H
#define CUDA_TIMING_H

#include "cuda/kernel.h"

enum { TIMING_WAYS = 16 }; /* at most */

/* Launches way number `way` once on the target's stream; it must be possible to launch it again. False: it cannot run.
 */
typedef bool timing_launch(const struct cuda_target *target, const void *self, int way);

/* Returns the number of the fastest way, and milliseconds[ways]: the least time of a few rounds in which the ways take
 * turns, so that a change of clocks affects all of them. Each is launched once before, to warm it up. A way that is far
 * behind after the first round keeps that round's time; one that cannot run gets a huge time. Of long launches the best
 * three, where their times are close, are then timed again, each alone until the clocks have settled at what its own
 * power allows, as in a training: there a kernel that is fast for a moment may be the slowest (on an H200 at its limit
 * of 700 W the order of cuBLASLt's algorithms changes, by up to 5 %). ways: up to TIMING_WAYS. */
int timing_compare(const struct cuda_target *target, timing_launch *launch_way, const void *self, int ways,
                   float *milliseconds);

#endif
