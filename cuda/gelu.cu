#include "cuda/column_sum.cuh"
#include "cuda/quantize.cuh"
#include "cuda/slab_sum.cuh"
#include "cuda/walk.cuh"

/* Beyond this |x| both forms round to x or 0 in f32, and nothing below overflows. */
__device__ constexpr float far_out = 16.0f;

/* -- The exact form ------------------------------------------------------------------------------------------------ */

/* t = min(|x|, far_out), with NaN preserved, and exp(-t^2 / 2). */
struct normal {
    float t, density;
};

/* EXACT: the square of t is exact in f32; then multiplying it by a rounded constant is accurate enough. */
template <bool EXACT> __device__ __forceinline__ struct normal normal_at(float x)
{
    const float high = -0x1.715476p-1f, low = -0x1.4ae0cp-27f; /* -log2(e) / 2 */
    float t;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(fabsf(x)), "f"(far_out));
    float square = t * t;
    return {t, power_of_2(EXACT ? square * high : fmaf(square, high, square * low))};
}

/* Returns Phi(-t) exp(t^2 / 2): a rational function fitted to a relative error of 1.1e-7 near 0, and further out to
 * less than the effect of one rounding of t. All coefficients are positive, so nothing cancels. */
__device__ __forceinline__ float tail_ratio(float t)
{
    float p = 0x1.ec7912p-7f, q = 0x1.34b14ap-5f;
    p = fmaf(p, t, 0x1.c680bp-4f);
    p = fmaf(p, t, 0x1.635034p-2f);
    p = fmaf(p, t, 0x1.fffffcp-2f);
    q = fmaf(q, t, 0x1.1c784cp-2f);
    q = fmaf(q, t, 0x1.d319bep-1f);
    q = fmaf(q, t, 0x1.7de9dep+0f);
    q = fmaf(q, t, 1.0f);
    return p * reciprocal(q);
}

/* Returns (Phi(-t) - t phi(t)) exp(t^2 / 2), with the density phi. Fitted to an error of 5e-7 of the sum of the two
 * terms, which cancel as in the exact slope. */
__device__ __forceinline__ float slope_ratio(float t)
{
    float p = -0x1.43eff4p-5f, q = 0x1.96050ap-4f;
    p = fmaf(p, t, -0x1.c52aaep-3f);
    p = fmaf(p, t, -0x1.c85fdap-2f);
    p = fmaf(p, t, -0x1.815934p-3f);
    p = fmaf(p, t, 0x1.000008p-1f);
    q = fmaf(q, t, 0x1.1bde8ap-1f);
    q = fmaf(q, t, 0x1.382fb4p+0f);
    q = fmaf(q, t, 1.0f);
    return p * reciprocal(q);
}

/* Returns x Phi(x) = max(x, 0) - t Phi(-t), which is as accurate: for positive x the difference is at least x / 2. */
template <bool EXACT> __device__ __forceinline__ float erf_value(float x)
{
    struct normal n = normal_at<EXACT>(x);
    return fmaf(-n.t, n.density * tail_ratio(n.t), fmaxf(x, 0.0f));
}

/* Returns Phi(x) + x phi(x): for x = -t the slope ratio times exp(-t^2 / 2), for x = t 1 minus that. */
template <bool EXACT> __device__ __forceinline__ float erf_slope(float x)
{
    struct normal n = normal_at<EXACT>(x);
    float ratio = slope_ratio(n.t);
    return x < 0.0f ? n.density * ratio : fmaf(-n.density, ratio, 1.0f);
}

/* -- The tanh form ------------------------------------------------------------------------------------------------- */

/* y = x share; dy/dx = share + x slope. */
struct gelu {
    float share, slope;
};

/* (1 + tanh(u)) / 2 = sigmoid(2 u), and 2 u = x (k + 0.044715 k x^2) with k = 2 sqrt(2 / pi). A NaN is lost here, but
 * the caller's factor x restores it. */
__device__ __forceinline__ struct gelu gelu_tanh(float x)
{
    const float k = 0x1.988454p+0f, cubic = 0x1.2444f2p-4f;
    float c = fminf(fmaxf(x, -far_out), far_out), square = c * c;
    struct sigmoid s = sigmoid_of(c * fmaf(cubic, square, k));
    return {s.value, s.value * s.complement * fmaf(3.0f * cubic, square, k)};
}

/* -- Kernels ------------------------------------------------------------------------------------------------------- */

/* Value and slope at x, which has the precision of T. */
template <typename T, bool TANH> __device__ __forceinline__ float gelu_value(float x)
{
    return TANH ? x * gelu_tanh(x).share : erf_value<sizeof(T) == 2>(x);
}

template <typename T, bool TANH> __device__ __forceinline__ float gelu_slope(float x)
{
    if (!TANH)
        return erf_slope<sizeof(T) == 2>(x);
    struct gelu gelu = gelu_tanh(x);
    return fmaf(x, gelu.slope, gelu.share);
}

