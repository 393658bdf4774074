/* Device code that all kernels share: conversion of several types to f32, 16-byte accesses, sums over warps and thread
 * blocks. */
#ifndef CUDA_DEVICE_CUH
#define CUDA_DEVICE_CUH

#include "cuda/address.h"
#include "cuda/kernel.h"

extern "C" {
#include "base/error.h"
}

#include <cuda_bf16.h>
#include <initializer_list>
#include <stdint.h>
#include <type_traits>

enum { WARP = 32 };

__device__ __forceinline__ float to_float(float x)
{
    return x;
}

__device__ __forceinline__ float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* Rounds to nearest even. */
template <typename T> __device__ __forceinline__ T from_float(float x);

template <> __device__ __forceinline__ float from_float<float>(float x)
{
    return x;
}

template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* N consecutive elements, moved by one access if they have at most 16 bytes. */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack {
    T at[N];
};

template <typename T> constexpr int pack_width = 16 / sizeof(T);

template <int N, typename T> __device__ __forceinline__ pack<T, N> load_pack(const T *from)
{
    return *reinterpret_cast<const pack<T, N> *>(from);
}

template <int BYTES> struct pack_word {
    using type = uint4; /* one or more words */
};
template <> struct pack_word<8> {
    using type = uint2;
};
template <> struct pack_word<4> {
    using type = unsigned int;
};
template <> struct pack_word<2> {
    using type = unsigned short;
};
template <> struct pack_word<1> {
    using type = unsigned char;
};

/* Stores a pack in global memory (no other state space). It uses explicit store instructions because the compiler would
 * split the assignment of a struct. */
template <typename T, int N> __device__ __forceinline__ void store_pack(T *to, const pack<T, N> &from)
{
    using word = typename pack_word<sizeof(T) * N>::type;
#pragma unroll
    for (int i = 0; i < (int)(sizeof from / sizeof(word)); i++)
        __stwb(reinterpret_cast<word *>(to) + i, reinterpret_cast<const word *>(&from)[i]);
}

/* Writes the first `count` of N elements. WHOLE: writes all of them with one access. */
template <bool WHOLE, typename T, int N, typename Count>
__device__ __forceinline__ void write_some(T *to, const pack<T, N> &from, Count count)
{
    if constexpr (WHOLE) {
        store_pack(to, from);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < count)
                to[i] = from.at[i];
    }
}

template <typename T, int N> __device__ __forceinline__ void unpack(const pack<T, N> &from, float (&to)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = to_float(from.at[i]);
}

/* bf16 is the upper half of f32, so each element takes one instruction. */
template <int N> __device__ __forceinline__ void unpack(const pack<__nv_bfloat16, N> &from, float (&to)[N])
{
    if constexpr (N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            uint32_t both = reinterpret_cast<const uint32_t *>(&from)[i / 2];
            to[i] = __uint_as_float(both << 16);
            to[i + 1] = __uint_as_float(both & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = to_float(from.at[i]);
    }
}

template <typename T, int N> __device__ __forceinline__ void load(const T *from, float (&to)[N])
{
    unpack(load_pack<N>(from), to);
}

template <typename T, int N> __device__ __forceinline__ pack<T, N> rounded(const float (&from)[N])
{
    pack<T, N> p;
#pragma unroll
    for (int i = 0; i < N; i++)
        p.at[i] = from_float<T>(from[i]);
    return p;
}

template <typename T, int N> __device__ __forceinline__ void store(T *to, const float (&from)[N])
{
    store_pack(to, rounded<T>(from));
}

/* Returns 2^x with a relative error of at most 4 roundings; 0 where the result would be denormal. */
__device__ __forceinline__ float power_of_2(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

/* Returns exp(x) with a relative error of at most |x| + 4 roundings. log2(e) is in two parts, so that only the
 * multiplication rounds. */
__device__ __forceinline__ float exponential(float x)
{
    return power_of_2(fmaf(x, 0x1.715476p0f, x * 0x1.4ae0cp-26f));
}

/* Returns 1 / x with an error of at most 2 roundings, for x whose reciprocal is a normal number. */
__device__ __forceinline__ float reciprocal(float x)
{
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

/* Sigmoid of x and its complement, 1 / (1 + exp(x)), both with a small relative error. */
struct sigmoid {
    float value, complement;
};

__device__ __forceinline__ struct sigmoid sigmoid_of(float x)
{
    float e = exponential(-fabsf(x)), large = reciprocal(1.0f + e), small = e * large;
    return {x < 0.0f ? small : large, x < 0.0f ? large : small};
}

/* Returns the sum over the warp to every lane. The order is fixed. */
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

/* Returns the sum over the thread block to every thread, in a fixed order. `shared` has one element per warp. */
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

/* A tensor as kernels receive it. */
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
    if (!address_counts_fit(t.rows, 0))
        error_fatal("cuda executor: a matrix of %lld rows: at most 2^31 - 1", (long long)t.rows);
    return {static_cast<T *>(t.data), t.rows, t.cols, t.stride};
}

/* Returns whether an n-element pack may start at every row. */
inline bool rows_fit(const struct tensor &t, int n)
{
    int64_t bytes = dtype_size(t.dtype) * n;
    return (t.rows <= 1 || t.stride % n == 0) && reinterpret_cast<uintptr_t>(t.data) % (bytes < 16 ? bytes : 16) == 0;
}

/* Returns whether rows also consist of whole n-element packs. */
inline bool packs_fit(const struct tensor &t, int n)
{
    return t.cols % n == 0 && rows_fit(t, n);
}

/* Calls f with a value of the element type `dtype`, f32 or bf16: visit(t.dtype, [&](auto zero) { using T =
 * decltype(zero); ... }). */
template <typename F> inline void visit(enum dtype dtype, F f)
{
    if (dtype == DTYPE_BF16)
        f(__nv_bfloat16());
    else
        f(float());
}

/* As visit, and also passes f the width of packs that fits all tensors: 16 bytes or one element. All tensors have the
 * first one's type or are absent: visit_packs({x, y}, [&](auto zero, auto width) { constexpr int N =
 * decltype(width)::value; ... }). */
template <typename F> inline void visit_packs(std::initializer_list<struct tensor> tensors, F f)
{
    visit(tensors.begin()->dtype, [&](auto zero) {
        constexpr int widest = pack_width<decltype(zero)>;
        bool fit = true;
        for (const struct tensor &t : tensors)
            fit = fit && (!tensor_present(&t) || packs_fit(t, widest));
        if (fit)
            f(zero, std::integral_constant<int, widest>());
        else
            f(zero, std::integral_constant<int, 1>());
    });
}

/* Calls f with two booleans as compile-time constants. */
template <typename F> inline void visit_bools(bool a, bool b, F f)
{
    auto second = [&](auto first) {
        if (b)
            f(first, std::true_type());
        else
            f(first, std::false_type());
    };
    if (a)
        second(std::true_type());
    else
        second(std::false_type());
}

inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
