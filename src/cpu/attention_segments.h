/* Shared by attention forward and backward: segments, rows outside all segments, reading a block of rows. */
#ifndef CPU_ATTENTION_SEGMENTS_H
#define CPU_ATTENTION_SEGMENTS_H

#include "cpu/convert.h"

struct attention_segment {
    int64_t q_start, q_length, kv_start, kv_length, offset;
};

static inline int64_t attention_slots(const struct attention_segments *segments)
{
    return segments->q_start.cols;
}

struct attention_segment attention_segment(const struct attention_segments *segments, int64_t slot);

/* Query i of a segment sees the keys from attention_first to attention_visible - 1. Causal: keys j <= i + offset, with
 * a window also j > i + offset - window. */
int64_t attention_visible(const struct attention_segment *segment, int64_t i, bool causal);
int64_t attention_first(const struct attention_segment *segment, int64_t i, int64_t window);

/* Fills covered[rows]: 1 where a segment covers the row, else 0. Rows are queries, or keys when `keys`. */
void attention_cover(const struct attention_segments *segments, bool keys, int64_t rows, char *covered);

/* Zeroes the rows of x that are not covered. */
void attention_clear_rows(const struct tensor *x, const char *covered);

/* Copies rows first .. first + rows - 1, columns col .. col + cols - 1, to [rows, cols] in f32. The copy is dense,
 * because rows of a wide matrix that are a power of two apart would evict each other from the L1 cache. */
void attention_read(const struct tensor *x, int64_t first, int64_t rows, int64_t col, int64_t cols, float *to);

#endif
