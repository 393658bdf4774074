/* The shape of kernels that work by rows: a team of blockDim.x threads takes a row. A block has one team of several
 * warps, or blockDim.y teams of one warp each, which need not wait for each other. */
#ifndef CUDA_TEAM_CUH
#define CUDA_TEAM_CUH

#include "cuda/device.cuh"

#include <math_constants.h>

/* The multiprocessors of the GPU that these kernels were cut for. Where sums depend on how many blocks there are it
 * stands for the target's, so that they depend on the shape alone. */
enum { USUAL_MULTIPROCESSORS = 132 };

enum { TEAM_WARPS = 16, TEAM_THREADS = TEAM_WARPS * WARP }; /* at most */

/* Teams of as many threads as give each about `each` packs of a row, at most `most`; small teams share a block. */
inline dim3 team_block(int64_t packs, int each, int64_t most)
{
    enum { SMALL_TEAMS = 8 };
    int64_t team = ceil_div(ceil_div(packs, each), WARP) * WARP;
    return team <= WARP ? dim3(WARP, SMALL_TEAMS) : dim3((unsigned)(team < most ? team : most));
}

/* Blocks for a row a team, at most `most`. */
inline unsigned team_blocks(int64_t rows, dim3 block, int64_t most)
{
    int64_t needed = ceil_div(rows, block.y);
    return (unsigned)(needed < most ? needed : most);
}

/* Memory through which the warps of a team exchange M values each. */
template <int M> struct team_memory {
    float of[M][WARP]; /* a block has no more warps */
};

/* Lane i gets warp i's values; lanes without a warp get `other`. */
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

/* Every thread of the team gets the sums over the team, in a fixed order. */
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

/* All threads of a team wait for each other; other teams of the block, which there are only where SEVERAL is true, do
 * not. */
template <bool SEVERAL> __device__ __forceinline__ void team_wait()
{
    if (SEVERAL && blockDim.y > 1)
        asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
    else
        __syncthreads();
}

/* Lane l gets the sum over the warp of value l % M, in a fixed order; M is a power of two. Of what two lanes hold each
 * keeps a half and sends the other: M + log2(32 / M) - 1 exchanges for M sums. */
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

/* Every thread of the team gets the sums over the team, in a fixed order. `memory`: of M values for each warp of the
 * block; two calls in a row use two memories, so that one wait a call is enough. SEVERAL: may the block have several
 * teams of several warps? WARPS: of a team, at most. */
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
