/* The sum over ranks of what copies have brought together. */
#include "cuda/walk.cuh"

template <int N> __global__ WALK_BOUNDS void rank_sum(struct walk walk, view<const float> parts, int ranks, float *sum)
{
    struct loaded {
        pack<float, N> first, second;
    };
    walk_packs<2, true>(
        walk,
        [&](uint32_t, uint32_t p) {
            return loaded{load_pack<N>(pack_at<N>(parts, 0, p)), load_pack<N>(pack_at<N>(parts, 1, p))};
        },
        [&](uint32_t, uint32_t p, loaded in) {
            auto add = [&](const pack<float, N> &part) {
#pragma unroll
                for (int i = 0; i < N; i++)
                    in.first.at[i] += part.at[i];
            };
            add(in.second);
            for (int rank = 2; rank < ranks; rank++)
                add(load_pack<N>(pack_at<N>(parts, (uint32_t)rank, p)));
            store_pack(sum + (int64_t)p * N, in.first);
        });
}

void cuda_rank_sum(const struct cuda_target *target, struct tensor parts, struct tensor sum)
{
    constexpr int N = pack_width<float>;
    const bool wide = packs_fit(parts, N) && packs_fit(sum, N);
    walk_launch(target, "rank_sum", wide ? rank_sum<N> : rank_sum<1>, 1, sum.cols / (wide ? N : 1),
                view_of<const float>(parts), (int)parts.rows, static_cast<float *>(sum.data));
}
