#include "cuda/walk.cuh"

/* The two halves of a row of x. */
template <typename T, int N> struct gate_up {
    pack<T, N> gate, up;
};

template <typename T, int N>
__device__ __forceinline__ gate_up<T, N> load_gate_up(const view<const T> &x, uint32_t row, uint32_t p)
{
    const T *gate = pack_at<N>(x, row, p);
    return {load_pack<N>(gate), load_pack<N>(gate + x.cols / 2)};
}

template <typename T, int N> __global__ WALK_BOUNDS void swiglu_forward(struct walk walk, view<const T> x, view<T> y)
{
    walk_packs<2>(
        walk, [&](uint32_t row, uint32_t p) { return load_gate_up<T, N>(x, row, p); },
        [&](uint32_t row, uint32_t p, const gate_up<T, N> &in) {
            float gate[N], up[N];
            unpack(in.gate, gate);
            unpack(in.up, up);
#pragma unroll
            for (int i = 0; i < N; i++)
                up[i] *= gate[i] * sigmoid_of(gate[i]).value;
            store(pack_at<N>(y, row, p), up);
        });
}

void cuda_swiglu_forward(const struct cuda_target *target, const struct swiglu_forward_args *args)
{
    visit_packs({args->y, args->x}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "swiglu_forward", swiglu_forward<T, N>, args->y.rows, args->y.cols / N,
                    view_of<const T>(args->x), view_of<T>(args->y));
    });
}

/* dx may be x itself. */
template <typename T, int N>
__global__ WALK_BOUNDS void swiglu_backward(struct walk walk, view<const T> x, view<const T> dy, view<T> dx)
{
    struct loaded {
        gate_up<T, N> x;
        pack<T, N> dy;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t row, uint32_t p) {
            return loaded{load_gate_up<T, N>(x, row, p), load_pack<N>(pack_at<N>(dy, row, p))};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            float gate[N], up[N], d[N];
            unpack(in.x.gate, gate);
            unpack(in.x.up, up);
            unpack(in.dy, d);
#pragma unroll
            for (int i = 0; i < N; i++) {
                float g = gate[i];
                struct sigmoid s = sigmoid_of(g);
                gate[i] = d[i] * up[i] * s.value * fmaf(g, s.complement, 1.0f);
                up[i] = d[i] * g * s.value;
            }
            T *d_gate = pack_at<N>(dx, row, p);
            store(d_gate, gate);
            store(d_gate + dx.cols / 2, up);
        });
}

void cuda_swiglu_backward(const struct cuda_target *target, const struct swiglu_backward_args *args)
{
    visit_packs({args->dy, args->x, args->dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "swiglu_backward", swiglu_backward<T, N>, args->dy.rows, args->dy.cols / N,
                    view_of<const T>(args->x), view_of<const T>(args->dy), view_of<T>(args->dx));
    });
}
