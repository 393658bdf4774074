/* What attention's two directions share beside arithmetic: segments, the rows that none covers, blocks of rows. */
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

/* Number of keys that query i of a segment sees: always the first ones. */
int64_t attention_visible(const struct attention_segment *segment, int64_t i, bool causal);

/* covered[row] = 1 for rows 0 .. rows - 1 that a segment covers as queries, or as keys when `keys`; else 0. */
void attention_cover(const struct attention_segments *segments, bool keys, int64_t rows, char *covered);

/* Zeroes the rows of x that are not covered. */
void attention_clear_rows(const struct tensor *x, const char *covered);

/* Copies rows first .. first + rows - 1, columns col .. col + cols - 1, to [rows, cols] in f32: rows of a wide matrix
 * are far apart, by a power of two at worst, and would drive each other out of the first cache. */
void attention_read(const struct tensor *x, int64_t first, int64_t rows, int64_t col, int64_t cols, float *to);

#endif
