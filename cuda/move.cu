/* cast, fill. (copy: executor.c) */
#include "cuda/walk.cuh"

template <typename To> __device__ __forceinline__ To convert(float x)
{
    return from_float<To>(x);
}

template <> __device__ __forceinline__ double convert<double>(float x)
{
    return x;
}

template <typename To> __device__ __forceinline__ To convert(__nv_bfloat16 x)
{
    return convert<To>(to_float(x));
}

/* By way of f32, rounded to odd where that is not exact: rounding such a number again is the same as rounding once. */
template <typename To> __device__ __forceinline__ To convert(double x)
{
    float towards_zero = __double2float_rz(x);
    uint32_t sticky = (double)towards_zero == x ? 0u : 1u;
    return from_float<To>(__uint_as_float(__float_as_uint(towards_zero) | sticky));
}

template <> __device__ __forceinline__ float convert<float>(double x)
{
    return __double2float_rn(x);
}

template <typename From, typename To, int N>
__global__ WALK_BOUNDS void cast(struct walk walk, view<const From> from, view<To> to)
{
    walk_packs<4>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(from, row, p)); },
        [&](uint32_t row, uint32_t p, const pack<From, N> &in) {
            pack<To, N> out;
#pragma unroll
            for (int i = 0; i < N; i++)
                out.at[i] = convert<To>(in.at[i]);
            store_pack(pack_at<N>(to, row, p), out);
        });
}

template <typename From, typename To>
static void launch(const struct cuda_target *target, const struct tensor &from, const struct tensor &to)
{
    constexpr int N = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
    if (packs_fit(from, N) && packs_fit(to, N))
        walk_launch(target, "cast", cast<From, To, N>, to.rows, to.cols / N, view_of<const From>(from),
                    view_of<To>(to));
    else
        walk_launch(target, "cast", cast<From, To, 1>, to.rows, to.cols, view_of<const From>(from), view_of<To>(to));
}

void cuda_cast(const struct cuda_target *target, const struct cast_args *args)
{
    struct tensor from = args->from, to = args->to;
    if (from.dtype == to.dtype) {
        struct copy_args same = {from, to};
        cuda_copy(target, &same);
        return;
    }
    flatten({&from, &to});
    switch (from.dtype) {
    case DTYPE_F32:
        if (to.dtype == DTYPE_BF16)
            launch<float, __nv_bfloat16>(target, from, to);
        else
            launch<float, double>(target, from, to);
        return;
    case DTYPE_BF16:
        if (to.dtype == DTYPE_F32)
            launch<__nv_bfloat16, float>(target, from, to);
        else
            launch<__nv_bfloat16, double>(target, from, to);
        return;
    default:
        if (to.dtype == DTYPE_F32)
            launch<double, float>(target, from, to);
        else
            launch<double, __nv_bfloat16>(target, from, to);
    }
}

/* -- Fill --------------------------------------------------------------------------------------------------------- */

template <typename T, int N> __global__ WALK_BOUNDS void fill(struct walk walk, view<T> x, T value)
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
