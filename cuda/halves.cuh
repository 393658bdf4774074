/* f32 numbers stored as bf16 and a 16-bit remainder: f32_high, f32_low, f32_high_alone and f32_joined of
 * core/dtype.h. */
#ifndef CUDA_HALVES_CUH
#define CUDA_HALVES_CUH

#include "cuda/device.cuh"

__device__ __forceinline__ float joined(uint16_t high, int16_t low)
{
    return __uint_as_float(((uint32_t)high << 16) + (uint32_t)(int32_t)low);
}

/* Stores f32 values as bf16 and remainders. low may be NULL: a NaN then stays NaN. */
template <int N> __device__ __forceinline__ void store_split(const float (&from)[N], uint16_t *high, int16_t *low)
{
    pack<uint16_t, N> first;
    pack<int16_t, N> rest;
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint32_t bits = __float_as_uint(from[i]);
        const bool nan = low == NULL && (bits & 0x7fffffffu) > 0x7f800000u;
        first.at[i] = (uint16_t)(nan ? bits >> 16 | 0x40u : (bits + 0x8000u) >> 16);
        rest.at[i] = (int16_t)bits;
    }
    store_pack(high, first);
    if (low != NULL)
        store_pack(low, rest);
}

#endif
