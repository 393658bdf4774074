/* Where kernels find the elements of a matrix. Plain C too, so that tests/t_addresses.c checks the limits of 32 bits
 * without a GPU. */
#ifndef CUDA_ADDRESS_H
#define CUDA_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ADDRESS_INLINE __host__ __device__ __forceinline__
#else
#define ADDRESS_INLINE static inline
#endif

/* Kernels number rows, and packs in a row, in 32 bits, since registers limit how many loads a thread has in flight. A
 * thread's number grows by one grid beyond the last row or pack, so the limit is half of what 32 bits hold. */
ADDRESS_INLINE bool address_counts_fit(int64_t rows, int64_t packs)
{
    return rows <= INT32_MAX && packs <= INT32_MAX;
}

/* Do 32 bits hold the bytes from a row to the next, where there are several? */
ADDRESS_INLINE bool address_stride_fits(int64_t rows, int64_t stride_bytes)
{
    return rows <= 1 || stride_bytes <= UINT32_MAX;
}

/* Bytes from a matrix's first row to row `row`: rows may be 4 GiB and more apart. */
ADDRESS_INLINE uint64_t address_row(uint32_t row, int64_t stride_bytes)
{
    return row * (uint64_t)stride_bytes;
}

/* Bytes from the start of a row to pack `pack`: a row may have 4 GiB and more. */
ADDRESS_INLINE uint64_t address_pack(uint32_t pack, uint32_t pack_bytes)
{
    return (uint64_t)pack * pack_bytes;
}

#endif
