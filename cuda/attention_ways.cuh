/* The kernels of attention in one table: where each runs, which tensors it supports, and the head sizes that it is
 * compiled for. Other code reads these limits here.
 *
 * Choice: forward takes the first of DECODE, FORWARD_WARPGROUPS and FORWARD_TILES that supports the arguments; backward
 * the first of BACKWARD_WARPGROUPS and BACKWARD_TILES, or BACKWARD_ONCE where it was measured as faster
 * (cuda/attention.c). Scratch of each: the work lists of cuda/attention_work.cuh, and what its row says. */
#ifndef CUDA_ATTENTION_WAYS_CUH
#define CUDA_ATTENTION_WAYS_CUH

#include "cuda/kernel.h"

enum attention_way {
    DECODE,
    FORWARD_WARPGROUPS,
    FORWARD_TILES,
    BACKWARD_ONCE,
    BACKWARD_WARPGROUPS,
    BACKWARD_TILES,
    ATTENTION_WAYS
};

enum { MOST_HEAD_SIZES = 8 };

struct attention_limits {
    bool wgmma; /* runs on sm_90a only, and on bf16 tensors only; others run everywhere, on bf16 and f32 */
    bool packs; /* heads begin at multiples of 16 bytes in all tensors */
    /* Rising. A head is computed by the kernel of the first size that is not smaller; its other columns count as 0. */
    int head_sizes[MOST_HEAD_SIZES];
};

constexpr struct attention_limits attention_limits[ATTENTION_WAYS] = {
    /* DECODE: also, a segment has at most one query, and its keys lie elsewhere. Scratch: parts of o in f32. */
    {false, true, {CUDA_WIDEST_HEAD}},
    /* FORWARD_WARPGROUPS */
    {true, true, {16, 32, 64, 80, 96, CUDA_WIDEST_HEAD}},
    /* FORWARD_TILES */
    {false, false, {16, 32, 64, CUDA_WIDEST_HEAD}},
    /* BACKWARD_ONCE: also, indices of the sums have 32 bits. Scratch: sums of dq in f32; that of the next. */
    {true, true, {16, 32, 64, 96, CUDA_WIDEST_HEAD}},
    /* BACKWARD_WARPGROUPS. Scratch: two numbers in f32 for each query and head. */
    {true, true, {16, 32, 64, CUDA_WIDEST_HEAD}},
    /* BACKWARD_TILES. Scratch: the same. */
    {false, false, {16, 32, 64, CUDA_WIDEST_HEAD}},
};

/* Returns whether this device runs the way, and it supports heads of this size in these tensors, which have one dtype.
 * (attention_work.cu) */
bool attention_way_supports(enum attention_way way, const struct tensor *const *tensors, int count, int64_t head_dim);

/* A compile-time constant as a type. */
template <auto N> struct constant {
    static constexpr auto value = N;
};

/* Calls f with the head size of the way's kernel for heads of head_dim, as a constant<N>. Larger heads than the last
 * size are not supported; f is called with the last size. */
template <enum attention_way WAY, int I = 0, typename F> inline void visit_head_size(int64_t head_dim, F f)
{
    constexpr const int(&sizes)[MOST_HEAD_SIZES] = attention_limits[WAY].head_sizes;
    if constexpr (I + 1 == MOST_HEAD_SIZES || sizes[I + 1] == 0)
        f(constant<sizes[I]>());
    else if (head_dim <= sizes[I])
        f(constant<sizes[I]>());
    else
        visit_head_size<WAY, I + 1>(head_dim, f);
}

/* Returns whether the way has kernels for just this head size, without padding. */
inline bool attention_way_has_size(enum attention_way way, int64_t head_dim)
{
    for (int size : attention_limits[way].head_sizes)
        if (size == head_dim)
            return true;
    return false;
}

#endif
