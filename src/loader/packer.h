/* Packs the stream of windows into rows: decides which part of which window goes into which row. The decision depends
 * only on window lengths, so every rank can pack all rows and read the tokens of its own rows only.
 *
 * The stream (loader/blend.h) continues from epoch to epoch without a gap: a row may have the end of one epoch and the
 * start of the next. After the end of the stream, rows are empty.
 *
 * A row is filled window by window. With `split`, a window that does not fit is split, and its rest begins the next row
 * as a separate segment; otherwise the row ends before it. A row also ends after `max_segments` segments. A padded row
 * has one window: max_segments is 1. */
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
    int64_t epoch; /* epoch of the store, from 0 */
    struct token_window window;
    int64_t offset; /* index of the segment's first token in the window, special tokens counted */
    int64_t length; /* tokens */
};

/* Writes the next row's segments to segments[max_segments], in row order, and moves the stream past them. Returns the
 * number of segments; 0 after the stream's end. */
int64_t packer_next(const struct packer_settings *settings, struct data_blend *blend, struct packer_segment *segments);

#endif
