/* Slabs: a rank's part of a parameter. A shard is a range of a unit's flat buffer, in which parameters follow each
 * other, each row-major, so a shard has a range of the rectangle that the unit has of a parameter (parameter->part). In
 * the global tensor this range is at most three rectangles: the rest of a row, whole rows of the part, the start of a
 * row; four if the part has two pieces (parameter->apart). */
#ifndef STATE_SLAB_H
#define STATE_SLAB_H

#include "model/parameter.h"

struct parameter_slab {
    int64_t first, count; /* elements of parameter->part, row-major; count 0: nothing */
};

enum { SLAB_RECTANGLES = 4 };

/* Returns the slab of the parameter in elements first .. first + count - 1 of the unit's flat buffer. */
struct parameter_slab slab_of(const struct parameter *parameter, int64_t first, int64_t count);
/* Returns the intersection of two slabs of a parameter. */
struct parameter_slab slab_common(struct parameter_slab a, struct parameter_slab b);

/* Writes the slab as rectangles of the global tensor, in row-major order; returns their number. */
int slab_rectangles(const struct parameter *parameter, struct parameter_slab slab,
                    struct rectangle out[SLAB_RECTANGLES]);

/* Consecutive elements of the global tensor. */
struct slab_run {
    int64_t first, count; /* row-major */
};
/* Returns the longest run at the start of the slab: all of it if the part consists of consecutive whole rows, else the
 * rest of a row or of these rows. */
struct slab_run slab_run(const struct parameter *parameter, struct parameter_slab slab);

#endif
