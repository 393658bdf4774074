/* attention_merge: merges o before lse, since merging o reads the old lse. */
#include "cuda/walk.cuh"

#include <math_constants.h>

/* Weights of the two parts, and the log-sum-exp of both. */
struct weights {
    float old, part, lse;
};

static __device__ __forceinline__ struct weights weigh(float old, float part)
{
    if (old == -CUDART_INF_F && part == -CUDART_INF_F)
        return {0.0f, 0.0f, -CUDART_INF_F};
    float largest = old > part ? old : part, a = exponential(old - largest), b = exponential(part - largest);
    float sum = a + b;
    return {a / sum, b / sum, largest + logf(sum)};
}

struct merge_lses {
    view<const float> part;
    view<float> lse; /* [heads, T] */
    bool first;
    __device__ __forceinline__ float old_at(uint32_t head, uint32_t row) const
    {
        return first ? -CUDART_INF_F : lse.row(head)[row];
    }
};

/* A part with weight 0 is ignored, even if it has NaN. Each pack is inside one head. */
template <int N, typename PART, typename TO>
__global__ WALK_BOUNDS void merge_o(struct row_walk walk, struct merge_lses lses, uint32_t head_packs,
                                    view<const PART> part, view<float> o, view<TO> to)
{
    struct loaded {
        pack<PART, N> part;
        pack<float, N> o;
        float old_lse, part_lse;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t row, uint32_t p) {
            uint32_t head = p / head_packs;
            return loaded{load_pack<N>(pack_at<N>(part, row, p)), load_pack<N>(pack_at<N>(o, row, p)),
                          lses.old_at(head, row), lses.part.row(head)[row]};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            const struct weights w = weigh(in.old_lse, in.part_lse);
            float more[N], merged[N];
            unpack(in.part, more);
#pragma unroll
            for (int i = 0; i < N; i++)
                merged[i] = (w.old != 0.0f ? w.old * in.o.at[i] : 0.0f) + (w.part != 0.0f ? w.part * more[i] : 0.0f);
            store(pack_at<N>(o, row, p), merged);
            if (to.data != nullptr)
                store(pack_at<N>(to, row, p), merged);
        });
}

static __global__ WALK_BOUNDS void merge_lse(struct row_walk walk, struct merge_lses lses)
{
    walk_packs<2>(
        walk,
        [&](uint32_t head, uint32_t row) { return make_float2(lses.old_at(head, row), lses.part.row(head)[row]); },
        [&](uint32_t head, uint32_t row, float2 in) { lses.lse.row(head)[row] = weigh(in.x, in.y).lse; });
}

void cuda_attention_merge(const struct cuda_target *target, const struct attention_merge_args *args)
{
    constexpr int WIDE = pack_width<float>;
    const struct merge_lses lses = {view_of<const float>(args->part_lse), view_of<float>(args->lse), args->first};
    bool wide = args->head_dim % WIDE == 0 && packs_fit(args->part_o, WIDE) && packs_fit(args->o, WIDE) &&
                (!tensor_present(&args->to) || packs_fit(args->to, WIDE));
    auto launch_o = [&](auto width, auto part, auto to) {
        constexpr int N = decltype(width)::value;
        using PART = decltype(part);
        using TO = decltype(to);
        walk_launch(target, "attention_merge", merge_o<N, PART, TO>, args->o.rows, args->o.cols / N, lses,
                    (uint32_t)(args->head_dim / N), view_of<const PART>(args->part_o), view_of<float>(args->o),
                    view_of<TO>(args->to));
    };
    visit(args->part_o.dtype, [&](auto part) {
        visit(args->to.dtype, [&](auto to) {
            if (wide)
                launch_o(std::integral_constant<int, WIDE>(), part, to);
            else
                launch_o(std::integral_constant<int, 1>(), part, to);
        });
    });
    walk_launch(target, "attention_merge", merge_lse, args->lse.rows, args->lse.cols, lses);
}
