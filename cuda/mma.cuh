/* Instructions for tiles in shared memory on sm_80 and newer: asynchronous copies, matrix fragments, tensor core
 * multiplication. Shared memory addresses have 32 bits. */
#ifndef CUDA_MMA_CUH
#define CUDA_MMA_CUH

#include <stdint.h>

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* Copies BYTES (4, 8 or 16) asynchronously from global to shared memory, or writes zeros, without a read, unless
 * `real`. */
template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from, bool real)
{
    if (BYTES == 16) /* bypasses the L1 cache */
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from),
                     "r"(real ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(shared_address(to)), "l"(from), "n"(BYTES),
                     "r"(real ? BYTES : 0)
                     : "memory");
}

/* Waits until this thread's copies are complete; other threads see them after a barrier. */
__device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}

/* Loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8, and gets from
 * each matrix element (l / 4, 2 (l % 4)) and the next one of its row. */
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

/* As load_matrices, but transposed: lane l gets element (2 (l % 4), l / 4) and the next one of its column. */
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

/* Stores four matrices in the layout of load_matrices. */
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&from)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

/* d [16, 8] += a [16, 16] b [16, 8], bf16 to f32. With r = l / 4 and c = 2 (l % 4), lane l has these elements:
 *
 *    d               (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1)
 *    a               pairs from (r, c), (r + 8, c), (r, c + 8), (r + 8, c + 8)
 *    b' [8, 16]      pairs from (r, c), (r, c + 8) */
__device__ __forceinline__ void multiply_16_8_16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Returns x, but prevents the compiler from keeping derived values in registers between iterations of a loop. */
__device__ __forceinline__ uint32_t recomputed(uint32_t x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* Returns 2^x with a relative error of at most 2^-22; 0 for -infinity and where the result would be denormal. */
__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

#endif
