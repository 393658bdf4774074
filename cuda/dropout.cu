#include "core/dropout.h"
#include "cuda/walk.cuh"

struct dropout_rule {
    const int32_t *keys;
    struct dropout_mask mask;
    int64_t origin;
    float factor;
};

/* y may be x. */
template <typename T, int N, bool ADDS>
__global__ WALK_BOUNDS void dropout(struct row_walk walk, view<const T> x, view<T> y, struct dropout_rule rule)
{
    struct loaded {
        pack<T, N> x, y;
        int32_t key;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t row, uint32_t p) {
            loaded in;
            in.x = load_pack<N>(pack_at<N>(x, row, p));
            if (ADDS)
                in.y = load_pack<N>(pack_at<N>(y, row, p));
            in.key = rule.keys[row];
            return in;
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            float v[N], sum[N];
            unpack(in.x, v);
            if (ADDS)
                unpack(in.y, sum);
#pragma unroll
            for (int i = 0; i < N; i++) {
                v[i] = dropout_keeps(&rule.mask, in.key, rule.origin + (int64_t)p * N + i) ? v[i] * rule.factor : 0.0f;
                if (ADDS)
                    v[i] += sum[i];
            }
            store(pack_at<N>(y, row, p), v);
        });
}

void cuda_dropout(const struct cuda_target *target, const struct dropout_args *args)
{
    const struct dropout_rule rule = {static_cast<const int32_t *>(args->keys.data),
                                      dropout_mask_of(args->probability, args->salt), args->origin,
                                      (float)(1 / (1 - args->probability))};
    visit_packs({args->x, args->y}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "dropout", args->accumulate ? dropout<T, N, true> : dropout<T, N, false>, args->y.rows,
                    args->y.cols / N, view_of<const T>(args->x), view_of<T>(args->y), rule);
    });
}
