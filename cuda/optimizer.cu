/* sum_squares, gradient_scale, adamw. */
#include "cuda/team.cuh"
#include "cuda/walk.cuh"
#include "cuda/weights.cuh"

#include <math_constants.h>

/* -- Sum of squares ----------------------------------------------------------------------------------------------- */

/* Returns the number of blocks that fit on the usual GPU, whatever the target: the order of the sum depends only on the
 * shape. */
static int64_t square_blocks(const struct tensor &x)
{
    int64_t needed = ceil_div(tensor_count(&x), WALK_THREADS), most = USUAL_MULTIPROCESSORS * WALK_RESIDENT;
    return needed < most ? needed : most;
}

template <typename T, int N>
__global__ WALK_BOUNDS void sum_squares(struct row_walk walk, view<const T> x, double *partial)
{
    __shared__ double shared[WARP];
    double sum = 0.0;
    walk_packs<4>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(x, row, p)); },
        [&](uint32_t, uint32_t, const pack<T, N> &in) {
#pragma unroll
            for (int i = 0; i < N; i++)
                sum += (double)to_float(in.at[i]) * (double)to_float(in.at[i]);
        });
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

static __global__ WALK_BOUNDS void sum_partial(const double *partial, int blocks, double *sum)
{
    __shared__ double shared[WARP];
    double total = 0.0;
    for (int i = threadIdx.x; i < blocks; i += WALK_THREADS)
        total += partial[i];
    total = block_sum(total, shared);
    if (threadIdx.x == 0)
        *sum = total;
}

int64_t cuda_sum_squares_workspace(const struct cuda_target *, const struct sum_squares_args *args)
{
    return square_blocks(args->x) * args->sum.cols * (int64_t)sizeof(double);
}

void cuda_sum_squares(const struct cuda_target *target, const struct sum_squares_args *args)
{
    double *partial = reinterpret_cast<double *>(target->workspace);
    struct tensor x = args->x;
    unsigned blocks = (unsigned)square_blocks(x);
    if (args->quantum > 0) {
        cuda_sum_squares_exactly(target, args, blocks);
        return;
    }
    flatten({&x});
    if (blocks > 0)
        visit_packs({x}, [&](auto zero, auto width) {
            using T = decltype(zero);
            constexpr int N = decltype(width)::value;
            sum_squares<T, N><<<blocks, WALK_THREADS, 0, target->stream>>>(
                walk_of("sum_squares", blocks, x.rows, x.cols / N), view_of<const T>(x), partial);
            CUDA_CHECK_LAUNCH("sum_squares");
        });
    sum_partial<<<1, WALK_THREADS, 0, target->stream>>>(partial, (int)blocks, static_cast<double *>(args->sum.data));
    CUDA_CHECK_LAUNCH("sum_squares");
}

/* -- Gradient scale ----------------------------------------------------------------------------------------------- */

enum { SCALE_THREADS = 256 };

struct scale_target {
    float *scale, *norm, *corrections;
    double *updates;
};

/* One thread adds, in a fixed order; the others load for it. */
static __global__ void __launch_bounds__(SCALE_THREADS)
    gradient_scale(const double *squares, int64_t n, const double *total, float max_norm, double beta1, double beta2,
                   struct scale_target to)
{
    __shared__ double fetched[SCALE_THREADS];
    double sum = 0.0;
    for (int64_t first = 0; first < n; first += SCALE_THREADS) {
        int64_t left = n - first;
        if (threadIdx.x < left)
            fetched[threadIdx.x] = squares[first + threadIdx.x];
        __syncthreads();
        for (int i = 0; threadIdx.x == 0 && i < SCALE_THREADS && i < left; i++)
            sum += fetched[i];
        __syncthreads();
    }
    if (threadIdx.x > 0)
        return;
    double count = total[1], norm_value = 0.0, scale_value = 0.0;
    if (count > 0.0) {
        norm_value = sqrt(sum) / count;
        double clip = max_norm > 0.0f ? (double)max_norm / (norm_value + 1e-6) : 1.0;
        scale_value = (clip > 1.0 ? 1.0 : clip) / count;
    }
    bool finite = isfinite((float)norm_value) && isfinite(total[0]);
    double updates = *to.updates + (finite ? 1.0 : 0.0);
    *to.norm = (float)norm_value;
    *to.scale = finite ? (float)scale_value : CUDART_NAN_F;
    *to.updates = updates;
    to.corrections[0] = (float)(1.0 - pow(beta1, updates));
    to.corrections[1] = (float)(1.0 - pow(beta2, updates));
}

void cuda_gradient_scale(const struct cuda_target *target, const struct gradient_scale_args *args)
{
    const struct scale_target to = {static_cast<float *>(args->scale.data), static_cast<float *>(args->norm.data),
                                    static_cast<float *>(args->corrections.data),
                                    static_cast<double *>(args->updates.data)};
    gradient_scale<<<1, SCALE_THREADS, 0, target->stream>>>(
        static_cast<const double *>(args->squares.data), args->squares.cols,
        static_cast<const double *>(args->total.data), args->max_norm, args->beta1, args->beta2, to);
    CUDA_CHECK_LAUNCH("gradient_scale");
}