/* d = dy times the slope at x. */
template <typename T, bool TANH, int N, typename Elements>
__device__ __forceinline__ void gelu_gradient(const Elements &x, const Elements &dy, float (&d)[N])
{
    float v[N];
    unpack(x, v);
    unpack(dy, d);
#pragma unroll
    for (int i = 0; i < N; i++)
        d[i] *= gelu_slope<T, TANH>(v[i]);
}

template <typename T, int N, bool TANH, bool VECTOR>
__global__ WALK_BOUNDS void gelu_forward(struct row_walk walk, view<const T> x, view<T> y)
{
    walk_packs<4, VECTOR>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(x, row, p)); },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) {
            float v[N];
            unpack(in, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = gelu_value<T, TANH>(v[i]);
            store(pack_at<N>(y, row, p), v);
        });
}

template <typename T_, bool TANH> struct gelu_source {
    using type = T_;
    using loaded = sides<T_, 1>;
    enum { AHEAD = SIDE, RESIDENT = sizeof(T_) == 2 ? 3 : 1, STAGED = 1, PAIRS = false, HALVES = 1 };
    view<const T_> x;

    __device__ __forceinline__ part_rows<T_, 1> at(int64_t row, int64_t col) const
    {
        return {{x.row(row) + col}, {x.stride}};
    }

    __device__ __forceinline__ void values(const loaded &in, int64_t, side<T_> (&to)[1]) const
    {
        float v[SIDE];
        unpack(in.of[0], v);
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            v[i] = gelu_value<T_, TANH>(v[i]);
        to[0] = rounded_side<T_>(v);
    }
};

static void forward_quantized(const struct cuda_target *target, const struct gelu_forward_args *args)
{
    const struct tensor &x = args->x;
    const bool wide = packs_fit(x, SIDE) && quantized_fit(args->to, x.cols, args->y);
    const struct quantized_targets to = quantized_targets_of(args->to, x.rows, x.cols, args->y);
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (args->tanh_form)
            launch_quantized(target, "gelu_forward", gelu_source<T, true>{tile_view_of<const T>(x)}, to, wide);
        else
            launch_quantized(target, "gelu_forward", gelu_source<T, false>{tile_view_of<const T>(x)}, to, wide);
    });
}

void cuda_gelu_forward(const struct cuda_target *target, const struct gelu_forward_args *args)
{
    struct tensor x = args->x, y = args->y;
    if (wants_quantized(args->to))
        return forward_quantized(target, args);
    bool vector = flatten({&x, &y});
    visit_packs({x, y}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        visit_bools(args->tanh_form, vector, [&](auto tanh_form, auto vector) {
            walk_launch(target, "gelu_forward", gelu_forward<T, N, tanh_form, vector>, y.rows, y.cols / N,
                        view_of<const T>(x), view_of<T>(y));
        });
    });
}

/* dx may be dy. */
template <typename T, int N, bool TANH, bool VECTOR>
__global__ WALK_BOUNDS void gelu_backward(struct row_walk walk, view<const T> x, view<const T> dy, view<T> dx)
{
    struct loaded {
        pack<T, N> x, dy;
    };
    walk_packs<2, VECTOR>(
        walk,
        [&](uint32_t row, uint32_t p) {
            return loaded{load_pack<N>(pack_at<N>(x, row, p)), load_pack<N>(pack_at<N>(dy, row, p))};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            float d[N];
            gelu_gradient<T, TANH>(in.x, in.dy, d);
            store(pack_at<N>(dx, row, p), d);
        });
}

/* As gelu_backward, and sums dx, as rounded, over the rows. */
template <typename T, bool WHOLE, bool TANH>
__global__ SLAB_BOUNDS void gelu_backward_sums(view<const T> x, view<const T> dy, view<T> dx, struct slab_sums sums)
{
    constexpr int N = pack_width<T>;
    using elements = pack<T, N>;
    struct loaded {
        uint4 x, dy;
    };
    struct parameter_slab slab = slab_of<N>(sums.split, dx.rows, dx.cols);
    auto x_rows = slab_rows(x, slab), dy_rows = slab_rows(dy, slab);
    auto dx_rows = slab_rows(dx, slab);
    sum_slab<N, 2>(
        sums, slab,
        [&](int row) {
            return loaded{read_elements<T, WHOLE>(x_rows.row(row), slab.count),
                          read_elements<T, WHOLE>(dy_rows.row(row), slab.count)};
        },
        [&](int row, bool there, const loaded &in, float(&v)[N]) {
            gelu_gradient<T, TANH>(reinterpret_cast<const elements &>(in.x), reinterpret_cast<const elements &>(in.dy),
                                   v);
            elements d = rounded<T>(v);
            if (there)
                write_some<WHOLE>(dx_rows.row(row), d, slab.count);
            unpack(d, v);
        });
}

