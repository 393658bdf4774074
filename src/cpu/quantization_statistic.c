/* quantization_statistic: rounds each piece of the tensor as quantize does, and sums its quantization error; then sums
 * over the pieces in order. */
#include "cpu/blocks.h"
#include "cpu/convert.h"

struct statistic_scratch {
    float *multipliers; /* SCALING_ROW: [T] */
    double (*results)[STATISTICS];
};

static int64_t pieces_of(const struct tensor *x)
{
    return (x->cols + CPU_PIECE - 1) / CPU_PIECE * ((x->rows + CPU_PIECE - 1) / CPU_PIECE);
}

static int64_t lay_out(const struct quantization_statistic_args *args, char *base, struct statistic_scratch *scratch)
{
    int64_t used = 0, rows = args->rule.scaling == SCALING_ROW ? args->x.rows : 0;
    scratch->multipliers = cpu_take(base, &used, rows * (int64_t)sizeof(float));
    scratch->results = cpu_take(base, &used, pieces_of(&args->x) * (int64_t)sizeof *scratch->results);
    return used;
}

int64_t cpu_quantization_statistic_workspace(const struct cpu *cpu, const struct quantization_statistic_args *args)
{
    (void)cpu;
    struct statistic_scratch scratch;
    return lay_out(args, NULL, &scratch);
}

/* Adds the elements of one block with the scale `scale` * `tensor`; NaN: no scale. `scaled`: in the format's range. */
static void add_elements(double *result, enum number_format format, const float *x, const float *scaled, int64_t count,
                         float multiplier, float scale, float tensor)
{
    const float limit = format_largest(format) * (1.0f + 0x1p-20f); /* tolerance: a block's amax may be rounded up */
    for (int64_t i = 0; i < count; i++) {
        result[STATISTIC_COUNT]++;
        if (!isfinite(x[i]))
            continue;
        double value = (double)x[i];
        result[STATISTIC_AMAX] = fmax(result[STATISTIC_AMAX], fabs(value));
        result[STATISTIC_SQUARES] += value * value;
        if (isnan(scale))
            continue;
        double copied = (double)quantization_rounded(scaled[i], format) * (double)scale * (double)tensor;
        result[STATISTIC_UNDERFLOWS] += value != 0.0 && copied == 0.0;
        result[STATISTIC_CLIPPED] += fabsf(x[i]) * multiplier > limit;
        result[STATISTIC_ERROR] += (copied - value) * (copied - value);
    }
}

static void add_scale(double *result, float scale)
{
    int exponent;
    result[STATISTIC_SCALES]++;
    result[STATISTIC_POWERS] += frexpf(scale, &exponent) == 0.5f;
    result[STATISTIC_SCALE] = fmax(result[STATISTIC_SCALE], (double)scale);
    if (scale > 0.0f)
        result[STATISTIC_INVERSE] = fmax(result[STATISTIC_INVERSE], (double)quantization_reciprocal(scale));
}

/* Returns whether a block starts in this row of the piece; the scale of a tensor or a row is counted once. */
static bool starts(const struct cpu_blocks *blocks, int64_t first_row, int64_t first_col, int64_t row)
{
    enum scaling scaling = blocks->rule->scaling;
    if (scaling == SCALING_TENSOR && first_row > 0)
        return false;
    if ((scaling == SCALING_TENSOR || scaling == SCALING_ROW) && first_col > 0)
        return false;
    return row % blocks->height == 0;
}

/* Computes the statistics of one piece. */
static void measure(const struct quantization_statistic_args *args, int64_t first_row, int64_t first_col,
                    const float *multipliers, double *result)
{
    const struct tensor *x = &args->x;
    const bool given = tensor_present(&args->scale);
    int64_t rows = cpu_min(CPU_PIECE, x->rows - first_row), cols = cpu_min(CPU_PIECE, x->cols - first_col);
    float tensor = given ? *(const float *)args->scale.data : 1.0f, values[CPU_PIECE][CPU_PIECE];
    struct cpu_blocks blocks;
    for (int64_t i = 0; i < rows; i++)
        cpu_widen(tensor_at(x, first_row + i, first_col), x->dtype, values[i], cols);
    cpu_blocks_make(&blocks, &args->rule, values[0], CPU_PIECE, rows, cols, quantization_reciprocal(tensor),
                    multipliers == NULL ? NULL : multipliers + first_row);
    memset(result, 0, STATISTICS * sizeof *result);
    for (int64_t i = 0; i < rows; i++) {
        float scaled[CPU_PIECE];
        cpu_blocks_scale(&blocks, i, values[i], scaled, cols);
        for (int64_t j = 0; j < cols; j += blocks.width) {
            float multiplier = blocks.multiplier[i][j / blocks.width], scale = blocks.scale[i][j / blocks.width];
            add_elements(result, args->rule.format, values[i] + j, scaled + j, cpu_min(blocks.width, cols - j),
                         multiplier, scale, tensor);
            if (!isnan(scale) && starts(&blocks, first_row, first_col, i))
                add_scale(result, scale * tensor);
        }
    }
}

void cpu_quantization_statistic(struct cpu *cpu, const struct quantization_statistic_args *args)
{
    const struct tensor *x = &args->x;
    struct statistic_scratch scratch;
    lay_out(args, cpu->workspace, &scratch);
    if (args->rule.scaling == SCALING_ROW) {
        cpu_largest_of_rows(cpu, x, scratch.multipliers);
        for (int64_t i = 0; i < x->rows; i++)
            scratch.multipliers[i] = quantization_multiplier(scratch.multipliers[i], format_largest(args->rule.format),
                                                             args->rule.power_of_two);
    }
    int64_t across = (x->cols + CPU_PIECE - 1) / CPU_PIECE, count = pieces_of(x);
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static)
    for (int64_t i = 0; i < count; i++)
        measure(args, i / across * CPU_PIECE, i % across * CPU_PIECE,
                args->rule.scaling == SCALING_ROW ? scratch.multipliers : NULL, scratch.results[i]);
    double *result = args->result.data;
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < STATISTICS; k++)
            result[k] = k < STATISTIC_AMAX ? result[k] + scratch.results[i][k] : fmax(result[k], scratch.results[i][k]);
}
