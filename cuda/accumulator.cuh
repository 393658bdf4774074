/* Accumulators of tensor core products, sum[columns / 8][4]: which elements a lane has, and storing them. */
#ifndef CUDA_ACCUMULATOR_CUH
#define CUDA_ACCUMULATOR_CUH

#include "cuda/device.cuh"

__device__ __forceinline__ int lane_of_thread()
{
    return threadIdx.x % WARP;
}

/* This lane's first row and column of an accumulator. */
__device__ __forceinline__ int fragment_row()
{
    return lane_of_thread() / 4;
}

__device__ __forceinline__ int fragment_col()
{
    return lane_of_thread() % 4 * 2;
}

__device__ __forceinline__ uint32_t pair_of(float first, float second)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* Stores an accumulator, each row times its factor, to a warp's rows 0 .. rows - 1 and columns 0 .. dim - 1 at `to`.
 * The four lanes of a row exchange pairs so that each stores whole 16-byte chunks. */
template <int TILES>
__device__ __forceinline__ void store_accumulator(const float (&sum)[TILES][4], const float (&factor)[2],
                                                  __nv_bfloat16 *to, int64_t stride, int rows, int dim)
{
    constexpr int together = TILES < 4 ? TILES : 4;
    int lane = lane_of_thread() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = 8 * half + fragment_row();
#pragma unroll
        for (int j = 0; j < TILES; j += together) {
            uint32_t word[4] = {};
#pragma unroll
            for (int t = 0; t < together; t++)
                word[t] = pair_of(sum[j + t][2 * half] * factor[half], sum[j + t][2 * half + 1] * factor[half]);
#pragma unroll
            for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
                for (int t = 0; t < 4; t++)
                    if ((t & bit) == 0) {
                        uint32_t sent = lane & bit ? word[t] : word[t | bit];
                        uint32_t got = __shfl_xor_sync(0xffffffffu, sent, bit);
                        if (lane & bit)
                            word[t] = got;
                        else
                            word[t | bit] = got;
                    }
            if (row < rows && lane < together && 8 * (j + lane) < dim)
                *reinterpret_cast<uint4 *>(to + row * stride + 8 * (j + lane)) =
                    make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
}

#endif
