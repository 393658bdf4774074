/* The weighted sum of a token's experts. */
#include "cuda/walk.cuh"

enum { PAIR_THREADS = 256, PAIR_WARPS = PAIR_THREADS / WARP };

/* weights.data NULL: 1; addend.data NULL: 0. */
template <typename T, int N>
static __global__ WALK_BOUNDS void combine_forward_kernel(struct row_walk walk, view<const T> x,
                                                          view<const int32_t> places, view<const float> weights,
                                                          view<const T> addend, view<T> y)
{
    walk_packs<1>(
        walk,
        [&](uint32_t row, uint32_t p) {
            return addend.data != NULL ? load_pack<N>(addend.row(row) + (int64_t)p * N) : pack<T, N>{};
        },
        [&](uint32_t row, uint32_t p, const pack<T, N> &start) {
            float sum[N], v[N];
            unpack(start, sum);
            for (int c = 0; c < places.cols; c++) {
                const int place = places.row(row)[c];
                const float weight = weights.data != NULL ? weights.row(row)[c] : 1.0f;
                load(x.row(max(place, 0)) + (int64_t)p * N, v); /* a branch would make loads wait for each other */
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[i] += place >= 0 ? weight * v[i] : 0.0f;
            }
            store(pack_at<N>(y, row, p), sum);
        });
}

void cuda_combine_forward(const struct cuda_target *target, const struct combine_forward_args *args)
{
    visit_packs({args->x, args->y, args->addend}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "combine_forward", combine_forward_kernel<T, N>, args->y.rows, args->y.cols / N,
                    view_of<const T>(args->x), view_of<const int32_t>(args->places),
                    view_of<const float>(args->weights), view_of<const T>(args->addend), view_of<T>(args->y));
    });
}

/* A warp has a pair of token and expert. */
template <typename T, int N>
static __global__ void __launch_bounds__(PAIR_THREADS)
    combine_backward_kernel(view<const T> dy, view<const T> x, view<const int32_t> places, view<const float> weights,
                            view<T> dx, view<float> d_weights)
{
    const int64_t pair = (int64_t)blockIdx.x * PAIR_WARPS + threadIdx.x / WARP;
    const int64_t t = pair / places.cols, c = pair % places.cols;
    if (t >= dy.rows)
        return;
    const int64_t place = places.row(t)[c];
    const float weight = weights.row(t)[c];
    float dot = 0.0f;
    for (int64_t col = threadIdx.x % WARP * N; col < dy.cols && place >= 0; col += WARP * N) {
        float d[N], v[N];
        load(dy.row(t) + col, d);
        load(x.row(place) + col, v);
#pragma unroll
        for (int i = 0; i < N; i++) {
            dot += d[i] * v[i];
            d[i] *= weight;
        }
        store(dx.row(place) + col, d);
    }
    dot = warp_sum(dot);
    if (threadIdx.x % WARP == 0)
        d_weights.row(t)[c] = dot;
}

void cuda_combine_backward(const struct cuda_target *target, const struct combine_backward_args *args)
{
    const int64_t pairs = tensor_count(&args->places);
    if (pairs == 0)
        return;
    visit_packs({args->dy, args->x, args->dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        combine_backward_kernel<T, N><<<(unsigned)ceil_div(pairs, PAIR_WARPS), PAIR_THREADS, 0, target->stream>>>(
            view_of<const T>(args->dy), view_of<const T>(args->x), view_of<const int32_t>(args->places),
            view_of<const float>(args->weights), view_of<T>(args->dx), view_of<float>(args->d_weights));
        CUDA_CHECK_LAUNCH("combine_backward");
    });
}
