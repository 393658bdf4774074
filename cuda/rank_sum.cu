/* The sum over ranks of parts, which copies have brought to this rank, but for its own. */
#include "cuda/walk.cuh"

template <int N, typename T>
__global__ WALK_BOUNDS void rank_sum(struct row_walk walk, view<const T> parts, int ranks, int rank, const T *own,
                                     T *sum)
{
    auto part_of = [&](int r, uint32_t p) {
        return r == rank ? load_pack<N>(own + (int64_t)p * N) : load_pack<N>(pack_at<N>(parts, (uint32_t)r, p));
    };
    struct loaded {
        pack<T, N> first, second;
    };
    walk_packs<2, true>(
        walk,
        [&](uint32_t, uint32_t p) {
            return loaded{part_of(0, p), part_of(1, p)};
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
            for (int r = 2; r < ranks; r++)
                add(part_of(r, p));
            store(sum + (int64_t)p * N, all);
        });
}

void cuda_rank_sum(const struct cuda_target *target, struct tensor parts, int rank, struct tensor own,
                   struct tensor sum)
{
    visit_packs({parts, own, sum}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "rank_sum", rank_sum<N, T>, 1, sum.cols / N, view_of<const T>(parts), (int)parts.rows, rank,
                    static_cast<const T *>(own.data), static_cast<T *>(sum.data));
    });
}
