/* quantization_statistic: a warp processes the elements that share a scale. It reads them once for their amax, and
 * again for the quantization error. The results of blocks are then summed in a fixed order. */
#include "cuda/team.cuh"
#include "cuda/tile.cuh"

enum { STATISTIC_THREADS = 256, STATISTIC_WARPS = STATISTIC_THREADS / WARP };

/* x split into blocks of `rows` x `cols` elements that share a scale; with SCALING_TENSOR, into rows. */
struct scale_blocks {
    int64_t rows, cols, across, count;
};

static struct scale_blocks scale_blocks_of(const struct tensor &x, enum scaling scaling)
{
    int64_t rows = 1, cols = x.cols;
    if (scaling == SCALING_1X128 || scaling == SCALING_128X128)
        cols = QUANTIZATION_BLOCK;
    else if (scaling == SCALING_1X32)
        cols = 32;
    else if (scaling == SCALING_1X16 || scaling == SCALING_16X16)
        cols = 16;
    if (scaling == SCALING_128X128 || scaling == SCALING_16X16)
        rows = cols;
    const int64_t across = cols > 0 ? ceil_div(x.cols, cols) : 0;
    return {rows, cols, across, across * ceil_div(x.rows, rows)};
}

/* Depends only on the shape, because it determines the order of the sums. */
static int64_t blocks_of(const struct scale_blocks &scale_blocks)
{
    const int64_t needed = ceil_div(scale_blocks.count, STATISTIC_WARPS), most = 8 * USUAL_MULTIPROCESSORS;
    return needed < most ? needed : most;
}

/* Rounding of a block: elements are multiplied by `multiplier`, rounded, and multiplied by `scale`. multiplier is
 * NaN if there is no scale. */
struct measure {
    float multiplier;
    double scale;
};

__device__ __forceinline__ struct measure measure_of(const struct quantization &rule, float amax, float given)
{
    const float largest = format_largest(rule.format);
    if (rule.scaling == SCALING_TENSOR)
        return {quantization_reciprocal(given), (double)given};
    if (rule.scaling == SCALING_1X32) {
        if (!(amax <= FLT_MAX))
            return {__uint_as_float(0x7fc00000u), 0.0};
        int exponent = quantization_e8m0(amax, largest);
        return {quantization_power(-exponent), (double)quantization_power(exponent)};
    }
    if (rule.scaling == SCALING_1X16 || rule.scaling == SCALING_16X16) {
        float tensor = quantization_reciprocal(given), scale = quantization_block_scale(amax, tensor);
        return {quantization_block_multiplier(tensor, scale), (double)scale * (double)given};
    }
    float multiplier = quantization_multiplier(amax, largest, rule.power_of_two);
    return {multiplier, (double)quantization_reciprocal(multiplier)};
}

__device__ __forceinline__ void count_scale(float scale, double (&result)[STATISTICS])
{
    int exponent;
    result[STATISTIC_SCALES] += 1.0;
    if (frexpf(scale, &exponent) == 0.5f)
        result[STATISTIC_POWERS] += 1.0;
    result[STATISTIC_SCALE] = fmax(result[STATISTIC_SCALE], (double)scale);
    if (scale > 0.0f)
        result[STATISTIC_INVERSE] = fmax(result[STATISTIC_INVERSE], (double)quantization_reciprocal(scale));
}

__device__ __forceinline__ void count_element(float x, const struct measure &by, enum number_format format,
                                              double (&result)[STATISTICS])
{
    const float largest = format_largest(format);
    result[STATISTIC_COUNT] += 1.0;
    if (!(fabsf(x) <= FLT_MAX))
        return;
    result[STATISTIC_AMAX] = fmax(result[STATISTIC_AMAX], (double)fabsf(x));
    result[STATISTIC_SQUARES] += (double)x * (double)x;
    if (isnan(by.multiplier))
        return;
    float element = quantization_rounded(quantization_scaled(x, by.multiplier, largest), format);
    double error = (double)element * by.scale - (double)x;
    if (x != 0.0f && element == 0.0f)
        result[STATISTIC_UNDERFLOWS] += 1.0;
    if (quantization_clipped(x, by.multiplier, largest))
        result[STATISTIC_CLIPPED] += 1.0;
    result[STATISTIC_ERROR] += error * error;
}

/* Returns a statistic over the warp to every lane, in a fixed order. */
__device__ __forceinline__ double warp_statistic(double value, int which)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        double other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = which < STATISTIC_AMAX ? value + other : fmax(value, other);
    }
    return value;
}

