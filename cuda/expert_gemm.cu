/* GEMMs over the rows of each expert. Where an expert's rows end is known to the device alone, so the grid has a block
 * for each tile that there could be, and blocks without a tile end at once: nothing waits for the host, and CUDA graphs
 * can have the launch. bf16 rows that are aligned to 16 bytes are multiplied by tensor cores: by warpgroups on sm_90a
 * (expert_gemm_warpgroup.cu), else by mma.sync. Other rows are multiplied by fp32 arithmetic. */
#include "cuda/expert_gemm.cuh"
#include "cuda/mma.cuh"

/* d [m, n] (+)= op(left) op(right), where left is [m, k], or [k, m] when transposed, and right [n, k], or [k, n] when
 * transposed: both tiles' rows are read as they are stored. */
template <typename T, typename D> struct product {
    const T *left, *right;
    D *to;
    int64_t left_stride, right_stride, to_stride;
    int m, n, k;
    bool accumulate;
};

template <typename D> __device__ __forceinline__ void store_sum(D *to, float sum, bool accumulate)
{
    *to = from_float<D>(accumulate ? to_float(*to) + sum : sum);
}

/* -- Tensor cores ------------------------------------------------------------------------------------------------- */

using bf16 = __nv_bfloat16;

/* A block of eight warps has a tile of 128 x 128, each warp 64 x 32 of it. */
enum { SIDE = 128, STEP = 32, THREADS = 256, WARP_M = 64, WARP_N = 32, PACK = 8, PADDING = 8 };

/* A step of one side in shared memory: [SIDE][STEP], or [STEP][SIDE] when transposed, in rows that are PADDING elements
 * longer, so that the eight rows of a matrix fragment are in different banks. */
template <bool TRANSPOSED> struct side_tile {
    static constexpr int rows = TRANSPOSED ? STEP : SIDE, cols = TRANSPOSED ? SIDE : STEP, stride = cols + PADDING;
    bf16 at[rows * stride];
};

/* Starts copying a step: elements first .. of the side's `extent` rows (or columns), from step k_first on of k. */
template <bool TRANSPOSED>
__device__ __forceinline__ void bring(side_tile<TRANSPOSED> &tile, const bf16 *from, int64_t stride, int first,
                                      int extent, int k_first, int k)
{
    using side = side_tile<TRANSPOSED>;
    constexpr int packs = side::cols / PACK;
#pragma unroll
    for (int i = 0; i < side::rows * packs / THREADS; i++) {
        const int number = threadIdx.x + i * THREADS, row = number / packs, col = number % packs * PACK;
        const int at_row = (TRANSPOSED ? k_first : first) + row, at_col = (TRANSPOSED ? first : k_first) + col;
        const bool real = at_row < (TRANSPOSED ? k : extent) && at_col < (TRANSPOSED ? extent : k);
        copy_async<16>(&tile.at[row * side::stride + col], real ? from + at_row * stride + at_col : from, real);
    }
}

/* Reads four 8 x 8 matrices: 16 elements of the side from `first` on, by 16 of k from `k` on. across: whether matrix 1
 * is the next one along k (as the right side's fragments), else along the side (as the left side's). */
template <bool TRANSPOSED>
__device__ __forceinline__ void read_fragment(const side_tile<TRANSPOSED> &tile, int first, int k, bool across,
                                              uint32_t (&to)[4])
{
    const int lane = threadIdx.x % WARP, one = lane / 8 % 2 * 8, two = lane / 16 * 8;
    const int side = first + (across ? two : one), along = k + (across ? one : two);
    if (TRANSPOSED)
        load_matrices_transposed(to, shared_address(&tile.at[(along + lane % 8) * side_tile<true>::stride + side]));
    else
        load_matrices(to, shared_address(&tile.at[(side + lane % 8) * side_tile<false>::stride + along]));
}

template <bool LEFT, bool RIGHT> struct product_memory {
    side_tile<LEFT> left[2];
    side_tile<RIGHT> right[2];
};

