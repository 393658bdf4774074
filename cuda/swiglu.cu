#include "cuda/quantize.cuh"
#include "cuda/walk.cuh"

__device__ __forceinline__ float swiglu_value(float gate, float up)
{
    return up * (gate * sigmoid_of(gate).value);
}

struct swiglu_gradients {
    float gate, up;
};

__device__ __forceinline__ struct swiglu_gradients swiglu_gradients_of(float gate, float up, float d)
{
    struct sigmoid s = sigmoid_of(gate);
    return {d * up * s.value * fmaf(gate, s.complement, 1.0f), d * gate * s.value};
}

/* -- Without quantized operands ----------------------------------------------------------------------------------- */

/* Packs of the two halves of a row of x. */
template <typename T, int N> struct gate_up {
    pack<T, N> gate, up;
};

template <typename T, int N>
__device__ __forceinline__ gate_up<T, N> load_gate_up(const view<const T> &x, uint32_t row, uint32_t p)
{
    const T *gate = pack_at<N>(x, row, p);
    return {load_pack<N>(gate), load_pack<N>(gate + x.cols / 2)};
}

/* ends: NULL is all rows. */
template <typename T, int N>
__global__ WALK_BOUNDS void swiglu_forward(struct row_walk walk, view<const T> x, view<T> y, const int32_t *ends,
                                           int ends_count)
{
    limit_rows(walk, ends, ends_count);
    walk_packs<2>(
        walk, [&](uint32_t row, uint32_t p) { return load_gate_up<T, N>(x, row, p); },
        [&](uint32_t row, uint32_t p, const gate_up<T, N> &in) {
            float gate[N], up[N];
            unpack(in.gate, gate);
            unpack(in.up, up);
#pragma unroll
            for (int i = 0; i < N; i++)
                up[i] = swiglu_value(gate[i], up[i]);
            store(pack_at<N>(y, row, p), up);
        });
}

/* dx may be x. ends: NULL is all rows. */
template <typename T, int N>
__global__ WALK_BOUNDS void swiglu_backward(struct row_walk walk, view<const T> x, view<const T> dy, view<T> dx,
                                            const int32_t *ends, int ends_count)
{
    limit_rows(walk, ends, ends_count);
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
                struct swiglu_gradients made = swiglu_gradients_of(gate[i], up[i], d[i]);
                gate[i] = made.gate;
                up[i] = made.up;
            }
            T *d_gate = pack_at<N>(dx, row, p);
            store(d_gate, gate);
            store(d_gate + dx.cols / 2, up);
        });
}

/* -- With quantized operands -------------------------------------------------------------------------------------- */

template <typename T> struct swiglu_source {
    using type = T;
    using loaded = sides<T, 2>;
    enum { AHEAD = SIDE / 2, RESIDENT = sizeof(T) == 2 ? 3 : 1, STAGED = 2, PAIRS = false, HALVES = 1 };
    view<const T> x;

    __device__ __forceinline__ part_rows<T, 2> at(int64_t row, int64_t col) const
    {
        const T *gate = x.row(row) + col;
        return {{gate, gate + x.cols / 2}, {x.stride, x.stride}};
    }

    __device__ __forceinline__ void values(const loaded &in, int64_t, side<T> (&to)[1]) const
    {
        float gate[SIDE], up[SIDE];
        unpack(in.of[0], gate);
        unpack(in.of[1], up);
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            up[i] = swiglu_value(gate[i], up[i]);
        to[0] = rounded_side<T>(up);
    }
};

/* Both halves of dx, one tile of each at a time. */
template <typename T> struct swiglu_gradients_source {
    using type = T;
    using loaded = sides<T, 3>;
    enum { AHEAD = SIDE / 2, RESIDENT = 2, STAGED = 3, PAIRS = false, HALVES = 2 };
    view<const T> x, dy;

    __device__ __forceinline__ part_rows<T, 3> at(int64_t row, int64_t col) const
    {
        const T *gate = x.row(row) + col;
        return {{gate, gate + dy.cols, dy.row(row) + col}, {x.stride, x.stride, dy.stride}};
    }

    __device__ __forceinline__ void values(const loaded &in, int64_t, side<T> (&to)[2]) const
    {
        float gate[SIDE], up[SIDE], d[SIDE];
        unpack(in.of[0], gate);
        unpack(in.of[1], up);
        unpack(in.of[2], d);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            struct swiglu_gradients made = swiglu_gradients_of(gate[i], up[i], d[i]);
            gate[i] = made.gate;
            up[i] = made.up;
        }
        to[0] = rounded_side<T>(gate);
        to[1] = rounded_side<T>(up);
    }
};

/* Tiles of dx one at a time, for tiles that have columns of both halves. Inputs that two tiles read come from the cache
 * the second time. */
