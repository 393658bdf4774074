/* Packs the stream of windows into rows: decides which part of which window goes where. Window lengths alone decide, so
 * every rank can pack all rows and read the tokens of its own rows only.
 *
 * The stream (loader/blend.h) continues from epoch to epoch without a gap: a row may hold the end of one epoch and the
 * start of the next. Where the stream ends, rows are empty.
 *
 * A row is filled window by window. With `split`, a window that does not fit is cut, and its rest begins the next row
 * as a segment of its own; without, the row ends before it. A row also ends after `max_segments` segments. A padded row
 * holds one window: max_segments is 1. */
#ifndef LOADER_PACKER_H
#define LOADER_PACKER_H

#include "loader/blend.h"

#include <stdbool.h>
#include <stdint.h>

struct packer_settings {
    int64_t row_tokens, max_segments; /* no window is longer than row_tokens */
    bool split;
};

struct packer_segment {
    int store;     /* the window's store */
    int64_t epoch; /* of that store, from 0 */
    struct token_window window;
    int64_t offset; /* of the segment's first token in the window, specials counted */
    int64_t length; /* tokens */
};

/* Writes the next row's segments to segments[max_segments], in order from the row's start, and advances the stream past
 * them. Returns how many; 0 after the stream's end. */
int64_t packer_next(const struct packer_settings *settings, struct data_blend *blend, struct packer_segment *segments);

#endif
