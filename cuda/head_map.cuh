/* Rows of one attention head, copied to shared memory by TMA. One thread starts a copy, given a tensor map of the
 * matrix, and an mbarrier counts the bytes. wgmma may then read the tile without a fence. */
#ifndef CUDA_HEAD_MAP_CUH
#define CUDA_HEAD_MAP_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

#include <cuda.h>

struct tensor;

/* Returns a tensor map of bf16 x [rows, heads * head_dim] with boxes of `rows` rows and `width` columns (16, 32 or 64)
 * of a head. Rows of x must be aligned to 16 bytes. Pass the map to kernels as a parameter. */
CUtensorMap head_map(const struct tensor &x, int64_t head_dim, int width, int rows);

/* Starts the copy of a box, from `row` and `col` of a head on, to shared memory, with zeros after the matrix's last row
 * and the head's last column. Called by one thread. The copy is complete when the phase of `filled` ends; the phase
 * must expect the bytes. BOTH: copies to the same address in both blocks of a cluster, and counts the bytes at both
 * mbarriers. */
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

/* Starts the copy of ROWS rows of a head, from `row` on, to a tile of DIM columns. Called by one thread, which arrives
 * at `filled`. */
template <int ROWS, int DIM>
__device__ __forceinline__ void bring_rows(char *tile, const CUtensorMap &from, int head, int row, uint64_t *filled)
{
    using panels = panels<ROWS, DIM>;
    barrier_arrive_expecting(filled, panels::bytes);
#pragma unroll
    for (int i = 0; i < DIM / panels::width; i++)
        bring_box(tile + i * panels::panel_bytes, from, i * panels::width, head, row, filled);
}

/* Tensor maps of a matrix from which partial tiles are copied too: boxes of a whole tile, eight rows, and one row. */
struct head_maps {
    CUtensorMap whole, eight, one;
};

struct head_maps head_maps(const struct tensor &x, int64_t head_dim, int width, int rows);

/* Starts the copy of the first min(rows, ROWS) rows of a head's tile, to COUNT panels of a tile of DIM columns, from
 * panel `first` on. Rows after them are neither read nor written. Called by a warp. */
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

/* As bring_panels, for all panels and by a warp that has not arrived at `filled` yet. */
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
