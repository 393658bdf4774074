/* quantize: to e4m3 with one scale for the tensor. */
#include "cuda/walk.cuh"

#include <cuda_fp8.h>

/* -- Scale -------------------------------------------------------------------------------------------------------- */

/* Bits of a float without its sign order as the float does; NaN counts as the largest, so that a bad tensor gives a bad
 * scale instead of passing for a good one. A maximum is the same in any order. */
template <typename T, int N>
__global__ WALK_BOUNDS void largest_magnitude(struct walk walk, view<const T> x, uint32_t *largest)
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

__device__ __forceinline__ float scale_of(uint32_t largest)
{
    return largest == 0 ? 1.0f : __uint_as_float(largest) / 448.0f;
}

/* -- Copies ------------------------------------------------------------------------------------------------------- */

/* A block takes a square tile. A thread quantizes N elements at a time; for the transposed copy it takes SIDE elements
 * of four columns. */
enum { TILE = 128, TILE_PITCH = TILE + 8, SIDE = 16, TILE_THREADS = TILE / SIDE * (TILE / 4) };

struct copy_targets {
    uint8_t *row, *column; /* NULL: not wanted */
    int64_t row_stride, column_stride;
    float *scale;
    const uint32_t *largest;
};

/* The 4 x 4 bytes of four words, transposed. */
__device__ __forceinline__ void transpose_bytes(uint32_t (&w)[4])
{
    uint32_t a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
    uint32_t c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(a, b, 0x5410);
    w[1] = __byte_perm(a, b, 0x7632);
    w[2] = __byte_perm(c, d, 0x5410);
    w[3] = __byte_perm(c, d, 0x7632);
}

/* Columns of the tile in memory as rows of the transposed copy; WIDE: SIDE elements by one access. A warp takes 4 *
 * SIDE elements of eight times four columns. */
template <bool WIDE>
__device__ __forceinline__ void write_columns(const uint8_t (&tile)[TILE][TILE_PITCH], const struct copy_targets &to,
                                              int64_t first_row, int64_t first_col, int rows, int cols)
{
    int from = (threadIdx.x % 4 + threadIdx.x / TILE * 4) * SIDE, col = threadIdx.x / 4 % (TILE / 4) * 4;
    if (from >= rows || col >= cols)
        return;
    uint32_t w[4][4]; /* [four rows][column] after the transposition */
#pragma unroll
    for (int four = 0; four < 4; four++) {
#pragma unroll
        for (int r = 0; r < 4; r++)
            w[four][r] = *reinterpret_cast<const uint32_t *>(&tile[from + 4 * four + r][col]);
        transpose_bytes(w[four]);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        uint8_t *out = to.column + (first_col + col + c) * to.column_stride + first_row + from;
        if constexpr (WIDE) {
            *reinterpret_cast<uint4 *>(out) = make_uint4(w[0][c], w[1][c], w[2][c], w[3][c]);
        } else {
#pragma unroll
            for (int r = 0; r < SIDE; r++)
                if (col + c < cols && from + r < rows)
                    out[r] = (uint8_t)(w[r / 4][c] >> 8 * (r % 4));
        }
    }
}

/* Division by one positive number: a product with its reciprocal, mended by the remainder, is the quotient rounded
 * once. Both sides are enlarged where the reciprocal would overflow. */
struct divisor {
    float factor, value, reciprocal;
};

__device__ __forceinline__ struct divisor divisor_of(float x)
{
    float factor = x < 0x1p-64f ? 0x1p64f : 1.0f;
    return {factor, x * factor, 1.0f / (x * factor)};
}

__device__ __forceinline__ float divide(float x, const struct divisor &by)
{
    float enlarged = x * by.factor, quotient = enlarged * by.reciprocal;
    return copysignf(fmaf(fmaf(-quotient, by.value, enlarged), by.reciprocal, quotient), x); /* -0 stays -0 */
}