template <typename T> struct swiglu_gradient_source {
    using type = T;
    using loaded = sides<T, 3>;
    enum { AHEAD = SIDE / 2, RESIDENT = sizeof(T) == 2 ? 2 : 1, STAGED = 0, PAIRS = true, HALVES = 1 };
    view<const T> x, dy;

    /* Returns how many of the SIDE elements from column `col` of dx on belong to the gate. */
    __device__ __forceinline__ int gates(int64_t col) const
    {
        return (int)max((int64_t)0, min((int64_t)SIDE, dy.cols - col));
    }

    struct rows {
        const T *gate, *dy;
        int64_t gate_stride, dy_stride, col, width;
        int left;

        template <bool WIDE> __device__ __forceinline__ loaded load(int row, int count) const
        {
            const T *of_gate = rows_on(gate, gate_stride, row), *of_dy = rows_on(dy, dy_stride, row);
            if constexpr (WIDE) {
                int64_t at = left > 0 ? col : col - width;
                loaded in = {};
                in.of[0] = read_side<true>(of_gate + at, SIDE);
                in.of[2] = read_side<true>(of_dy + at, SIDE);
                if (left > 0)
                    in.of[1] = read_side<true>(of_gate + width + at, SIDE);
                return in;
            }
            pack<T, SIDE> in[3] = {};
#pragma unroll
            for (int i = 0; i < SIDE; i++) {
                int64_t at = i < left ? col + i : col + i - width;
                if (i >= count)
                    break;
                in[0].at[i] = of_gate[at];
                in[1].at[i] = of_gate[width + at];
                in[2].at[i] = of_dy[at];
            }
            return reinterpret_cast<const loaded &>(in);
        }
    };

    __device__ __forceinline__ struct rows at(int64_t row, int64_t col) const
    {
        return {x.row(row), dy.row(row), x.stride, dy.stride, col, dy.cols, gates(col)};
    }

    __device__ __forceinline__ void values(const loaded &in, int64_t col, side<T> (&to)[1]) const
    {
        const int left = gates(col);
        float gate[SIDE], up[SIDE], d[SIDE];
        unpack(in.of[0], gate);
        unpack(in.of[1], up);
        unpack(in.of[2], d);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            struct swiglu_gradients made = swiglu_gradients_of(gate[i], up[i], d[i]);
            d[i] = i < left ? made.gate : made.up;
        }
        to[0] = rounded_side<T>(d);
    }
};

/* -- Ops ----------------------------------------------------------------------------------------------------------- */

static void forward_quantized(const struct cuda_target *target, const struct swiglu_forward_args *args)
{
    const struct tensor &x = args->x;
    const int64_t width = x.cols / 2;
    const bool wide = width % SIDE == 0 && rows_fit(x, SIDE) && quantized_fit(args->to, width, args->y);
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_quantized(target, "swiglu_forward", swiglu_source<T>{tile_view_of<const T>(x)},
                         quantized_targets_of(args->to, x.rows, width, args->y), wide);
    });
}

void cuda_swiglu_forward(const struct cuda_target *target, const struct swiglu_forward_args *args)
{
    if (wants_quantized(args->to))
        return forward_quantized(target, args);
    visit_packs({args->y, args->x}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "swiglu_forward", swiglu_forward<T, N>, args->y.rows, args->y.cols / N,
                    view_of<const T>(args->x), view_of<T>(args->y), static_cast<const int32_t *>(args->ends.data),
                    (int)args->ends.cols);
    });
}

static void make_again(const struct cuda_target *target, const struct swiglu_backward_args *args)
{
    const struct swiglu_forward_args forward = {args->x, {}, {}, args->y_to};
    if (has_quantized(&args->y_to))
        cuda_swiglu_forward(target, &forward);
}

static void backward_quantized(const struct cuda_target *target, const struct swiglu_backward_args *args)
{
    const struct tensor &x = args->x, &dy = args->dy;
    const bool wide = packs_fit(dy, SIDE) && rows_fit(x, SIDE) && quantized_fit(args->to, x.cols, {});
    const bool both = has_quantized(&args->y_to) && quantized_fit(args->y_to, dy.cols, {});
    /* Tiles of the two halves can be made together if no block of scales has columns of both halves. */
    const bool apart = dy.cols % (args->to.rule.scaling == SCALING_TENSOR ? SIDE : TILE) == 0;
    const struct quantized_targets to = quantized_targets_of(args->to, x.rows, x.cols, {});
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        const view<const T> of_x = tile_view_of<const T>(x), of_dy = tile_view_of<const T>(dy);
        if constexpr (sizeof(T) == 2)
            if (wide && apart) {
                const swiglu_gradients_source<T> source = {of_x, of_dy};
                if (both && launch_pairs(target, "swiglu_backward", source, to, swiglu_source<T>{of_x},
                                         quantized_targets_of(args->y_to, x.rows, dy.cols, {})))
                    return;
                make_again(target, args);
                return launch_quantized(target, "swiglu_backward", source, to, wide);
            }
        make_again(target, args);
        launch_quantized(target, "swiglu_backward", swiglu_gradient_source<T>{of_x, of_dy}, to, wide);
    });
}

/* With quantized operands and dx, which may be x, dx is computed first: a block would overwrite x that another
 * reads. */
void cuda_swiglu_backward(const struct cuda_target *target, const struct swiglu_backward_args *args)
{
    if (wants_quantized(args->to) && !tensor_present(&args->dx))
        return backward_quantized(target, args);
    make_again(target, args); /* first: dx may be x */
    visit_packs({args->dy, args->x, args->dx}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "swiglu_backward", swiglu_backward<T, N>, args->dy.rows, args->dy.cols / N,
                    view_of<const T>(args->x), view_of<const T>(args->dy), view_of<T>(args->dx),
                    static_cast<const int32_t *>(args->ends.data), (int)args->ends.cols);
    });
    if (wants_quantized(args->to)) {
        struct quantize_args quantize = {args->dx, args->to, {}, false};
        cuda_quantize(target, &quantize);
    }
}
