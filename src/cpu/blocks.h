/* Scales and rounding of the blocks within a piece of a quantized operand, by core/quantization.h. */
#ifndef CPU_BLOCKS_H
#define CPU_BLOCKS_H

#include "cpu/kernel.h"

enum { CPU_PIECE = QUANTIZATION_BLOCK, CPU_BLOCKS = CPU_PIECE / 16 };

/* Returns |x|; infinity for NaN. */
CPU_INLINE float cpu_magnitude(float x)
{
    uint32_t magnitude = cpu_bits(x) & 0x7fffffffu;
    return cpu_float(magnitude > 0x7f800000u ? 0x7f800000u : magnitude);
}

/* Returns the largest of `count` magnitudes; 0 if count is 0. */
float cpu_largest(const float *x, int64_t count);

/* Writes the largest magnitude of each row of x. */
void cpu_largest_of_rows(struct cpu *cpu, const struct tensor *x, float *largest);

struct cpu_blocks {
    const struct quantization *rule;
    int64_t height, width;                   /* size of a block; for ROW and TENSOR the part of it in this piece */
    float multiplier[CPU_PIECE][CPU_BLOCKS]; /* for each row, by block */
    float scale[CPU_PIECE]
               [CPU_BLOCKS]; /* for each row, by block, without the tensor's scale; NaN: the block has no scale */
};

/* Makes the scales of a piece of rows x cols elements (rows, cols <= CPU_PIECE) that starts at multiples of CPU_PIECE.
 * multiplier: the tensor's, for TENSOR, 1X16 and 16X16. multipliers: of each row, for ROW, else NULL. Every row of a
 * block has the block's numbers. */
void cpu_blocks_make(struct cpu_blocks *blocks, const struct quantization *rule, const float *values, int64_t stride,
                     int64_t rows, int64_t cols, float multiplier, const float *multipliers);

/* Scales `count` elements of row `row` to the range of the format. */
void cpu_blocks_scale(const struct cpu_blocks *blocks, int64_t row, const float *values, float *to, int64_t count);

/* Turns scaled elements of row `row` into the values of an emulated operand: rounded to the format, times the block's
 * scale. key: key of the random bits; (copy_row, copy_col): position in the operand of the first element. */
void cpu_blocks_round(const struct cpu_blocks *blocks, int64_t row, float *x, int64_t count, uint32_t key,
                      int64_t copy_row, int64_t copy_col);

#endif
