#include "cpu/blocks.h"
#include "cpu/convert.h"

CPU_CLONES float cpu_largest(const float *x, int64_t count)
{
    uint32_t result = 0; /* the bits of nonnegative floats have the order of the floats */
#pragma omp simd reduction(max : result)
    for (int64_t i = 0; i < count; i++) {
        uint32_t magnitude = cpu_bits(cpu_magnitude(x[i]));
        result = magnitude > result ? magnitude : result;
    }
    return cpu_float(result);
}

void cpu_largest_of_rows(struct cpu *cpu, const struct tensor *x, float *largest)
{
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t row = 0; row < x->rows; row++) {
        largest[row] = 0.0f;
        for (int64_t col = 0; col < x->cols; col += CPU_SPAN) {
            int64_t count = cpu_min(CPU_SPAN, x->cols - col);
            float buffer[CPU_SPAN], candidate = cpu_largest(cpu_read(x, row, col, count, buffer), count);
            largest[row] = candidate > largest[row] ? candidate : largest[row];
        }
    }
}

/* -- Scales ------------------------------------------------------------------------------------------------------- */

/* Makes the scale of a block with the largest magnitude amax. */
static void make_scale(const struct cpu_blocks *blocks, float amax, float tensor, float *multiplier, float *scale)
{
    float largest = format_largest(blocks->rule->format);
    if (blocks->rule->scaling == SCALING_1X32) {
        int exponent = quantization_e8m0(amax <= FLT_MAX ? amax : 0.0f, largest);
        *multiplier = quantization_power(-exponent);
        *scale = amax <= FLT_MAX ? quantization_power(exponent) : quantization_float(0x7fc00000u);
    } else if (blocks->rule->scaling >= SCALING_1X16) {
        *scale = quantization_block_scale(amax, tensor);
        *multiplier = quantization_block_multiplier(tensor, *scale);
    } else {
        *multiplier = quantization_multiplier(amax, largest, blocks->rule->power_of_two);
        *scale = quantization_reciprocal(*multiplier);
    }
}

void cpu_blocks_make(struct cpu_blocks *blocks, const struct quantization *rule, const float *values, int64_t stride,
                     int64_t rows, int64_t cols, float multiplier, const float *multipliers)
{
    static const int16_t heights[] = {CPU_PIECE, 1, 1, CPU_PIECE, 1, 1, 16},
                         widths[] = {128, 128, 128, 128, 32, 16, 16};
    int64_t height = heights[rule->scaling], width = widths[rule->scaling];
    bool known = rule->scaling == SCALING_TENSOR || rule->scaling == SCALING_ROW;
    blocks->rule = rule;
    blocks->height = height;
    blocks->width = width;
    for (int64_t i = 0; known && i < rows; i++) {
        blocks->multiplier[i][0] = multipliers != NULL ? multipliers[i] : multiplier;
        blocks->scale[i][0] = multipliers != NULL ? quantization_reciprocal(multipliers[i]) : 1.0f;
    }
    for (int64_t row = 0; !known && row < rows; row += height)
        for (int64_t col = 0; col < cols; col += width) {
            int64_t end = cpu_min(rows, row + height), block = col / width;
            float amax = 0.0f;
            for (int64_t i = row; i < end; i++) {
                float candidate = cpu_largest(values + i * stride + col, cpu_min(width, cols - col));
                amax = candidate > amax ? candidate : amax;
            }
            make_scale(blocks, amax, multiplier, &blocks->multiplier[row][block], &blocks->scale[row][block]);
            for (int64_t i = row + 1; i < end; i++) {
                blocks->multiplier[i][block] = blocks->multiplier[row][block];
                blocks->scale[i][block] = blocks->scale[row][block];
            }
        }
}

/* -- Elements ----------------------------------------------------------------------------------------------------- */

CPU_CLONES static void scale_span(const float *x, float multiplier, float largest, float *restrict to, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = quantization_scaled(x[i], multiplier, largest);
}

void cpu_blocks_scale(const struct cpu_blocks *blocks, int64_t row, const float *values, float *to, int64_t count)
{
    float largest = format_largest(blocks->rule->format);
    for (int64_t i = 0; i < count; i += blocks->width)
        scale_span(values + i, blocks->multiplier[row][i / blocks->width], largest, to + i,
                   cpu_min(blocks->width, count - i));
}

CPU_CLONES static void round_span(float *restrict x, enum number_format format, float scale, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = quantization_rounded(x[i], format) * scale;
}

CPU_CLONES static void round_at_random(float *restrict x, float scale, int64_t count, uint32_t key, int64_t row,
                                       int64_t col)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = quantization_stochastic(x[i], quantization_random(key, row, col + i)) * scale;
}

void cpu_blocks_round(const struct cpu_blocks *blocks, int64_t row, float *x, int64_t count, uint32_t key,
                      int64_t copy_row, int64_t copy_col)
{
    for (int64_t i = 0; i < count; i += blocks->width) {
        float scale = blocks->scale[row][i / blocks->width];
        int64_t some = cpu_min(blocks->width, count - i);
        if (blocks->rule->stochastic)
            round_at_random(x + i, scale, some, key, copy_row, copy_col + i);
        else
            round_span(x + i, blocks->rule->format, scale, some);
    }
}
