/* Rows of one head, as the device's copy engine (TMA) brings them: it takes a description of the matrix, one thread's
 * word, and announces the bytes at a barrier in shared memory. Products may read them then without a fence. */
#ifndef CUDA_HEAD_MAP_CUH
#define CUDA_HEAD_MAP_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

#include <cuda.h>

struct tensor;

/* Describes bf16 x [rows, heads * head_dim], from which `rows` rows of `width` columns (16, 32 or 64) of a head are
 * brought at a time. Its rows must begin at multiples of 16 bytes. A parameter of a kernel is where it belongs. */
CUtensorMap head_map(const struct tensor &x, int64_t head_dim, int width, int rows);

/* The rows and columns that `map` says, from row and col of a head on, to shared memory; zeros behind the last row of
 * the matrix and the last column of the head. By one thread; the bytes are there when the phase of `filled` ends, which
 * is to expect them. BOTH: to the same places in both blocks of a cluster, and the bytes announce themselves in both.
 */
template <bool BOTH = false>
__device__ __forceinline__ void bring_box(char *to, const CUtensorMap &map, int col, int head, int row,
                                          uint64_t *filled)
{
    if constexpr (BOTH)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;\n" ::"r"(shared_address(to)),
                     "l"(&map), "r"(col), "r"(head), "r"(row), "r"(shared_address(filled)),
                     "h"(static_cast<uint16_t>(3))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
                     "%3, %4}], [%5];\n" ::"r"(shared_address(to)),
                     "l"(&map), "r"(col), "r"(head), "r"(row), "r"(shared_address(filled))
                     : "memory");
}

/* ROWS rows of a head, from `row` on, into a tile of DIM columns. By one thread, which arrives at `filled`. */
template <int ROWS, int DIM>
__device__ __forceinline__ void bring_rows(char *tile, const CUtensorMap &from, int head, int row, uint64_t *filled)
{
    using panels = panels<ROWS, DIM>;
    barrier_arrive_expecting(filled, panels::bytes);
#pragma unroll
    for (int i = 0; i < DIM / panels::width; i++)
        bring_box(tile + i * panels::panel_bytes, from, i * panels::width, head, row, filled);
}

/* A matrix of which parts of tiles are brought too: by tiles, by eight rows and by one. */
struct head_maps {
    CUtensorMap whole, eight, one;
};

struct head_maps head_maps(const struct tensor &x, int64_t head_dim, int width, int rows);

/* The first `rows` of ROWS rows of a head, or all where that is more, into COUNT panels of a tile of DIM columns, from
 * panel `first` on. No row behind them is read, and those of the tile stay as they are. By a warp. */
template <int ROWS, int DIM, int COUNT, bool BOTH>
__device__ __forceinline__ void bring_panels(char *tile, const struct head_maps &from, int head, int row, int rows,
                                             int first, uint64_t *filled)
{
    using panels = panels<ROWS, DIM>;
    int lane = threadIdx.x % WARP, eights = rows / 8, boxes = rows < ROWS ? eights + rows % 8 : 1;
#pragma unroll 1
    for (int i = lane; i < boxes * COUNT; i += WARP) {
        int panel = first + i % COUNT, box = i / COUNT, down = box < eights ? box * 8 : eights * 7 + box;
        const CUtensorMap &map = rows >= ROWS ? from.whole : box < eights ? from.eight : from.one;
        bring_box<BOTH>(tile + panel * panels::panel_bytes + down * panels::row_bytes, map, panel * panels::width, head,
                        row + down, filled);
    }
}

/* The same of all panels, by a warp that is yet to arrive at `filled`. */
template <int ROWS, int DIM>
__device__ __forceinline__ void bring_part(char *tile, const struct head_maps &from, int head, int row, int rows,
                                           int /* head_dim */, uint64_t *filled)
{
    if (threadIdx.x % WARP == 0)
        barrier_expect(filled, min(rows, ROWS) * DIM * 2);
    __syncwarp();
    bring_panels<ROWS, DIM, DIM / panels<ROWS, DIM>::width, false>(tile, from, head, row, rows, 0, filled);
}

#endif
