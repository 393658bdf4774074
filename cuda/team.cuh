/* Loop of row-wise kernels: a team of blockDim.x threads processes a row. A block has one team of several warps, or
 * blockDim.y teams of one warp each, which need not synchronise with each other. */
#ifndef CUDA_TEAM_CUH
#define CUDA_TEAM_CUH

#include "cuda/device.cuh"

#include <math_constants.h>

/* The number of SMs of the GPU that these kernels were designed for. It replaces the target's number where sums depend
 * on the number of blocks, so that they depend only on the shape. */
enum { USUAL_MULTIPROCESSORS = 132 };

enum { TEAM_WARPS = 16, TEAM_THREADS = TEAM_WARPS * WARP }; /* at most */

/* Returns a block shape: teams of at most `most` threads, with about `each` packs of a row per thread. Small teams
 * share a block. */
inline dim3 team_block(int64_t packs, int each, int64_t most)
{
    enum { SMALL_TEAMS = 8 };
    int64_t team = ceil_div(ceil_div(packs, each), WARP) * WARP;
    return team <= WARP ? dim3(WARP, SMALL_TEAMS) : dim3((unsigned)(team < most ? team : most));
}

/* Returns the number of blocks for one row per team, at most `most`. */
inline unsigned team_blocks(int64_t rows, dim3 block, int64_t most)
{
    int64_t needed = ceil_div(rows, block.y);
    return (unsigned)(needed < most ? needed : most);
}

/* Shared memory through which the warps of a team exchange M values each. */
template <int M> struct team_memory {
    float of[M][WARP]; /* a block has at most WARP warps */
};

/* Gives lane i the values of warp i; lanes without a warp get `other`. */
template <int M> __device__ __forceinline__ void team_exchange(float (&x)[M], team_memory<M> &memory, float other)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (int m = 0; m < M; m++)
        if (lane == 0)
            memory.of[m][warp] = x[m];
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M; m++)
        x[m] = lane < warps ? memory.of[m][lane] : other;
    __syncthreads();
}

/* Returns the sums over the team to each of its threads, in a fixed order. */
template <int M> __device__ __forceinline__ void team_sum(float (&x)[M], team_memory<M> &memory)
{
#pragma unroll
    for (int m = 0; m < M; m++)
        x[m] = warp_sum(x[m]);
    if (blockDim.x == WARP)
        return;
    team_exchange(x, memory, 0.0f);
#pragma unroll
    for (int m = 0; m < M; m++)
        x[m] = warp_sum(x[m]);
}

__device__ __forceinline__ float team_sum(float x, team_memory<1> &memory)
{
    float one[1] = {x};
    team_sum(one, memory);
    return one[0];
}

__device__ __forceinline__ float team_max(float x, team_memory<1> &memory)
{
    float one[1] = {warp_max(x)};
    if (blockDim.x == WARP)
        return one[0];
    team_exchange(one, memory, -CUDART_INF_F);
    return warp_max(one[0]);
}

/* -- Several sums at once ---------------------------------------------------------------------------------------- */

/* Synchronises the threads of a team. SEVERAL: the block may have several teams, which do not wait for each other. */
template <bool SEVERAL> __device__ __forceinline__ void team_wait()
{
    if (SEVERAL && blockDim.y > 1)
        asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
    else
        __syncthreads();
}

/* Returns to lane l the sum over the warp of value l % M, in a fixed order; M is a power of two. In each exchange a
 * lane keeps half of its values and sends the other half: M + log2(32 / M) - 1 exchanges for M sums. */
template <int M> __device__ __forceinline__ float warp_sums(float (&x)[M])
{
#pragma unroll
    for (int half = M / 2; half > 0; half /= 2) {
        bool upper = threadIdx.x & half;
#pragma unroll
        for (int i = 0; i < half; i++) {
            float kept = upper ? x[i + half] : x[i], sent = upper ? x[i] : x[i + half];
            x[i] = kept + __shfl_xor_sync(0xffffffffu, sent, half);
        }
    }
#pragma unroll
    for (int offset = WARP / 2; offset >= M; offset /= 2)
        x[0] += __shfl_xor_sync(0xffffffffu, x[0], offset);
    return x[0];
}

/* Returns the sums over the team to each of its threads, in a fixed order. `memory`: M values for each warp of the
 * block; consecutive calls alternate between two buffers, so that one barrier per call suffices. SEVERAL: the block may
 * have several teams of several warps. WARPS: the most warps of a team. */
template <bool SEVERAL, int WARPS = TEAM_WARPS, int M>
__device__ __forceinline__ void team_sums(float (&x)[M], float *memory)
{
    int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    float sum = warp_sums(x);
    if (warps > 1) {
        memory += threadIdx.y * warps * M;
        if (lane < M)
            memory[threadIdx.x / WARP * M + lane] = sum;
        team_wait<SEVERAL>();
        sum = 0.0f;
#pragma unroll
        for (int i = 0; i < (WARPS * M + WARP - 1) / WARP; i++)
            if (i * WARP + lane < warps * M)
                sum += memory[i * WARP + lane];
#pragma unroll
        for (int offset = WARP / 2; offset >= M; offset /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
#pragma unroll
    for (int m = 0; m < M; m++)
        x[m] = __shfl_sync(0xffffffffu, sum, m);
}

#endif
