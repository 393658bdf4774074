/* Cuts the stream of windows into rows: which stretch of which window lies where in which row. A function of the
 * window lengths alone, so all ranks follow all rows and read tokens of their own rows only.
 *
 * The stream (data/blend.h) goes on from epoch to epoch without a gap: a row may hold the end of one and the start of
 * the next. Where it ends rows stay empty.
 * Row: filled window by window. With `split` a window that does not fit is cut, and its rest begins the next row as a
 * segment of its own; without, the row ends. `max_segments` segments end a row too. A padded row holds one window. */
#ifndef DATA_PACKER_H
#define DATA_PACKER_H

#include "data/blend.h"

#include <stdbool.h>
#include <stdint.h>

struct packer_settings {
    int64_t row_tokens, max_segments; /* every window fits in a row */
    bool split;
};

struct packer_segment {
    int store;     /* that the window is of */
    int64_t epoch; /* of that store, from 0 */
    struct window window;
    int64_t offset; /* first token, counted in the window with its specials */
    int64_t length; /* tokens */
};

/* The next row's segments, in order from the row's start, into segments[max_segments]; returns how many (0 behind the
 * stream's end). The stream moves on behind them. */
int64_t packer_next(const struct packer_settings *settings, struct blend *blend, struct packer_segment *segments);

#endif
