#include "cuda/walk.cuh"

/* y = x share; dy/dx = share + x slope. */
struct gelu {
    float share, slope;
};

/* Beyond this |x|, share is 0 or 1 and slope 0 as f32 holds them, and nothing below overflows. A NaN is lost here; what
 * is made of x itself brings it back. */
__device__ constexpr float far_out = 16.0f;

/* max(x, 0); NaN stays. */
__device__ __forceinline__ float positive_part(float x)
{
    float result;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(result) : "f"(x));
    return result;
}

/* The normal distribution's Phi(-t) and exp(-t^2 / 2), for t = |x| as far as it matters. Phi(-t) = exp(-t^2 / 2) r(t),
 * with the rational function r that src/cpu/gelu.c fits: positive coefficients, so nothing cancels and both tails are
 * accurate relatively. */
struct normal_tail {
    float t, density, tail;
};

__device__ __forceinline__ struct normal_tail normal_tail(float x)
{
    float t = fminf(fabsf(x), far_out), square = t * t;
    /* exponential(-square / 2), with the half in the constants */
    float e = power_of_2(fmaf(square, -0x1.715476p-1f, square * -0x1.4ae0cp-27f));
    float p = 0x1.14b3dcp-8f, q = 0x1.5acac4p-7f;
    p = fmaf(p, t, 0x1.52ac26p-5f);
    p = fmaf(p, t, 0x1.7b8e20p-3f);
    p = fmaf(p, t, 0x1.c3b22ep-2f);
    p = fmaf(p, t, 0.5f);
    q = fmaf(q, t, 0x1.a87c54p-4f);
    q = fmaf(q, t, 0x1.e666e6p-2f);
    q = fmaf(q, t, 0x1.361012p+0f);
    q = fmaf(q, t, 0x1.ae1b48p+0f);
    q = fmaf(q, t, 1.0f);
    return {t, e, e * (p * reciprocal(q))};
}

__device__ __forceinline__ struct gelu gelu_erf(float x)
{
    struct normal_tail n = normal_tail(x);
    return {x < 0.0f ? n.tail : 1.0f - n.tail, 0x1.988454p-2f * n.density}; /* 1 / sqrt(2 pi) */
}

/* (1 + tanh(u)) / 2 = sigmoid(2 u), and 2 u = x (k + 0.044715 k x^2) with k = 2 sqrt(2 / pi). */
__device__ __forceinline__ struct gelu gelu_tanh(float x)
{
    const float k = 0x1.988454p+0f, cubic = 0x1.2444f2p-4f;
    float c = fminf(fmaxf(x, -far_out), far_out), square = c * c;
    struct sigmoid s = sigmoid_of(c * fmaf(cubic, square, k));
    return {s.value, s.value * s.complement * fmaf(3.0f * cubic, square, k)};
}

template <bool TANH> __device__ __forceinline__ struct gelu gelu_at(float x)
{
    return TANH ? gelu_tanh(x) : gelu_erf(x);
}

/* The value alone. x Phi(x) = max(x, 0) - t Phi(-t), which is as accurate: where x is positive, the difference is at
 * least x / 2. */
template <bool TANH> __device__ __forceinline__ float gelu_of(float x)
{
    if (TANH)
        return x * gelu_tanh(x).share;
    struct normal_tail n = normal_tail(x);
    return fmaf(-n.t, n.tail, positive_part(x));
}

template <typename T, int N, bool TANH>
__global__ WALK_BOUNDS void gelu_forward(struct walk walk, view<const T> x, view<T> y)
{
    walk_packs<4>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(x, row, p)); },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) {
            float v[N];
            unpack(in, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = gelu_of<TANH>(v[i]);
            store(pack_at<N>(y, row, p), v);
        });
}

void cuda_gelu_forward(const struct cuda_target *target, const struct gelu_forward_args *args)
{
    struct tensor x = args->x, y = args->y;
    flatten({&x, &y});
    visit_packs({x, y}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        auto kernel = args->tanh_form ? gelu_forward<T, N, true> : gelu_forward<T, N, false>;
        walk_launch(target, "gelu_forward", kernel, y.rows, y.cols / N, view_of<const T>(x), view_of<T>(y));
    });
}

/* dx may be dy itself. */
template <typename T, int N, bool TANH>
__global__ WALK_BOUNDS void gelu_backward(struct walk walk, view<const T> x, view<const T> dy, view<T> dx)
{
    struct loaded {
        pack<T, N> x, dy;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t row, uint32_t p) {
            return loaded{load_pack<N>(pack_at<N>(x, row, p)), load_pack<N>(pack_at<N>(dy, row, p))};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            float v[N], d[N];
            unpack(in.x, v);
            unpack(in.dy, d);
#pragma unroll
            for (int i = 0; i < N; i++) {
                struct gelu gelu = gelu_at<TANH>(v[i]);
                d[i] *= fmaf(v[i], gelu.slope, gelu.share);
            }
            store(pack_at<N>(dx, row, p), d);
        });
}

void cuda_gelu_backward(const struct cuda_target *target, const struct gelu_backward_args *args)
{
    struct tensor x = args->x, dy = args->dy, dx = args->dx;
    flatten({&x, &dy, &dx});
    visit_packs({x, dy, dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        auto kernel = args->tanh_form ? gelu_backward<T, N, true> : gelu_backward<T, N, false>;
        walk_launch(target, "gelu_backward", kernel, dx.rows, dx.cols / N, view_of<const T>(x), view_of<const T>(dy),
                    view_of<T>(dx));
    });
}
