/* quantize: makes quantized operands of a matrix in memory. Scales of TENSOR, ROW and NVFP4 need a first pass over x,
 * or a row of it. */
#include "cuda/column_sum.cuh"
#include "cuda/quantize.cuh"
#include "cuda/walk.cuh"

template <typename T> struct matrix_source {
    using type = T;
    using loaded = sides<T, 1>;
    enum { AHEAD = SIDE, RESIDENT = sizeof(T) == 2 ? 4 : 1, STAGED = 0, PAIRS = false, HALVES = 1 };
    view<const T> x;

    __device__ __forceinline__ part_rows<T, 1> at(int64_t row, int64_t col) const
    {
        return {{x.row(row) + col}, {x.stride}};
    }

    __device__ __forceinline__ void values(const loaded &in, int64_t, side<T> (&to)[1]) const
    {
        to[0] = in.of[0];
    }
};

/* -- Amaxes of the first pass ------------------------------------------------------------------------------------- */

/* Finds the amax of x. */
template <typename T, int N>
__global__ WALK_BOUNDS void largest_magnitude(struct row_walk walk, view<const T> x, uint32_t *largest)
{
    uint32_t own = 0;
    walk_packs<4>(
        walk, [&](uint32_t row, uint32_t p) { return load_pack<N>(pack_at<N>(x, row, p)); },
        [&](uint32_t, uint32_t, const pack<T, N> &in) {
            float v[N];
            unpack(in, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                own = max(own, __float_as_uint(v[i]) & 0x7fffffffu);
        });
    own = __reduce_max_sync(0xffffffffu, own);
    if (threadIdx.x % WARP == 0)
        atomicMax(largest, own);
}

/* Finds the amax of each row and each column. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__(TILE_THREADS, matrix_source<T>::RESIDENT)
    line_magnitudes(struct matrix_source<T> source, uint32_t *of_row, uint32_t *of_column)
{
    __shared__ uint32_t words[TILE_WARPS][TILE_PACKS * square_words<T>];
    const struct tile_square at = place_of(source.x.rows, source.x.cols);
    square<T> loaded[1];
    load_square<WIDE>(source, at, loaded);
    const square<T> &x = loaded[0];
    uint32_t most = lane_row_amax(x);
    int row = threadIdx.x % TILE_PACKS;
    if (row < at.rows) /* row is less than SIDE */
        atomicMax(of_row + at.first_row + at.row + row, most);
    put_column_amaxes(x, words);
    __syncthreads();
    int64_t col = at.first_col + threadIdx.x;
    if (threadIdx.x < TILE && col < source.x.cols)
        atomicMax(of_column + col, column_amax<T>(words, threadIdx.x));
}

/* Finds the amax of x, and of x with its columns transformed. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__(TILE_THREADS, matrix_source<T>::RESIDENT)
    transformed_magnitude(struct matrix_source<T> source, uint32_t *plain, uint32_t *transformed)
{
    const struct tile_square at = place_of(source.x.rows, source.x.cols);
    square<T> loaded[1];
    load_square<WIDE>(source, at, loaded);
    const square<T> &x = loaded[0];
    uint32_t before = __reduce_max_sync(0xffffffffu, square_amax(x)), after = 0;
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        float v[SIDE];
        x.read_column(j, v);
        transform_column(v);
        after = max(after, line_amax(v));
    }
    after = __reduce_max_sync(0xffffffffu, after);
    if (threadIdx.x % WARP > 0)
        return;
    if (before > __ldcg(plain))
        atomicMax(plain, before);
    if (after > __ldcg(transformed))
        atomicMax(transformed, after);
}

/* Returns whether scales need a first pass: they cover more than a tile, and are not given. */
static bool looks_first(const struct quantized_operands &to)
{
    const bool given = tensor_present(&to.scale) || tensor_present(&to.whole_amax);
    return has_quantized(&to) && !given && !scaling_local(to.rule.scaling);
}

static int64_t amax_count(const struct quantize_args *args)
{
    return !looks_first(args->to) ? 0 : args->to.rule.scaling == SCALING_ROW ? args->x.rows + args->x.cols : 2;
}