/* -- AdamW -------------------------------------------------------------------------------------------------------- */

/* AdamW's vectors, all of equal length, and scalars. */
template <typename WEIGHTS, typename G> struct adamw_buffers {
    using state = typename WEIGHTS::state;
    WEIGHTS weights;
    const G *gradient;
    state *m, *v;
    const float *step, *scale;
    double beta1, beta2, eps, weight_decay, lr_factor;
};

/* The constants of a step, each rounded to f32 once. */
struct adamw_constants {
    float scale, decay, beta1, rest1, beta2, rest2, step, root, eps;
};

template <typename BUFFERS> __device__ __forceinline__ struct adamw_constants constants_of(const BUFFERS &b)
{
    double lr = (double)b.step[ADAMW_LR] * b.lr_factor;
    return {*b.scale,
            (float)(1.0 - lr * b.weight_decay),
            (float)b.beta1,
            (float)(1.0 - b.beta1),
            (float)b.beta2,
            (float)(1.0 - b.beta2),
            (float)(lr / (double)b.step[ADAMW_CORRECTION_1]),
            (float)(1.0 / sqrt((double)b.step[ADAMW_CORRECTION_2])),
            (float)b.eps};
}

/* Same operations and roundings as src/cpu/optimizer.c, without fused multiply-adds. */
template <int N, typename WEIGHTS, typename G>
__global__ WALK_BOUNDS void adamw(struct row_walk walk, struct adamw_buffers<WEIGHTS, G> b)
{
    if (isnan(*b.scale))
        return;
    __shared__ struct adamw_constants c;
    if (threadIdx.x == 0)
        c = constants_of(b);
    __syncthreads();
    struct loaded {
        typename WEIGHTS::template loaded<N> weight;
        pack<G, N> gradient;
        pack<typename WEIGHTS::state, N> m, v;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t, uint32_t p) {
            int64_t at = (int64_t)p * N;
            return loaded{b.weights.template load<N>(at), load_pack<N>(b.gradient + at), load_pack<N>(b.m + at),
                          load_pack<N>(b.v + at)};
        },
        [&](uint32_t, uint32_t p, const loaded &in) {
            int64_t at = (int64_t)p * N;
            float weight[N], m[N], v[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                float g = __fmul_rn(to_float(in.gradient.at[i]), c.scale);
                m[i] = __fadd_rn(__fmul_rn(c.beta1, to_float(in.m.at[i])), __fmul_rn(c.rest1, g));
                v[i] = __fadd_rn(__fmul_rn(c.beta2, to_float(in.v.at[i])), __fmul_rn(c.rest2, __fmul_rn(g, g)));
                float divisor = __fadd_rn(__fmul_rn(__fsqrt_rn(v[i]), c.root), c.eps);
                float before = WEIGHTS::number(in.weight, i);
                weight[i] = __fsub_rn(__fmul_rn(before, c.decay), __fdiv_rn(__fmul_rn(c.step, m[i]), divisor));
            }
            b.weights.keep(at, weight);
            store(b.m + at, m);
            store(b.v + at, v);
        });
}

/* G: type of the gradient. */
template <typename G, typename WEIGHTS>
static void launch_adamw(const struct cuda_target *target, const struct adamw_args *args, WEIGHTS weights)
{
    using T = typename WEIGHTS::state;
    const struct adamw_buffers<WEIGHTS, G> b = {
        weights, static_cast<const G *>(args->gradient.data), static_cast<T *>(args->m.data),
            static_cast<T *>(args->v.data), static_cast<const float *>(args->step.data),
            static_cast<const float *>(args->scale.data), args->beta1, args->beta2, args->eps, args->weight_decay,
            args->lr_factor
    };
    constexpr int N = pack_width<float>;
    bool wide = !tensor_present(&args->low) || packs_fit(args->low, N);
    for (const struct tensor *t : {&args->weight, &args->gradient, &args->m, &args->v})
        wide = wide && packs_fit(*t, N);
    if (wide)
        walk_launch(target, "adamw", adamw<N, WEIGHTS, G>, 1, args->weight.cols / N, b);
    else
        walk_launch(target, "adamw", adamw<1, WEIGHTS, G>, 1, args->weight.cols, b);
}

void cuda_adamw(const struct cuda_target *target, const struct adamw_args *args)
{
    void *weight = args->weight.data, *low = args->low.data;
    const bool halves = tensor_present(&args->low);
    visit(halves ? args->gradient.dtype : args->weight.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (halves)
            launch_adamw<T>(target, args, halved_weights{static_cast<uint16_t *>(weight), static_cast<int16_t *>(low)});
        else
            launch_adamw<T>(target, args, whole_weights<T>{static_cast<T *>(weight)});
    });
}
