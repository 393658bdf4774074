/* Shared code of attention forward and backward by warpgroups (sm_90a, bf16). The last warpgroup of a block takes items
 * and copies tiles; each other warpgroup computes 64 rows of an item. mbarriers synchronise them; the copies are
 * several tiles and up to one item ahead. */
#ifndef CUDA_ATTENTION_WARPGROUP_CUH
#define CUDA_ATTENTION_WARPGROUP_CUH

#include "cuda/attention_work.cuh"
#include "cuda/places.cuh"

enum { WARPGROUP_ROWS = 64, ITEM_SLOTS = 4 };

/* A block takes the ticket of its next item when this number of tiles of the current item is left to copy. Then it does
 * not wait for the ticket, and no item waits for a block that is still busy. */
enum { TICKET_AHEAD = 4 };

/* Counts the tiles left of an item, and calls take() when it is time for the next ticket. */
struct tiles_left {
    int count;
    template <typename F> __device__ __forceinline__ tiles_left(int tiles, F take) : count(tiles)
    {
        if (count < TICKET_AHEAD)
            take();
    }
    template <typename F> __device__ __forceinline__ void next(F take)
    {
        if (count-- == TICKET_AHEAD)
            take();
    }
};

/* Copies rows 0 .. rows - 1 and columns 0 .. dim - 1 from `from` to a tile, with zeros elsewhere. Called by all threads
 * of a warpgroup. */
template <int ROWS, int DIM>
__device__ __forceinline__ void bring_tile(char *tile, const __nv_bfloat16 *from, int64_t stride, int rows, int dim)
{
    constexpr int chunks = DIM / 8, step = WARPGROUP / chunks < ROWS ? WARPGROUP / chunks : ROWS;
    static_assert(step % 8 == 0 && ROWS % step == 0, "the permutation is that of the first row");
    int thread = threadIdx.x % WARPGROUP, chunk = thread % chunks, row = thread / chunks;
    if (row >= step)
        return;
    from += row * stride + chunk * 8;
    tile += panels<ROWS, DIM>::chunk_at(row, chunk);
    rows = chunk * 8 < dim ? rows - row : 0;
#pragma unroll
    for (int i = 0; i < ROWS / step; i++, from += step * stride)
        copy_async<16>(tile + i * step * panels<ROWS, DIM>::row_bytes, from, i * step < rows);
}

/* Rounds an accumulator to bf16 pairs, the left operand of the next product. */
template <int TILES>
__device__ __forceinline__ void pairs_of(const float (&p)[TILES][4], uint32_t (&pairs)[TILES / 2][4])
{
#pragma unroll
    for (int k = 0; k < TILES / 2; k++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            pairs[k][e] = pair_of(p[2 * k + e / 2][e % 2 * 2], p[2 * k + e / 2][e % 2 * 2 + 1]);
}

#endif
