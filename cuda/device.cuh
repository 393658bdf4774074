/* Device code that kernels share: values of several types as f32, 16-byte accesses, sums over warps and blocks. */
#ifndef CUDA_DEVICE_CUH
#define CUDA_DEVICE_CUH

#include "cuda/kernel.h"

#include <cuda_bf16.h>
#include <stdint.h>

enum { WARP = 32 };

__device__ __forceinline__ float to_float(float x)
{
    return x;
}

__device__ __forceinline__ float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* Round to nearest even. */
template <typename T> __device__ __forceinline__ T from_float(float x);

template <> __device__ __forceinline__ float from_float<float>(float x)
{
    return x;
}

template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* N neighbouring elements, moved by one access where they are 16 bytes. */
template <typename T, int N> struct alignas(sizeof(T) * N) pack {
    T at[N];
};

template <typename T> constexpr int pack_width = 16 / sizeof(T);

template <typename T, int N> __device__ __forceinline__ void load(const T *from, float (&to)[N])
{
    pack<T, N> p = *reinterpret_cast<const pack<T, N> *>(from);
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = to_float(p.at[i]);
}

template <typename T, int N> __device__ __forceinline__ void store(T *to, const float (&from)[N])
{
    pack<T, N> p;
#pragma unroll
    for (int i = 0; i < N; i++)
        p.at[i] = from_float<T>(from[i]);
    *reinterpret_cast<pack<T, N> *>(to) = p;
}

/* Every lane gets the sum. The order is fixed. */
__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

__device__ __forceinline__ double warp_sum(double x)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
    return x;
}

/* Every thread of the block gets the sum, in a fixed order; `shared` has a value for each warp. */
template <typename V> __device__ __forceinline__ V block_sum(V x, V *shared)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_sum(x);
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    x = lane < warps ? shared[lane] : V(0);
    x = warp_sum(x);
    __syncthreads();
    return x;
}

/* A tensor as kernels get it. */
template <typename T> struct view {
    T *data;
    int64_t rows, cols, stride;
    __device__ __forceinline__ T *row(int64_t r) const
    {
        return data + r * stride;
    }
};

template <typename T> inline view<T> view_of(const struct tensor &t)
{
    return {static_cast<T *>(t.data), t.rows, t.cols, t.stride};
}

/* Can rows of these be moved by N-element packs? */
inline bool packs_fit(const struct tensor &t, int n)
{
    int64_t bytes = dtype_size(t.dtype) * n;
    return t.cols % n == 0 && (t.rows <= 1 || t.stride % n == 0) && reinterpret_cast<uintptr_t>(t.data) % bytes == 0;
}

/* Calls f with a value of the element type that `dtype` says, f32 or bf16: visit(t.dtype, [&](auto zero) { using T =
 * decltype(zero); ... }). */
template <typename F> inline void visit(enum dtype dtype, F f)
{
    if (dtype == DTYPE_BF16)
        f(__nv_bfloat16());
    else
        f(float());
}

inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
