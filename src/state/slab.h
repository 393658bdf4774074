/* A rank's part of a parameter. A shard is a range of a unit's flat buffer; in it parameters lie one behind the other,
 * each row-major, so what a shard holds of one parameter is a range of the rectangle that the unit has of it
 * (parameter->part). In the global tensor that is at most three rectangles: the rest of a row, whole rows of the part,
 * the start of a row; four where the part is of two pieces (parameter->apart). */
#ifndef STATE_SLAB_H
#define STATE_SLAB_H

#include "model/parameter.h"

struct parameter_slab {
    int64_t first, count; /* elements of parameter->part, row-major; count 0: nothing */
};

enum { SLAB_RECTANGLES = 4 };

/* What elements first .. first + count - 1 of the unit's flat buffer hold of the parameter. */
struct parameter_slab slab_of(const struct parameter *parameter, int64_t first, int64_t count);
/* What two slabs of a parameter have in common. */
struct parameter_slab slab_common(struct parameter_slab a, struct parameter_slab b);

/* The slab as rectangles of the global tensor, in row-major order; returns how many. */
int slab_rectangles(const struct parameter *parameter, struct parameter_slab slab,
                    struct rectangle out[SLAB_RECTANGLES]);

/* Elements that follow one another in the global tensor. */
struct slab_run {
    int64_t first, count; /* row-major */
};
/* The longest run that the slab starts with: all of it where the part has whole rows that follow one another, else the
 * rest of a row or of these rows. */
struct slab_run slab_run(const struct parameter *parameter, struct parameter_slab slab);

#endif
