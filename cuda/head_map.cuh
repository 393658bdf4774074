/* Rows of one head, as the device's copy engine (TMA) brings them: it takes a description of the matrix, one thread's
 * word, and announces the bytes at a barrier in shared memory. Products may read them then without a fence. */
#ifndef CUDA_HEAD_MAP_CUH
#define CUDA_HEAD_MAP_CUH

#include "cuda/warpgroup.cuh"

#include <cuda.h>

struct tensor;

/* Describes bf16 x [rows, heads * head_dim], from which `rows` rows of `width` columns (16, 32 or 64) of a head are
 * brought at a time. Its rows must begin at multiples of 16 bytes. A parameter of a kernel is where it belongs. */
CUtensorMap head_map(const struct tensor &x, int64_t head_dim, int width, int rows);

/* ROWS rows of a head, from `row` on, into a tile of DIM columns; zeros behind the last row of the matrix and the last
 * column of the head. By one thread, which arrives at `filled`; the bytes are there when its phase ends. */
template <int ROWS, int DIM>
__device__ __forceinline__ void bring_rows(char *tile, const CUtensorMap &from, int head, int row, uint64_t *filled)
{
    using panels = panels<ROWS, DIM>;
    barrier_arrive_expecting(filled, panels::bytes);
#pragma unroll
    for (int i = 0; i < DIM / panels::width; i++)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
                     "%3, %4}], [%5];\n" ::"r"(shared_address(tile + i * panels::panel_bytes)),
                     "l"(&from), "r"(i * panels::width), "r"(head), "r"(row), "r"(shared_address(filled))
                     : "memory");
}

#endif
