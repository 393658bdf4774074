/* exact_add, exact_read, and sum_squares with a quantum. */
#include "cuda/device.cuh"

#include <math_constants.h>

enum { THREADS = 256, WARPS = THREADS / WARP, RESIDENT = 8 };

static unsigned blocks_for(const struct cuda_target *target, int64_t elements)
{
    const int64_t needed = ceil_div(elements, THREADS), most = (int64_t)target->multiprocessors * RESIDENT;
    return (unsigned)(needed < most ? needed : most);
}

/* -- Adding, reading ---------------------------------------------------------------------------------------------- */

template <typename T, bool ADDS>
static __global__ void __launch_bounds__(THREADS)
    exact_add(const T *from, double *to, int64_t count, double quantum, double inverse, double most)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (int64_t)THREADS) {
        const double x = (double)from[i], rounded = fabs(x) <= most ? rint(x * inverse) * quantum : CUDART_NAN;
        to[i] = ADDS ? to[i] + rounded : rounded;
    }
}

template <typename T> static void launch_add(const struct cuda_target *target, const struct exact_add_args *args)
{
    const int64_t count = args->to.cols;
    auto *kernel = args->accumulate ? exact_add<T, true> : exact_add<T, false>;
    kernel<<<blocks_for(target, count), THREADS, 0, target->stream>>>(static_cast<const T *>(args->from.data),
                                                                      static_cast<double *>(args->to.data), count,
                                                                      args->quantum, 1 / args->quantum, args->most);
    CUDA_CHECK_LAUNCH("exact_add");
}

void cuda_exact_add(const struct cuda_target *target, const struct exact_add_args *args)
{
    if (args->to.cols == 0)
        return;
    if (args->from.dtype == DTYPE_F64)
        launch_add<double>(target, args);
    else
        launch_add<float>(target, args);
}

static __global__ void __launch_bounds__(THREADS) exact_read(const double *from, float *to, int64_t count)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count; i += gridDim.x * (int64_t)THREADS)
        to[i] = (float)from[i];
}

void cuda_exact_read(const struct cuda_target *target, const struct exact_read_args *args)
{
    const int64_t count = args->to.cols;
    if (count == 0)
        return;
    exact_read<<<blocks_for(target, count), THREADS, 0, target->stream>>>(static_cast<const double *>(args->from.data),
                                                                          static_cast<float *>(args->to.data), count);
    CUDA_CHECK_LAUNCH("exact_read");
}

/* -- Squares ------------------------------------------------------------------------------------------------------ */

/* A warp sums one block of numbers at a time, each lane every 32nd number. Sums over blocks are exact. */
static __global__ void __launch_bounds__(THREADS)
    exact_squares(const float *x, int64_t blocks, double quantum, double *partial)
{
    __shared__ double of_warp[WARPS][SQUARES_PARTS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    double parts[SQUARES_PARTS] = {};
    for (int64_t b = blockIdx.x * (int64_t)WARPS + warp; b < blocks; b += gridDim.x * (int64_t)WARPS) {
        double sum = 0.0, step = quantum;
#pragma unroll
        for (int i = lane; i < SQUARES_BLOCK; i += WARP) {
            const double number = (double)x[b * SQUARES_BLOCK + i];
            sum += number * number;
        }
#pragma unroll
        for (int apart = WARP / 2; apart > 0; apart /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, apart);
#pragma unroll
        for (int p = 0; p < SQUARES_PARTS; p++) {
            const double part = rint(sum / step) * step;
            parts[p] += part;
            sum -= part;
            step *= SQUARES_STEP;
        }
    }
    if (lane == 0)
        for (int p = 0; p < SQUARES_PARTS; p++)
            of_warp[warp][p] = parts[p];
    __syncthreads();
    if (threadIdx.x >= SQUARES_PARTS)
        return;
    double all = 0.0;
    for (int w = 0; w < WARPS; w++)
        all += of_warp[w][threadIdx.x];
    partial[(int64_t)blockIdx.x * SQUARES_PARTS + threadIdx.x] = all;
}

static __global__ void __launch_bounds__(WARP) exact_squares_sum(const double *partial, int64_t blocks, double *sum)
{
    double all = 0.0;
    if (threadIdx.x >= SQUARES_PARTS)
        return;
    for (int64_t b = 0; b < blocks; b++)
        all += partial[b * SQUARES_PARTS + threadIdx.x];
    sum[threadIdx.x] = all;
}

void cuda_sum_squares_exactly(const struct cuda_target *target, const struct sum_squares_args *args, int64_t blocks)
{
    double *partial = reinterpret_cast<double *>(target->workspace);
    if (blocks > 0) {
        exact_squares<<<(unsigned)blocks, THREADS, 0, target->stream>>>(
            static_cast<const float *>(args->x.data), args->x.cols / SQUARES_BLOCK, args->quantum, partial);
        CUDA_CHECK_LAUNCH("sum_squares");
    }
    exact_squares_sum<<<1, WARP, 0, target->stream>>>(partial, blocks, static_cast<double *>(args->sum.data));
    CUDA_CHECK_LAUNCH("sum_squares");
}