template <int N> __device__ __forceinline__ pack<uint8_t, N> to_e4m3(const float (&v)[N])
{
    pack<uint8_t, N> out;
    if (N == 1)
        out.at[0] = __nv_cvt_float_to_fp8(v[0], __NV_SATFINITE, __NV_E4M3);
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) {
        uint16_t two = __nv_cvt_float2_to_fp8x2(make_float2(v[i], v[i + 1]), __NV_SATFINITE, __NV_E4M3);
        out.at[i] = (uint8_t)two;
        out.at[i + 1] = (uint8_t)(two >> 8);
    }
    return out;
}

/* WIDE: x in packs of N, row in packs of N bytes, column in packs of SIDE bytes. */
template <typename T, int N, bool WIDE>
__global__ void __launch_bounds__(TILE_THREADS, 4) quantize(view<const T> x, struct copy_targets to)
{
    __shared__ __align__(16) uint8_t tile[TILE][TILE_PITCH];
    constexpr int PACKS = TILE / N, STEP = TILE_THREADS / PACKS; /* of a tile's row; rows at a time */
    constexpr int AHEAD = 4;
    int64_t across = (x.cols + TILE - 1) / TILE;
    int64_t first_row = blockIdx.x / across * TILE, first_col = blockIdx.x % across * TILE;
    int rows = (int)min((int64_t)TILE, x.rows - first_row), cols = (int)min((int64_t)TILE, x.cols - first_col);
    int col = threadIdx.x % PACKS * N;
    float scale = scale_of(*to.largest);
    struct divisor by = divisor_of(scale);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *to.scale = scale;
    for (int first = threadIdx.x / PACKS; first < rows; first += STEP * AHEAD) {
        pack<T, N> in[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * STEP < rows && col < cols)
                in[i] = load_pack<N>(x.row(first_row + first + i * STEP) + first_col + col);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int r = first + i * STEP;
            if (r >= rows || col >= cols)
                break;
            float v[N];
            unpack(in[i], v);
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = divide(v[j], by);
            pack<uint8_t, N> out = to_e4m3(v);
            if (to.row != NULL)
                store_pack(to.row + (first_row + r) * to.row_stride + first_col + col, out);
            *reinterpret_cast<pack<uint8_t, N> *>(&tile[r][col]) = out;
        }
    }
    if (to.column == NULL)
        return;
    __syncthreads();
    write_columns<WIDE>(tile, to, first_row, first_col, rows, cols);
}

int64_t cuda_quantize_workspace(const struct cuda_target *, const struct quantize_args *)
{
    return sizeof(uint32_t);
}

static bool fits(const struct tensor &t, int n)
{
    return !tensor_present(&t) || packs_fit(t, n);
}

void cuda_quantize(const struct cuda_target *target, const struct quantize_args *args)
{
    uint32_t *largest = reinterpret_cast<uint32_t *>(target->workspace);
    struct copy_targets to = {static_cast<uint8_t *>(args->to.row.data),
                        static_cast<uint8_t *>(args->to.column.data),
                        args->to.row.stride,
                        args->to.column.stride,
                        static_cast<float *>(args->to.row_scale.data),
                        largest};
    struct tensor x = args->x, flat = args->x;
    if (tensor_count(&x) == 0) {
        struct fill_args one = {args->to.row_scale, 1.0};
        cuda_fill(target, &one);
        return;
    }
    flatten({&flat});
    CUDA_CHECK(cudaMemsetAsync(largest, 0, sizeof *largest, target->stream));
    visit_packs({flat}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "quantize", largest_magnitude<T, N>, flat.rows, flat.cols / N, view_of<const T>(flat),
                    largest);
    });
    visit(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int N = pack_width<T>;
        bool wide = packs_fit(x, N) && fits(args->to.row, N) && fits(args->to.column, SIDE);
        auto kernel = wide ? quantize<T, N, true> : quantize<T, 1, false>;
        unsigned tiles = (unsigned)(ceil_div(x.rows, TILE) * ceil_div(x.cols, TILE));
        kernel<<<tiles, TILE_THREADS, 0, target->stream>>>(view_of<const T>(x), to);
        CUDA_CHECK_LAUNCH("quantize");
    });
}

void cuda_quantization_statistic(const struct cuda_target *, const struct quantization_statistic_args *)
{
}

void cuda_delayed_scale(const struct cuda_target *, const struct delayed_scale_args *)
{
}
