/* split, join, scatter, fill, add, multiply. (copy: executor.c) */
#include "cuda/halves.cuh"
#include "cuda/walk.cuh"

/* -- Halves ------------------------------------------------------------------------------------------------------- */

/* The memory is on this device, or on the host and then much slower, so loads in flight matter. */
template <int N>
__global__ WALK_BOUNDS void split(struct row_walk walk, const float *from, uint16_t *high, int16_t *low)
{
    walk_packs<4>(
        walk, [&](uint32_t, uint32_t p) { return load_pack<N>(from + (int64_t)p * N); },
        [&](uint32_t, uint32_t p, const pack<float, N> &in) {
            int64_t at = (int64_t)p * N;
            store_split(in.at, high + at, low != NULL ? low + at : NULL);
        });
}

template <int N> __global__ WALK_BOUNDS void widen(struct row_walk walk, const __nv_bfloat16 *high, float *to)
{
    walk_packs<4>(
        walk, [&](uint32_t, uint32_t p) { return load_pack<N>(high + (int64_t)p * N); },
        [&](uint32_t, uint32_t p, const pack<__nv_bfloat16, N> &in) {
            float out[N];
            unpack(in, out);
            store(to + (int64_t)p * N, out);
        });
}

template <int N>
__global__ WALK_BOUNDS void join(struct row_walk walk, const uint16_t *high, const int16_t *low, float *to)
{
    struct loaded {
        pack<uint16_t, N> high;
        pack<int16_t, N> low;
    };
    walk_packs<4>(
        walk,
        [&](uint32_t, uint32_t p) {
            int64_t at = (int64_t)p * N;
            return loaded{load_pack<N>(high + at), load_pack<N>(low + at)};
        },
        [&](uint32_t, uint32_t p, const loaded &in) {
            float out[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                out[i] = joined(in.high.at[i], in.low.at[i]);
            store(to + (int64_t)p * N, out);
        });
}

static bool halves_fit(const struct tensor &whole, const struct tensor &high, const struct tensor &low, int n)
{
    return packs_fit(whole, n) && packs_fit(high, n) && (!tensor_present(&low) || packs_fit(low, n));
}

void cuda_split(const struct cuda_target *target, const struct split_args *args)
{
    constexpr int N = pack_width<float>;
    const auto *from = static_cast<const float *>(args->from.data);
    auto *high = static_cast<uint16_t *>(args->high.data);
    auto *low = static_cast<int16_t *>(args->low.data);
    if (halves_fit(args->from, args->high, args->low, N))
        walk_launch(target, "split", split<N>, 1, args->from.cols / N, from, high, low);
    else
        walk_launch(target, "split", split<1>, 1, args->from.cols, from, high, low);
}

void cuda_join(const struct cuda_target *target, const struct join_args *args)
{
    constexpr int N = pack_width<float>;
    const bool wide = halves_fit(args->to, args->high, args->low, N);
    if (!tensor_present(&args->low)) {
        walk_launch(target, "join", wide ? widen<N> : widen<1>, 1, args->to.cols / (wide ? N : 1),
                    static_cast<const __nv_bfloat16 *>(args->high.data), static_cast<float *>(args->to.data));
        return;
    }
    const auto *high = static_cast<const uint16_t *>(args->high.data);
    const auto *low = static_cast<const int16_t *>(args->low.data);
    auto *to = static_cast<float *>(args->to.data);
    if (wide)
        walk_launch(target, "join", join<N>, 1, args->to.cols / N, high, low, to);
    else
        walk_launch(target, "join", join<1>, 1, args->to.cols, high, low, to);
}

/* -- Scatter ------------------------------------------------------------------------------------------------------ */

template <typename T, int N>
__global__ WALK_BOUNDS void scatter(struct row_walk walk, view<const T> from, const int32_t *rows, view<T> to)
{
    walk_packs<4>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(from.row(row) + (int64_t)p * N); },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) { store_pack(to.row(rows[row]) + (int64_t)p * N, in); });
}

