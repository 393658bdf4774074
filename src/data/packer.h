/* Cuts the stream of windows into rows: which stretch of which window lies where in which row. A function of the
 * window lengths alone, so all ranks follow all rows and read tokens of their own rows only.
 *
 * Stream: the windows of epoch 0 in permuted (or store) order, then epoch 1, ... without a gap: a row may hold the end
 * of one epoch and the start of the next. With `once` rows stay empty behind the first epoch's last window.
 * Row: filled window by window. With `split` a window that does not fit is cut, and its rest begins the next row as a
 * segment of its own; without, the row ends. `max_segments` segments end a row too. A padded row holds one window. */
#ifndef DATA_PACKER_H
#define DATA_PACKER_H

#include "data/shuffle.h"
#include "data/windows.h"

#include <stdbool.h>
#include <stdint.h>

struct packer_settings {
    int64_t row_tokens, max_segments; /* every window fits in a row */
    bool split, shuffle, once;
    uint64_t seed; /* of the shuffle */
};

struct packer_position {
    int64_t epoch;
    int64_t window; /* number in the epoch's order */
    int64_t offset; /* tokens of it used already */
};

struct packer {
    struct packer_settings settings;
    const struct windows *windows;
    struct packer_position position;
    struct shuffle order; /* of position.epoch */
    int64_t hint;
};

struct packer_segment {
    struct window window;
    int64_t offset; /* first token, counted in the window with its specials */
    int64_t length; /* tokens */
};

/* Borrows the windows, of which there is at least one. Begins at the stream's start. */
struct packer packer_create(const struct packer_settings *settings, const struct windows *windows);
/* Goes to a position that packer_next has left. */
void packer_seek(struct packer *packer, struct packer_position position);
/* The next row's segments, in order from the row's start, into segments[max_segments]; returns how many (0 behind the
 * end of a `once` stream). */
int64_t packer_next(struct packer *packer, struct packer_segment *segments);

#endif