template <typename T>
__global__ void __launch_bounds__(STATISTIC_THREADS)
    statistics_of_scale_blocks(view<const T> x, struct scale_blocks scale_blocks, struct quantization rule,
                               const float *scale, double *partial)
{
    __shared__ double warps[STATISTICS][STATISTIC_WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const float given = scale != NULL ? *scale : 1.0f;
    double result[STATISTICS] = {};
    for (int64_t scale_block = (int64_t)blockIdx.x * STATISTIC_WARPS + warp; scale_block < scale_blocks.count;
         scale_block += (int64_t)gridDim.x * STATISTIC_WARPS) {
        const int64_t first_row = scale_block / scale_blocks.across * scale_blocks.rows,
                      first_col = scale_block % scale_blocks.across * scale_blocks.cols;
        const int64_t cols = min(scale_blocks.cols, x.cols - first_col);
        const int64_t count = min(scale_blocks.rows, x.rows - first_row) * cols;
        auto at = [&](int64_t i) {
            const uint32_t row = scale_blocks.rows == 1 ? 0 : (uint32_t)i / (uint32_t)cols;
            return to_float(x.row(first_row + row)[first_col + i - row * cols]);
        };
        uint32_t amax = 0;
        if (rule.scaling != SCALING_TENSOR)
            for (int64_t i = lane; i < count; i += WARP)
                amax = max(amax, __float_as_uint(at(i)) & 0x7fffffffu);
        const struct measure by = measure_of(rule, amax_of(__reduce_max_sync(0xffffffffu, amax)), given);
        if (lane == 0 && !isnan(by.multiplier) && (rule.scaling != SCALING_TENSOR || scale_block == 0))
            count_scale((float)by.scale, result);
        for (int64_t i = lane; i < count; i += WARP)
            count_element(at(i), by, rule.format, result);
    }
#pragma unroll
    for (int i = 0; i < STATISTICS; i++) {
        double value = warp_statistic(result[i], i);
        if (lane == 0)
            warps[i][warp] = value;
    }
    __syncthreads();
    if (threadIdx.x >= STATISTICS)
        return;
    double value = warps[threadIdx.x][0];
#pragma unroll
    for (int i = 1; i < STATISTIC_WARPS; i++)
        value = threadIdx.x < STATISTIC_AMAX ? value + warps[threadIdx.x][i] : fmax(value, warps[threadIdx.x][i]);
    partial[(int64_t)blockIdx.x * STATISTICS + threadIdx.x] = value;
}

/* One warp for each statistic. */
static __global__ void add_statistics(const double *partial, int blocks, double *result)
{
    const int which = threadIdx.x / WARP;
    double value = 0.0;
    for (int i = threadIdx.x % WARP; i < blocks; i += WARP) {
        double other = partial[(int64_t)i * STATISTICS + which];
        value = which < STATISTIC_AMAX ? value + other : fmax(value, other);
    }
    value = warp_statistic(value, which);
    if (threadIdx.x % WARP == 0)
        result[which] = which < STATISTIC_AMAX ? result[which] + value : fmax(result[which], value);
}

int64_t cuda_quantization_statistic_workspace(const struct cuda_target *,
                                              const struct quantization_statistic_args *args)
{
    return blocks_of(scale_blocks_of(args->x, args->rule.scaling)) * STATISTICS * (int64_t)sizeof(double);
}

void cuda_quantization_statistic(const struct cuda_target *target, const struct quantization_statistic_args *args)
{
    const struct scale_blocks scale_blocks = scale_blocks_of(args->x, args->rule.scaling);
    const unsigned blocks = (unsigned)blocks_of(scale_blocks);
    double *partial = reinterpret_cast<double *>(target->workspace);
    if (scale_blocks.count == 0)
        return;
    visit(args->x.dtype, [&](auto zero) {
        using T = decltype(zero);
        statistics_of_scale_blocks<T><<<blocks, STATISTIC_THREADS, 0, target->stream>>>(
            view_of<const T>(args->x), scale_blocks, args->rule, static_cast<const float *>(args->scale.data), partial);
        CUDA_CHECK_LAUNCH("quantization_statistic");
    });
    add_statistics<<<1, STATISTICS * WARP, 0, target->stream>>>(partial, (int)blocks,
                                                                static_cast<double *>(args->result.data));
    CUDA_CHECK_LAUNCH("quantization_statistic");
}
