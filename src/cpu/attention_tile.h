/* The matrix kernels of attention. A block of queries is stored transposed, one query per vector lane, so that keys and
 * values are read in place, a running maximum needs no reduction across lanes, and any head_dim works. */
#ifndef CPU_ATTENTION_TILE_H
#define CPU_ATTENTION_TILE_H

#include "cpu/kernel.h"

enum {
    TILE_QUERIES = 64, /* queries in a block */
    TILE_KEYS = 32,    /* keys in a block */
    TILE_LANES = 16    /* the columns of a product are a multiple of this */
};

/* A matrix whose element (i, l) is data[i * row + l * depth]. */
struct tile_factor {
    const float *data;
    int64_t row, depth;
};

/* c [rows, cols] = a [rows, depth] b [depth, cols], or += when accumulate; cols is a multiple of TILE_LANES. */
void tile_multiply(float *c, int64_t c_stride, struct tile_factor a, const float *b, int64_t b_stride, int64_t rows,
                   int64_t cols, int64_t depth, bool accumulate);

/* to [cols, width] = the transpose of from [rows, cols], times factor; columns rows .. width - 1 of `to` become 0. */
void tile_transpose(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float factor,
                    float *restrict to, int64_t to_stride, int64_t width);

/* to [rows, width] = from [rows, cols] times factor; columns cols .. width - 1 become 0. */
void tile_copy(const float *from, int64_t from_stride, int64_t rows, int64_t cols, float factor, float *restrict to,
               int64_t to_stride, int64_t width);

/* Lanes of a block. */
struct tile_lanes {
    int64_t first, count; /* multiples of TILE_LANES */
};

/* Returns the lanes, of `lanes`, that see any of `keys` keys, rounded to multiples of TILE_LANES: with `causal`, query
 * i sees keys j <= i + shift, and with a window also j > i + shift - window. */
struct tile_lanes tile_seeing(int64_t lanes, int64_t keys, int64_t shift, bool causal, int64_t window);

/* Hides scores s [keys, TILE_QUERIES], one row per key, by -infinity: key j from queries i < j - shift, and with a
 * window from queries i >= j - shift + window. */
void tile_mask(float *s, int64_t keys, int64_t lanes, int64_t shift, int64_t window);

#endif
