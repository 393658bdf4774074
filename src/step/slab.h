/* A rank's part of a parameter. A shard is a range of a unit's flat buffer; in it parameters lie one behind the other,
 * each row-major, so what a shard holds of one parameter is a range of that parameter's row-major global tensor, and as
 * a selection of rows and columns at most three rectangles: the rest of a row, whole rows, the start of a row. */
#ifndef STEP_SLAB_H
#define STEP_SLAB_H

#include "model/unit.h"

struct slab {
    int64_t first, count; /* elements of the parameter, row-major; count 0: nothing */
};

struct rectangle {
    int64_t row, col, rows, cols;
};

enum { SLAB_RECTANGLES = 3 };

/* What elements first .. first + count - 1 of the unit's flat buffer hold of the parameter. */
struct slab slab_of(const struct parameter *parameter, int64_t first, int64_t count);

/* The slab as rectangles of a tensor with so many columns, in row-major order; returns how many. */
int slab_rectangles(struct slab slab, int64_t cols, struct rectangle out[SLAB_RECTANGLES]);

#endif
