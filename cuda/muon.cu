/* affine, momentum, muon: the ops of the optimizer Muon, with gemm and sum_squares. */
#include "cuda/walk.cuh"
#include "cuda/weights.cuh"

#include <math_constants.h>

/* -- Affine ------------------------------------------------------------------------------------------------------- */

/* Both views are rows of the matrices, not flattened, since the diagonal needs the row's number. */
template <int N, typename T>
__global__ WALK_BOUNDS void affine(struct row_walk walk, view<const T> from, view<T> to, const double *squares,
                                   double factor, double eps, float diagonal)
{
    __shared__ float shared;
    if (threadIdx.x == 0)
        shared = (float)(factor / (squares != nullptr ? fmax(sqrt(*squares), eps) : 1.0));
    __syncthreads();
    const float scale = shared;
    walk_packs<2>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(from, row, p)); },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) {
            pack<T, N> out;
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float scaled = __fmul_rn(scale, to_float(in.at[i]));
                out.at[i] = from_float<T>(p * N + i == row ? __fadd_rn(scaled, diagonal) : scaled);
            }
            store_pack(pack_at<N>(to, row, p), out);
        });
}

void cuda_affine(const struct cuda_target *target, const struct affine_args *args)
{
    struct tensor from = args->from, to = args->to;
    if (args->diagonal == 0)
        flatten({&from, &to});
    visit(to.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int N = pack_width<T>;
        const bool wide = packs_fit(from, N) && packs_fit(to, N);
        walk_launch(target, "affine", wide ? affine<N, T> : affine<1, T>, to.rows, to.cols / (wide ? N : 1),
                    view_of<const T>(from), view_of<T>(to), static_cast<const double *>(args->squares.data),
                    args->factor, args->eps, (float)args->diagonal);
    });
}

/* -- Momentum ------------------------------------------------------------------------------------------------------ */

/* The constants of a step, each rounded to f32 once. */
struct momentum_constants {
    float momentum, rest;
    bool nesterov;
};

/* Same operations and roundings as src/cpu/muon.c, without fused multiply-adds. */
template <int N, typename G, typename M, typename U>
__global__ WALK_BOUNDS void momentum(struct row_walk walk, const G *gradient, M *m, U *update, const float *scale,
                                     struct momentum_constants c)
{
    const float factor = *scale;
    const bool skipped = isnan(factor);
    struct loaded {
        pack<G, N> gradient;
        pack<M, N> m;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t, uint32_t p) {
            const int64_t at = (int64_t)p * N;
            return loaded{load_pack<N>(gradient + at), load_pack<N>(m + at)};
        },
        [&](uint32_t, uint32_t p, const loaded &in) {
            const int64_t at = (int64_t)p * N;
            float kept[N], out[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float fresh = __fmul_rn(c.rest, __fmul_rn(to_float(in.gradient.at[i]), factor));
                kept[i] = __fadd_rn(__fmul_rn(c.momentum, to_float(in.m.at[i])), fresh);
                out[i] = skipped ? 0.0f : c.nesterov ? __fadd_rn(__fmul_rn(c.momentum, kept[i]), fresh) : kept[i];
            }
            store(update + at, out);
            if (!skipped)
                store(m + at, kept);
        });
}

template <typename G, typename M>
static void launch_momentum(const struct cuda_target *target, const struct momentum_args *args)
{
    constexpr int N = pack_width<float>;
    const struct momentum_constants c = {(float)args->momentum, (float)(1.0 - args->momentum), args->nesterov};
    const bool wide = packs_fit(args->gradient, N) && packs_fit(args->m, N) && packs_fit(args->update, N);
    visit(args->update.dtype, [&](auto zero) {
        using U = decltype(zero);
        walk_launch(target, "momentum", wide ? momentum<N, G, M, U> : momentum<1, G, M, U>, 1,
                    args->m.cols / (wide ? N : 1), static_cast<const G *>(args->gradient.data),
                    static_cast<M *>(args->m.data), static_cast<U *>(args->update.data),
                    static_cast<const float *>(args->scale.data), c);
    });
}

void cuda_momentum(const struct cuda_target *target, const struct momentum_args *args)
{
    visit(args->gradient.dtype, [&](auto zero) {
        using G = decltype(zero);
        if (args->m.dtype == DTYPE_F32)
            launch_momentum<G, float>(target, args);
        else
            launch_momentum<__nv_bfloat16, __nv_bfloat16>(target, args);
    });
}

/* -- Step -----------------------------------------------------------------------------------------------------------
 */

struct muon_constants {
    double lr_factor, weight_decay, adjustment;
};

/* Same operations and roundings as src/cpu/muon.c, without fused multiply-adds. */
template <int N, typename WEIGHTS, typename U>
__global__ WALK_BOUNDS void muon(struct row_walk walk, WEIGHTS weights, const U *update, const float *rate,
                                 const float *scale, struct muon_constants c)
{
    if (isnan(*scale))
        return;
    const double lr = (double)*rate * c.lr_factor;
    const float decay = (float)(1.0 - lr * c.weight_decay), step = (float)(lr * c.adjustment);
    struct loaded {
        typename WEIGHTS::template loaded<N> weight;
        pack<U, N> update;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t, uint32_t p) {
            const int64_t at = (int64_t)p * N;
            return loaded{weights.template load<N>(at), load_pack<N>(update + at)};
        },
        [&](uint32_t, uint32_t p, const loaded &in) {
            float weight[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                weight[i] = __fsub_rn(__fmul_rn(WEIGHTS::number(in.weight, i), decay),
                                      __fmul_rn(step, to_float(in.update.at[i])));
            weights.keep((int64_t)p * N, weight);
        });
}

template <typename WEIGHTS>
static void launch_muon(const struct cuda_target *target, const struct muon_args *args, WEIGHTS weights)
{
    constexpr int N = pack_width<float>;
    const struct muon_constants c = {args->lr_factor, args->weight_decay, args->adjustment};
    const bool wide = packs_fit(args->weight, N) && packs_fit(args->update, N) &&
                      (!tensor_present(&args->low) || packs_fit(args->low, N));
    visit(args->update.dtype, [&](auto zero) {
        using U = decltype(zero);
        walk_launch(target, "muon", wide ? muon<N, WEIGHTS, U> : muon<1, WEIGHTS, U>, 1,
                    args->weight.cols / (wide ? N : 1), weights, static_cast<const U *>(args->update.data),
                    static_cast<const float *>(args->rate.data), static_cast<const float *>(args->scale.data), c);
    });
}

void cuda_muon(const struct cuda_target *target, const struct muon_args *args)
{
    void *weight = args->weight.data, *low = args->low.data;
    if (tensor_present(&args->low)) {
        launch_muon(target, args, halved_weights{static_cast<uint16_t *>(weight), static_cast<int16_t *>(low)});
        return;
    }
    visit(args->weight.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_muon(target, args, whole_weights<T>{static_cast<T *>(weight)});
    });
}
