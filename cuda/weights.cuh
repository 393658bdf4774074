/* The weights that an optimizer's step reads and writes: in one type, or in halves. */
#ifndef CUDA_WEIGHTS_CUH
#define CUDA_WEIGHTS_CUH

#include "cuda/halves.cuh"

/* Weights, in one type or as bf16 and remainders, and the type of their moments. */
template <typename T> struct whole_weights {
    using state = T;
    T *at;
    template <int N> using loaded = pack<T, N>;
    template <int N> __device__ __forceinline__ loaded<N> load(int64_t i) const
    {
        return load_pack<N>(at + i);
    }
    template <int N> static __device__ __forceinline__ float number(const loaded<N> &in, int i)
    {
        return to_float(in.at[i]);
    }
    template <int N> __device__ __forceinline__ void keep(int64_t i, const float (&to)[N]) const
    {
        store(at + i, to);
    }
};

struct halved_weights {
    using state = float;
    uint16_t *high;
    int16_t *low;
    template <int N> struct loaded {
        pack<uint16_t, N> high;
        pack<int16_t, N> low;
    };
    template <int N> __device__ __forceinline__ loaded<N> load(int64_t i) const
    {
        return {load_pack<N>(high + i), load_pack<N>(low + i)};
    }
    template <int N> static __device__ __forceinline__ float number(const loaded<N> &in, int i)
    {
        return joined(in.high.at[i], in.low.at[i]);
    }
    template <int N> __device__ __forceinline__ void keep(int64_t i, const float (&to)[N]) const
    {
        store_split(to, high + i, low + i);
    }
};

#endif