template <typename T_, bool TANH> struct gelu_gradient_source {
    using type = T_;
    using loaded = sides<T_, 2>;
    enum { AHEAD = SIDE / 2, RESIDENT = sizeof(T_) == 2 ? 3 : 1, STAGED = 2, PAIRS = false, HALVES = 1 };
    view<const T_> x, dy;

    __device__ __forceinline__ part_rows<T_, 2> at(int64_t row, int64_t col) const
    {
        return {{x.row(row) + col, dy.row(row) + col}, {x.stride, dy.stride}};
    }

    __device__ __forceinline__ void values(const loaded &in, int64_t, side<T_> (&to)[1]) const
    {
        float d[SIDE];
        gelu_gradient<T_, TANH>(in.of[0], in.of[1], d);
        to[0] = rounded_side<T_>(d);
    }
};

int64_t cuda_gelu_backward_workspace(const struct cuda_target *, const struct gelu_backward_args *args)
{
    if (wants_quantized(args->to))
        return quantized_workspace(args->x.rows, args->x.cols, args->sum);
    return tensor_present(&args->sum) ? slab_workspace(args->dx) : 0;
}

static void launch_with_sums(const struct cuda_target *target, const struct gelu_backward_args *args)
{
    struct tensor x = args->x, dy = args->dy, dx = args->dx;
    if (dx.cols == 0)
        return;
    struct slab_sums sums = {slab_split_of(dx), reinterpret_cast<float *>(target->workspace),
                             static_cast<float *>(args->sum.data), args->accumulate, target->counters};
    visit_packs({x, dy, dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        visit_bools(width > 1, args->tanh_form, [&](auto whole, auto tanh_form) {
            gelu_backward_sums<T, whole, tanh_form>
                <<<slab_grid(sums.split), slab_block(sums.split), 0, target->stream>>>(
                    view_of<const T>(x), view_of<const T>(dy), view_of<T>(dx), sums);
            CUDA_CHECK_LAUNCH("gelu_backward");
        });
    });
}

static void make_again(const struct cuda_target *target, const struct gelu_backward_args *args)
{
    const struct gelu_forward_args forward = {args->x, {}, args->y_to, args->tanh_form};
    if (has_quantized(&args->y_to))
        cuda_gelu_forward(target, &forward);
}

/* Launches one kernel for the quantized operands of dx and of y; returns whether there is one for them. */
template <typename T>
static bool launch_both(const struct cuda_target *target, const struct gelu_backward_args *args,
                        const struct quantized_targets &to)
{
    const struct quantized_targets y_to = quantized_targets_of(args->y_to, args->x.rows, args->x.cols, {});
    const view<const T> x = tile_view_of<const T>(args->x), dy = tile_view_of<const T>(args->dy);
    if (args->tanh_form)
        return launch_pairs(target, "gelu_backward", gelu_gradient_source<T, true>{x, dy}, to, gelu_source<T, true>{x},
                            y_to);
    return launch_pairs(target, "gelu_backward", gelu_gradient_source<T, false>{x, dy}, to, gelu_source<T, false>{x},
                        y_to);
}

static void backward_quantized(const struct cuda_target *target, const struct gelu_backward_args *args)
{
    const struct tensor &x = args->x, &dy = args->dy;
    const bool wide = packs_fit(x, SIDE) && packs_fit(dy, SIDE) && quantized_fit(args->to, x.cols, args->dx);
    const bool both = wide && has_quantized(&args->y_to) && quantized_fit(args->y_to, x.cols, {});
    struct quantized_targets to = quantized_targets_of(args->to, x.rows, x.cols, args->dx);
    float *partial = reinterpret_cast<float *>(target->workspace);
    if (tensor_present(&args->sum))
        to.partial = partial;
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        const view<const T> of_x = tile_view_of<const T>(x), of_dy = tile_view_of<const T>(dy);
        if constexpr (sizeof(T) == 2)
            if (both && launch_both<T>(target, args, to))
                return;
        make_again(target, args);
        if (args->tanh_form)
            launch_quantized(target, "gelu_backward", gelu_gradient_source<T, true>{of_x, of_dy}, to, wide);
        else
            launch_quantized(target, "gelu_backward", gelu_gradient_source<T, false>{of_x, of_dy}, to, wide);
    });
    if (tensor_present(&args->sum))
        sum_parts(target, partial, ceil_div(x.rows, TILE), {args->sum}, args->accumulate);
}

void cuda_gelu_backward(const struct cuda_target *target, const struct gelu_backward_args *args)
{
    struct tensor x = args->x, dy = args->dy, dx = args->dx;
    if (wants_quantized(args->to))
        return backward_quantized(target, args);
    make_again(target, args);
    if (tensor_present(&args->sum))
        return launch_with_sums(target, args);
    bool vector = flatten({&x, &dy, &dx});
    visit_packs({x, dy, dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        visit_bools(args->tanh_form, vector, [&](auto tanh_form, auto vector) {
            walk_launch(target, "gelu_backward", gelu_backward<T, N, tanh_form, vector>, dx.rows, dx.cols / N,
                        view_of<const T>(x), view_of<const T>(dy), view_of<T>(dx));
        });
    });
}
