/* Shared by the attention backward kernels that compute scores once: sums of dq, to which several blocks add. */
#ifndef CUDA_ATTENTION_BACKWARD_ONCE_CUH
#define CUDA_ATTENTION_BACKWARD_ONCE_CUH

#include "cuda/attention_backward.cuh"
#include "cuda/head_map.cuh"

enum { DQ_GROUP = 16 };

/* Tensor maps (TMA) of keys, values, queries and d_o. */
struct once_maps {
    struct head_maps x, y, other_x, other_y;
};

/* Sums of dq in f32: [heads, queries, room]. Rows of a whole tile of queries have the order of its accumulators, so
 * that a warp adds to consecutive addresses: [part][warp][half][16 columns][lane][4]. A segment's last tile, if it is
 * not whole, is stored by rows; in each 16 columns a lane's elements are consecutive. */
template <typename MASK> struct once_call : backward_call<MASK> {
    struct once_maps maps; /* if TMA copies tiles */
    float *dq;
    uint32_t head_stride; /* of dq, in elements */
};

/* Adds four numbers atomically, predicated without a branch, because wgmma instructions are in flight. */
__device__ __forceinline__ void add_four(float *to, bool real, float a, float b, float c, float d)
{
    asm volatile("{\n.reg .pred real;\nsetp.ne.b32 real, %5, 0;\n"
                 "@real red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};\n}\n" ::"l"(to),
                 "f"(a), "f"(b), "f"(c), "f"(d), "r"(static_cast<int>(real))
                 : "memory");
}

/* As finished(float), for numbers that are not negative. */
template <int TILES> __device__ __forceinline__ void finished(const float (&x)[TILES][4])
{
    uint32_t any = 0;
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            any |= __float_as_uint(x[j][e]);
    asm volatile("{\n.reg .pred never;\nsetp.lt.s32 never, %0, 0;\n@never st.shared.b32 [%1], %0;\n}\n" ::"r"(any),
                 "r"(0)
                 : "memory");
}

/* Destination of a tile's dq. */
struct dq_tile {
    uint32_t first; /* index in the sums */
    int rows;
};

/* A warp's part of a tile of dq. */
struct dq_part {
    int row, col; /* in the tile */
    int at;       /* offset in a whole tile */
};

template <typename plan> __device__ __forceinline__ struct dq_part dq_part_of(int warp)
{
    constexpr bool by_rows = plan::others > WARPGROUP_ROWS;
    return {(by_rows ? warp : warp % 4) * 16, by_rows ? 0 : warp / 4 * plan::part, warp * 16 * plan::part};
}

/* Returns the part without its first `group` groups of columns. */
__device__ __forceinline__ struct dq_part from_group(const struct dq_part &part, int group)
{
    return {part.row, part.col + group * DQ_GROUP, part.at + group * WARP * 4};
}

/* Calls f for each four numbers that a lane has in the first GROUPS groups of 16 columns. Arguments of f: half, group,
 * address in `sums`, and whether the numbers exist: in a row of the tile, and in a group that begins before column
 * `dim`. */
template <typename plan, int GROUPS = plan::part / DQ_GROUP, typename F>
__device__ __forceinline__ void for_each_four(float *sums, const struct dq_part &part, const struct dq_tile &tile,
                                              int dim, F f)
{
    bool whole = tile.rows >= plan::others;
    int row = part.row + fragment_row();
    float *to = sums + (tile.first +
                        (whole ? part.at + lane_of_thread() * 4 : row * plan::room + part.col + 2 * fragment_col()));
    int group_step = whole ? WARP * 4 : DQ_GROUP, half_step = whole ? plan::part / DQ_GROUP * WARP * 4 : 8 * plan::room;
#pragma unroll
    for (int half = 0; half < 2; half++, to += half_step)
#pragma unroll
        for (int group = 0; group < GROUPS; group++)
            f(half, group, to + group * group_step, part.col + group * DQ_GROUP < dim && row + 8 * half < tile.rows);
}

/* Starts d = own other', for a warpgroup's rows of one tile and all rows of another. */
template <typename plan>
__device__ __forceinline__ void begin_product(float (&d)[plan::others / 8][4], uint64_t own, uint64_t other)
{
    products_begin();
#pragma unroll
    for (int step = 0; step < plan::dim / 16; step++)
        multiply(d, plan::own_tile::along_columns(own, step), plan::other_tile::along_columns(other, step), step > 0);
    products_group();
}