/* Computes the tile of d that begins at (row, col). */
template <bool LEFT, bool RIGHT, typename D>
__device__ __forceinline__ void multiply_tile(const product<bf16, D> &p, int row, int col)
{
    __shared__ __align__(16) product_memory<LEFT, RIGHT> memory;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_row = warp % (SIDE / WARP_M) * WARP_M, warp_col = warp / (SIDE / WARP_M) * WARP_N;
    float sum[WARP_M / 16][WARP_N / 8][4] = {};
    const int steps = (p.k + STEP - 1) / STEP;
    auto bring_step = [&](int step) {
        bring<LEFT>(memory.left[step % 2], p.left, p.left_stride, row, p.m, step * STEP, p.k);
        bring<RIGHT>(memory.right[step % 2], p.right, p.right_stride, col, p.n, step * STEP, p.k);
    };
    if (steps > 0)
        bring_step(0);
    for (int step = 0; step < steps; step++) {
        copy_async_wait();
        __syncthreads(); /* this step is there, and nobody reads the one before, whose memory the next one takes */
        if (step + 1 < steps)
            bring_step(step + 1);
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            uint32_t a[WARP_M / 16][4], b[WARP_N / 16][4];
#pragma unroll
            for (int i = 0; i < WARP_M / 16; i++)
                read_fragment<LEFT>(memory.left[step % 2], warp_row + 16 * i, k, false, a[i]);
#pragma unroll
            for (int j = 0; j < WARP_N / 16; j++)
                read_fragment<RIGHT>(memory.right[step % 2], warp_col + 16 * j, k, true, b[j]);
#pragma unroll
            for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
                for (int j = 0; j < WARP_N / 8; j++)
                    multiply_16_8_16(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row + warp_row + 16 * i + lane / 4 + 8 * half;
                const int c = col + warp_col + 8 * j + lane % 4 * 2;
                if (r >= p.m || c >= p.n)
                    continue;
                pack<D, 2> *to = reinterpret_cast<pack<D, 2> *>(p.to + r * p.to_stride + c), made;
                if (p.accumulate)
                    made = *to;
                store_sum(&made.at[0], sum[i][j][2 * half], p.accumulate);
                store_sum(&made.at[1], sum[i][j][2 * half + 1], p.accumulate);
                *to = made;
            }
}

/* -- fp32 arithmetic ---------------------------------------------------------------------------------------------- */

/* A block has a tile of 64 x 64, each thread 4 x 4 of it. */
enum { PLAIN_SIDE = 64, PLAIN_STEP = 16, EACH = 4, PLAIN_ROW = PLAIN_SIDE + 4 };

/* Reads a step of one side into to [PLAIN_STEP][PLAIN_ROW]; zeros outside. */
template <bool TRANSPOSED, typename T>
__device__ __forceinline__ void read_step(float *to, const T *from, int64_t stride, int first, int extent, int k_first,
                                          int k)
{
#pragma unroll
    for (int i = 0; i < PLAIN_SIDE * PLAIN_STEP / THREADS; i++) {
        const int number = threadIdx.x + i * THREADS;
        const int side = TRANSPOSED ? number % PLAIN_SIDE : number / PLAIN_STEP;
        const int along = TRANSPOSED ? number / PLAIN_SIDE : number % PLAIN_STEP;
        const int64_t s = first + side, a = k_first + along;
        const bool real = s < extent && a < k;
        to[along * PLAIN_ROW + side] = real ? to_float(TRANSPOSED ? from[a * stride + s] : from[s * stride + a]) : 0.0f;
    }
}

template <bool LEFT, bool RIGHT, typename T, typename D>
__device__ __forceinline__ void multiply_tile_plainly(const product<T, D> &p, int row, int col)
{
    __shared__ __align__(16) float left[PLAIN_STEP * PLAIN_ROW], right[PLAIN_STEP * PLAIN_ROW];
    const int own_row = threadIdx.x / (PLAIN_SIDE / EACH) * EACH, own_col = threadIdx.x % (PLAIN_SIDE / EACH) * EACH;
    float sum[EACH][EACH] = {};
    for (int first = 0; first < p.k; first += PLAIN_STEP) {
        __syncthreads();
        read_step<LEFT>(left, p.left, p.left_stride, row, p.m, first, p.k);
        read_step<RIGHT>(right, p.right, p.right_stride, col, p.n, first, p.k);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PLAIN_STEP; k++) {
            float a[EACH], b[EACH];
            load(&left[k * PLAIN_ROW + own_row], a);
            load(&right[k * PLAIN_ROW + own_col], b);
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (row + own_row + i < p.m && col + own_col + j < p.n)
                store_sum(p.to + (row + own_row + i) * p.to_stride + col + own_col + j, sum[i][j], p.accumulate);
}

/* MMA: by tensor cores. */
template <bool MMA> constexpr int tile_side = MMA ? (int)SIDE : (int)PLAIN_SIDE;

template <bool MMA, bool LEFT, bool RIGHT, typename T, typename D>
__device__ __forceinline__ void multiply(const product<T, D> &p, int row, int col)
{
    if constexpr (MMA)
        multiply_tile<LEFT, RIGHT>(p, row, col);
    else
        multiply_tile_plainly<LEFT, RIGHT>(p, row, col);
}

/* -- The ops ------------------------------------------------------------------------------------------------------ */

/* A tile of rows: of `expert`, whose rows are first .. end - 1, from `row` on. */
struct expert_tile {
    int expert, first, end, row;
};

/* Returns tile number `number` of the experts' rows; expert -1: there are fewer. */
__device__ __forceinline__ struct expert_tile tile_of(const int32_t *ends, int experts, int side, int number)
{
    int first = 0;
    for (int e = 0; e < experts; e++) {
        const int end = ends[e], tiles = (end - first + side - 1) / side;
        if (number < tiles)
            return {e, first, end, number * side};
        number -= tiles;
        first = end;
    }
    return {-1, 0, 0, 0};
}

template <bool MMA, bool TRANSPOSED, typename T>
static __global__ void __launch_bounds__(THREADS)
    expert_gemm_kernel(view<const T> a, view<const T> b, const int32_t *ends, int experts, view<T> d)
{
    const struct expert_tile tile = tile_of(ends, experts, tile_side<MMA>, blockIdx.y);
    if (tile.expert < 0)
        return;
    const product<T, T> p = {a.row(tile.first),
                             b.row(b.rows / experts * tile.expert),
                             d.row(tile.first),
                             a.stride,
                             b.stride,
                             d.stride,
                             tile.end - tile.first,
                             (int)d.cols,
                             (int)a.cols,
                             false};
    multiply<MMA, false, !TRANSPOSED>(p, tile.row, blockIdx.x * tile_side<MMA>);
}

template <bool MMA, typename T, typename D>
static __global__ void __launch_bounds__(THREADS)
    expert_gradient_kernel(view<const T> dy, view<const T> x, const int32_t *ends, view<D> dweight, bool accumulate)
{
    const int expert = blockIdx.z, first = expert > 0 ? ends[expert - 1] : 0;
    const product<T, D> p = {
        dy.row(first), x.row(first), dweight.row(dy.cols * expert), dy.stride, x.stride, dweight.stride,
        (int)dy.cols,  (int)x.cols,  ends[expert] - first,          accumulate};
    multiply<MMA, true, true>(p, blockIdx.y * tile_side<MMA>, blockIdx.x * tile_side<MMA>);
}

/* Returns whether tensor cores can multiply matrices of these rows. */
static bool by_tensor_cores(std::initializer_list<struct tensor> tensors)
{
    bool fit = tensors.begin()->dtype == DTYPE_BF16;
    for (const struct tensor &t : tensors)
        fit = fit && packs_fit(t, PACK);
    return fit;
}

static dim3 grid_of(int64_t across, int64_t down, int64_t deep)
{
    if (down > 65535 || deep > 65535)
        error_fatal("cuda executor: a GEMM of experts has %lld x %lld tiles: at most 65535", (long long)down,
                    (long long)deep);
    return dim3((unsigned)across, (unsigned)down, (unsigned)deep);
}

template <bool MMA, bool TRANSPOSED, typename T>
static void launch_gemm(const struct cuda_target *target, const struct expert_gemm_args *args)
{
    constexpr int side = tile_side<MMA>;
    const dim3 grid = grid_of(ceil_div(args->d.cols, side), args->a.rows / side + args->ends.cols, 1);
    expert_gemm_kernel<MMA, TRANSPOSED, T><<<grid, THREADS, 0, target->stream>>>(
        view_of<const T>(args->a), view_of<const T>(args->b), static_cast<const int32_t *>(args->ends.data),
        (int)args->ends.cols, view_of<T>(args->d));
    CUDA_CHECK_LAUNCH("expert_gemm");
}

void cuda_expert_gemm(const struct cuda_target *target, const struct expert_gemm_args *args)
{
    if (tensor_count(&args->d) == 0)
        return;
    if (expert_gemm_has_warpgroups(args)) {
        expert_gemm_by_warpgroups(target, args);
        return;
    }
    const bool mma = by_tensor_cores({args->a, args->b, args->d});
    visit(args->a.dtype, [&](auto zero) {
        using T = decltype(zero);
        visit_bools(mma, args->transpose_b, [&](auto tensor_cores, auto transposed) {
            constexpr bool MMA = decltype(tensor_cores)::value && std::is_same_v<T, bf16>;
            launch_gemm<MMA, decltype(transposed)::value, T>(target, args);
        });
    });
}

template <bool MMA, typename T, typename D>
static void launch_gradient(const struct cuda_target *target, const struct expert_gradient_args *args)
{
    constexpr int side = tile_side<MMA>;
    const dim3 grid = grid_of(ceil_div(args->x.cols, side), ceil_div(args->dy.cols, side), args->ends.cols);
    expert_gradient_kernel<MMA, T, D><<<grid, THREADS, 0, target->stream>>>(
        view_of<const T>(args->dy), view_of<const T>(args->x), static_cast<const int32_t *>(args->ends.data),
        view_of<D>(args->dweight), args->accumulate);
    CUDA_CHECK_LAUNCH("expert_gradient");
}

void cuda_expert_gradient(const struct cuda_target *target, const struct expert_gradient_args *args)
{
    if (tensor_count(&args->dweight) == 0)
        return;
    if (expert_gradient_has_warpgroups(args)) {
        expert_gradient_by_warpgroups(target, args);
        return;
    }
    const bool mma = by_tensor_cores({args->dy, args->x}) && packs_fit(args->dweight, PACK / 2);
    visit(args->dy.dtype, [&](auto zero) {
        using T = decltype(zero);
        visit(args->dweight.dtype, [&](auto sum) {
            using D = decltype(sum);
            if (mma && std::is_same_v<T, bf16>)
                launch_gradient<std::is_same_v<T, bf16>, T, D>(target, args);
            else
                launch_gradient<false, T, D>(target, args);
        });
    });
}