void cuda_scatter(const struct cuda_target *target, const struct scatter_args *args)
{
    visit_packs({args->from, args->to}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "scatter", scatter<T, N>, args->from.rows, args->from.cols / N,
                    view_of<const T>(args->from), static_cast<const int32_t *>(args->rows.data), view_of<T>(args->to));
    });
}

/* -- Fill --------------------------------------------------------------------------------------------------------- */

template <typename T, int N> __global__ WALK_BOUNDS void fill(struct row_walk walk, view<T> x, T value)
{
    walk_packs<1>(
        walk, [&](uint32_t, uint32_t) { return value; },
        [&](uint32_t row, uint32_t p, T element) {
            pack<T, N> out;
#pragma unroll
            for (int i = 0; i < N; i++)
                out.at[i] = element;
            store_pack(pack_at<N>(x, row, p), out);
        });
}

template <typename T> static void launch_fill(const struct cuda_target *target, const struct tensor &x, T value)
{
    constexpr int N = pack_width<T>;
    if (packs_fit(x, N))
        walk_launch(target, "fill", fill<T, N>, x.rows, x.cols / N, view_of<T>(x), value);
    else
        walk_launch(target, "fill", fill<T, 1>, x.rows, x.cols, view_of<T>(x), value);
}

void cuda_fill(const struct cuda_target *target, const struct fill_args *args)
{
    struct tensor x = args->x;
    flatten({&x});
    if (x.dtype == DTYPE_F64)
        launch_fill<double>(target, x, args->value);
    else if (x.dtype == DTYPE_BF16)
        launch_fill<__nv_bfloat16>(target, x, __float2bfloat16_rn((float)args->value));
    else
        launch_fill<float>(target, x, (float)args->value);
}

/* -- Add ---------------------------------------------------------------------------------------------------------- */

template <int N, typename FROM, typename TO>
__global__ WALK_BOUNDS void add(struct row_walk walk, view<const FROM> from, view<TO> to)
{
    struct loaded {
        pack<FROM, N> from;
        pack<TO, N> to;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t row, uint32_t p) {
            return loaded{load_pack<N>(pack_at<N>(from, row, p)), load_pack<N>(pack_at<N>(to, row, p))};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            pack<TO, N> out;
#pragma unroll
            for (int i = 0; i < N; i++)
                out.at[i] = from_float<TO>(to_float(in.to.at[i]) + to_float(in.from.at[i]));
            store_pack(pack_at<N>(to, row, p), out);
        });
}

void cuda_add(const struct cuda_target *target, const struct add_args *args)
{
    struct tensor from = args->from, to = args->to;
    flatten({&from, &to});
    visit(from.dtype, [&](auto source) {
        visit(to.dtype, [&](auto destination) {
            using FROM = decltype(source);
            using TO = decltype(destination);
            constexpr int N = pack_width<FROM> < pack_width<TO> ? pack_width<FROM> : pack_width<TO>;
            const bool wide = packs_fit(from, N) && packs_fit(to, N);
            walk_launch(target, "add", wide ? add<N, FROM, TO> : add<1, FROM, TO>, to.rows, to.cols / (wide ? N : 1),
                        view_of<const FROM>(from), view_of<TO>(to));
        });
    });
}

/* -- Multiply ----------------------------------------------------------------------------------------------------- */

template <int N, typename T>
__global__ WALK_BOUNDS void multiply(struct row_walk walk, view<const T> from, view<T> x, float factor)
{
    walk_packs<2>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(from, row, p)); },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) {
            pack<T, N> out;
#pragma unroll
            for (int i = 0; i < N; i++)
                out.at[i] = from_float<T>(factor * to_float(in.at[i]));
            store_pack(pack_at<N>(x, row, p), out);
        });
}

void cuda_multiply(const struct cuda_target *target, const struct multiply_args *args)
{
    struct tensor x = args->x;
    flatten({&x});
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int N = pack_width<T>;
        const bool wide = packs_fit(x, N);
        walk_launch(target, "multiply", wide ? multiply<N, T> : multiply<1, T>, x.rows, x.cols / (wide ? N : 1),
                    view_of<const T>(x), view_of<T>(x), (float)args->factor);
    });
}
