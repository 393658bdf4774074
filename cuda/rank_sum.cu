/* The sum over ranks of parts that copies have brought to this rank. */
#include "cuda/walk.cuh"

template <int N, typename T>
__global__ WALK_BOUNDS void rank_sum(struct row_walk walk, view<const T> parts, int ranks, T *sum)
{
    struct loaded {
        pack<T, N> first, second;
    };
    walk_packs<2, true>(
        walk,
        [&](uint32_t, uint32_t p) {
            return loaded{load_pack<N>(pack_at<N>(parts, 0, p)), load_pack<N>(pack_at<N>(parts, 1, p))};
        },
        [&](uint32_t, uint32_t p, const loaded &in) {
            float all[N];
            unpack(in.first, all);
            auto add = [&](const pack<T, N> &part) {
                float own[N];
                unpack(part, own);
#pragma unroll
                for (int i = 0; i < N; i++)
                    all[i] += own[i];
            };
            add(in.second);
            for (int rank = 2; rank < ranks; rank++)
                add(load_pack<N>(pack_at<N>(parts, (uint32_t)rank, p)));
            store(sum + (int64_t)p * N, all);
        });
}

void cuda_rank_sum(const struct cuda_target *target, struct tensor parts, struct tensor sum)
{
    visit_packs({parts, sum}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "rank_sum", rank_sum<N, T>, 1, sum.cols / N, view_of<const T>(parts), (int)parts.rows,
                    static_cast<T *>(sum.data));
    });
}
