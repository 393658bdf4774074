/* Blocks of elements with a scale each, within a piece of a copy: their scales, and the rounding of their elements, by
 * core/quantization.h. */
#ifndef CPU_BLOCKS_H
#define CPU_BLOCKS_H

#include "cpu/kernel.h"

enum { CPU_PIECE = QUANTIZATION_BLOCK, CPU_BLOCKS = CPU_PIECE / 16 };

/* |x|, infinity for NaN. */
CPU_INLINE float cpu_magnitude(float x)
{
    uint32_t magnitude = cpu_bits(x) & 0x7fffffffu;
    return cpu_float(magnitude > 0x7f800000u ? 0x7f800000u : magnitude);
}

/* The largest of `count` magnitudes; 0 of none. */
float cpu_largest(const float *x, int64_t count);

/* The same of each row of x. */
void cpu_largest_of_rows(struct cpu *cpu, const struct tensor *x, float *largest);

struct cpu_blocks {
    const struct quantization *rule;
    int64_t height, width;                   /* of a block; ROW and TENSOR: what the piece has of it */
    float multiplier[CPU_PIECE][CPU_BLOCKS]; /* of the blocks of each row */
    float scale[CPU_PIECE][CPU_BLOCKS];      /* of the blocks, without the tensor's; NaN: the block has none */
};

/* Makes the scales of a piece of rows x cols elements, at most CPU_PIECE each, that starts at a multiple of that in
 * both directions. multiplier: of the tensor, for TENSOR, 1X16 and 16X16; multipliers: for ROW, of each row, else NULL.
 * In rows beyond the first of a block of several rows the same numbers are repeated. */
void cpu_blocks_make(struct cpu_blocks *blocks, const struct quantization *rule, const float *values, int64_t stride,
                     int64_t rows, int64_t cols, float multiplier, const float *multipliers);

/* Row `row` of the piece, scaled to the range of its format. */
void cpu_blocks_scale(const struct cpu_blocks *blocks, int64_t row, const float *values, float *to, int64_t count);

/* Scaled elements of row `row` to what an emulated copy holds: rounded to the format, times the block's scale.
 * key: of random bits, of the copy whose element (copy_row, copy_col) is the first here. */
void cpu_blocks_round(const struct cpu_blocks *blocks, int64_t row, float *x, int64_t count, uint32_t key,
                      int64_t copy_row, int64_t copy_col);

#endif