/* Turns p, scores, and ds, values times d_o, into probabilities and gradients of scores, also as bf16 pairs (weights,
 * left): for 16 keys of a warp from `first` of the segment on, and a tile of queries from `at` on. On entry p and ds
 * are in flight as two groups of wgmma. */
template <typename plan, typename MASK>
__device__ __forceinline__ void
make_gradients(const backward_call<MASK> &call, const struct segment &segment, int first, int at, const float *base,
               const float *delta, float (&p)[1][plan::others / 8][4], float (&ds)[plan::others / 8][4],
               uint32_t (&weights)[plan::others / 16][4], uint32_t (&left)[plan::others / 16][4])
{
    const float scale_log2 = call.scale * static_cast<float>(M_LOG2E);
    base += fragment_col(), delta += fragment_col();
    products_wait<1>();
    hold(p[0]);
    if (at < visible(segment, true, first + 15, call.mask).begin ||
        at + plan::others > visible(segment, true, first, call.mask).end)
        hide(p, segment, true, first, at, call.mask);
#pragma unroll
    for (int j = 0; j < plan::others / 8; j++) {
        float2 of = *reinterpret_cast<const float2 *>(base + 8 * j);
#pragma unroll
        for (int e = 0; e < 4; e++)
            p[0][j][e] = exp2_fast(p[0][j][e] * scale_log2 - (e % 2 ? of.y : of.x));
    }
    finished(p[0]);
    products_wait<0>();
    hold(ds);
#pragma unroll
    for (int j = 0; j < plan::others / 8; j++) {
        float2 of = *reinterpret_cast<const float2 *>(delta + 8 * j);
#pragma unroll
        for (int e = 0; e < 4; e++)
            ds[j][e] = p[0][j][e] * (ds[j][e] - (e % 2 ? of.y : of.x));
    }
    pairs_of(p[0], weights);
    pairs_of(ds, left);
}

/* Starts dy += weights other_y and dx += left other_x. */
template <typename plan>
__device__ __forceinline__ void begin_adding(float (&dx)[plan::dim / 8][4], float (&dy)[plan::dim / 8][4],
                                             const uint32_t (&weights)[plan::others / 16][4],
                                             const uint32_t (&left)[plan::others / 16][4], uint64_t other_x,
                                             uint64_t other_y)
{
    products_begin();
#pragma unroll
    for (int step = 0; step < plan::others / 16; step++)
        multiply_weighted(dy, weights[step], plan::other_tile::along_rows(other_y, step));
#pragma unroll
    for (int step = 0; step < plan::others / 16; step++)
        multiply_weighted(dx, left[step], plan::other_tile::along_rows(other_x, step));
    products_group();
}

/* Adds a warp's part of a tile's dq to the sums. */
template <typename plan, typename MASK>
__device__ __forceinline__ void add_to_sums(const struct once_call<MASK> &call, const float (&dq)[plan::part / 8][4],
                                            const struct dq_part &part, const struct dq_tile &tile)
{
    for_each_four<plan>(call.dq, part, tile, call.dim, [&](int half, int group, float *at, bool real) {
        const float(&a)[4] = dq[2 * group], (&b)[4] = dq[2 * group + 1];
        add_four(at, real, a[2 * half], a[2 * half + 1], b[2 * half], b[2 * half + 1]);
    });
}

/* Tile sizes of the kernel with clusters of two blocks: rows of queries and of keys. */
struct cluster_cut {
    static constexpr int dim = 128, room = dim, others = 64, keys = 256, part = 64;
};

/* Adds to call.dq and computes the other gradients, for heads of more than 96 columns. Fills call.maps itself.
 * (attention_backward_cluster.cu) */
void attention_backward_by_clusters(const struct cuda_target *target, const struct attention_backward_args *args,
                                    const struct once_call<struct attention_mask> &call);
void attention_backward_by_clusters(const struct cuda_target *target, const struct attention_backward_args *args,
                                    const struct once_call<struct plain_mask> &call);

#endif
