#include "cuda/walk.cuh"

template <typename T, int N, bool VECTOR>
__global__ WALK_BOUNDS void tanh_forward(struct row_walk walk, view<const T> x, view<T> y)
{
    walk_packs<2, VECTOR>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(x, row, p)); },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) {
            float v[N];
            unpack(in, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = tanhf(v[i]);
            store(pack_at<N>(y, row, p), v);
        });
}

void cuda_tanh_forward(const struct cuda_target *target, const struct tanh_forward_args *args)
{
    struct tensor x = args->x, y = args->y;
    bool vector = flatten({&x, &y});
    visit_packs({x, y}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "tanh_forward", vector ? tanh_forward<T, N, true> : tanh_forward<T, N, false>, y.rows,
                    y.cols / N, view_of<const T>(x), view_of<T>(y));
    });
}

/* dx may be dy. */
template <typename T, int N, bool VECTOR>
__global__ WALK_BOUNDS void tanh_backward(struct row_walk walk, view<const T> y, view<const T> dy, view<T> dx)
{
    struct loaded {
        pack<T, N> y, dy;
    };
    walk_packs<2, VECTOR>(
        walk,
        [&](uint32_t row, uint32_t p) {
            return loaded{load_pack<N>(pack_at<N>(y, row, p)), load_pack<N>(pack_at<N>(dy, row, p))};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            float v[N], d[N];
            unpack(in.y, v);
            unpack(in.dy, d);
#pragma unroll
            for (int i = 0; i < N; i++)
                d[i] *= 1.0f - v[i] * v[i];
            store(pack_at<N>(dx, row, p), d);
        });
}

void cuda_tanh_backward(const struct cuda_target *target, const struct tanh_backward_args *args)
{
    struct tensor y = args->y, dy = args->dy, dx = args->dx;
    bool vector = flatten({&y, &dy, &dx});
    visit_packs({y, dy, dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "tanh_backward", vector ? tanh_backward<T, N, true> : tanh_backward<T, N, false>, dx.rows,
                    dx.cols / N, view_of<const T>(y), view_of<const T>(dy), view_of<T>(dx));
    });
}