template <typename T>
static void look(const struct cuda_target *target, const struct quantize_args *args, uint32_t *amaxes,
                 struct quantized_targets *to)
{
    const struct tensor &x = args->x;
    const struct matrix_source<T> source = {
        tile_view_of<const T>(x)
    };
    const unsigned tiles = (unsigned)(ceil_div(x.rows, TILE) * ceil_div(x.cols, TILE));
    bool wide = false;
    to->row_amax = to->column_amax = amaxes;
    CUDA_CHECK(cudaMemsetAsync(amaxes, 0, (size_t)amax_count(args) * sizeof *amaxes, target->stream));
    if (tiles == 0)
        return;
    if constexpr (sizeof(T) == 2)
        wide = packs_fit(x, SIDE);
    if (args->to.rule.scaling == SCALING_ROW) {
        auto kernel = line_magnitudes<T, false>;
        if constexpr (sizeof(T) == 2)
            kernel = wide ? line_magnitudes<T, true> : kernel;
        to->column_amax = amaxes + x.rows;
        kernel<<<tiles, TILE_THREADS, 0, target->stream>>>(source, amaxes, amaxes + x.rows);
    } else if (args->to.rule.hadamard) {
        auto kernel = transformed_magnitude<T, false>;
        if constexpr (sizeof(T) == 2)
            kernel = wide ? transformed_magnitude<T, true> : kernel;
        to->column_amax = amaxes + 1;
        kernel<<<tiles, TILE_THREADS, 0, target->stream>>>(source, amaxes, amaxes + 1);
    } else {
        struct tensor flat = x;
        flatten({&flat});
        constexpr int N = pack_width<T>;
        if (packs_fit(flat, N))
            walk_launch(target, "quantize", largest_magnitude<T, N>, flat.rows, flat.cols / N, view_of<const T>(flat),
                        amaxes);
        else
            walk_launch(target, "quantize", largest_magnitude<T, 1>, flat.rows, flat.cols, view_of<const T>(flat),
                        amaxes);
    }
    CUDA_CHECK_LAUNCH("quantize");
}

/* -- The op -------------------------------------------------------------------------------------------------------- */

static int64_t sums_bytes(const struct quantize_args *args)
{
    return ceil_div(quantized_workspace(args->x.rows, args->x.cols, args->sum), 16) * 16;
}

int64_t cuda_quantize_workspace(const struct cuda_target *, const struct quantize_args *args)
{
    return sums_bytes(args) + amax_count(args) * (int64_t)sizeof(uint32_t);
}

static __global__ void scale_of_tensor(const uint32_t *amax, float largest, float *scale)
{
    *scale = quantization_reciprocal(quantization_multiplier(amax_of(*amax), largest, false));
}

/* Writes the scales of an empty matrix. */
static void fill_scales(const struct cuda_target *target, const struct quantized_operands &to)
{
    for (const struct tensor &scale : {to.row_scale, to.column_scale}) {
        struct fill_args one = {scale, 1.0};
        if (tensor_present(&scale) && tensor_present(&to.whole_amax))
            scale_of_tensor<<<1, 1, 0, target->stream>>>(static_cast<const uint32_t *>(to.whole_amax.data),
                                                         format_largest(to.rule.format),
                                                         static_cast<float *>(scale.data));
        else if (tensor_present(&scale))
            cuda_fill(target, &one);
    }
    CUDA_CHECK_LAUNCH("quantize");
}

template <typename T>
static void launch_quantize(const struct cuda_target *target, const struct matrix_source<T> &source,
                            const struct quantized_targets &to, bool wide)
{
    switch (to.rule.scaling) {
    case SCALING_ROW:
        launch_quantized_in<SCALING_ROW>(target, "quantize", source, to, wide);
        break;
    case SCALING_1X16:
        launch_quantized_of<matrix_source<T>, SCALING_1X16, FORMAT_E2M1>(target, "quantize", source, to, wide);
        break;
    case SCALING_16X16:
        launch_quantized_of<matrix_source<T>, SCALING_16X16, FORMAT_E2M1>(target, "quantize", source, to, wide);
        break;
    default:
        launch_quantized(target, "quantize", source, to, wide);
    }
}

void cuda_quantize(const struct cuda_target *target, const struct quantize_args *args)
{
    const struct tensor &x = args->x;
    struct quantized_targets to = quantized_targets_of(args->to, x.rows, x.cols, {});
    float *partial = reinterpret_cast<float *>(target->workspace);
    if (tensor_present(&args->sum))
        to.partial = partial;
    to.row_amax = to.column_amax = static_cast<const uint32_t *>(args->to.whole_amax.data);
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (looks_first(args->to))
            look<T>(target, args, reinterpret_cast<uint32_t *>(target->workspace + sums_bytes(args)), &to);
        bool wide = packs_fit(x, SIDE) && quantized_fit(args->to, x.cols, {});
        launch_quantize(target, matrix_source<T>{tile_view_of<const T>(x)}, to, wide);
    });
    if (quantize_tile_count(to) == 0)
        fill_scales(target, args->to);
    if (tensor_present(&args->sum))
        sum_parts(target, partial, ceil_div(x.rows, TILE), {args->sum}, args->accumulate);
}
