/* Address arithmetic of kernels for the elements of a matrix. It is also plain C, so that tests/t_far.c checks the
 * 32-bit limits without a GPU. */
#ifndef CUDA_ADDRESS_H
#define CUDA_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ADDRESS_INLINE __host__ __device__ __forceinline__
#else
#define ADDRESS_INLINE static inline
#endif

/* Returns whether row and pack indices fit in 32 bits, which kernels use since registers limit the loads that a thread
 * has in flight. A thread's index exceeds the last row or pack by up to one grid, so the limit is half of the range. */
ADDRESS_INLINE bool address_counts_fit(int64_t rows, int64_t packs)
{
    return rows <= INT32_MAX && packs <= INT32_MAX;
}

/* Returns whether 32 bits hold the stride in bytes; always true for a single row. */
ADDRESS_INLINE bool address_stride_fits(int64_t rows, int64_t stride_bytes)
{
    return rows <= 1 || stride_bytes <= UINT32_MAX;
}

/* Returns the bytes from a matrix's first row to row `row`. Rows may be 4 GiB and more apart. */
ADDRESS_INLINE uint64_t address_row(uint32_t row, int64_t stride_bytes)
{
    return row * (uint64_t)stride_bytes;
}

/* Returns the bytes from the start of a row to pack `pack`. A row may have 4 GiB and more. */
ADDRESS_INLINE uint64_t address_pack(uint32_t pack, uint32_t pack_bytes)
{
    return (uint64_t)pack * pack_bytes;
}

#endif
