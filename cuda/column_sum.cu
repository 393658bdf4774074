/* Sums over rows, and over columns. */
#include "cuda/column_sum.cuh"
#include "cuda/team.cuh"

#include <cuda_fp8.h>

/* -- Parts -------------------------------------------------------------------------------------------------------- */

enum { PART_LANES = 16 };

/* The sums that one launch makes: a row of blocks each. */
struct part_sums {
    float *of[2];
};

static __global__ void __launch_bounds__(WARP *PART_LANES)
    sum_parts_kernel(const float *partial, int64_t parts, int64_t cols, struct part_sums sums, const float *scale,
                     bool accumulate)
{
    __shared__ float lanes[PART_LANES][WARP];
    int64_t col = (int64_t)blockIdx.x * WARP + threadIdx.x;
    float total = 0.0f, *sum = blockIdx.y == 0 ? sums.of[0] : sums.of[1];
    partial += blockIdx.y * parts * cols;
#pragma unroll 8
    for (int64_t part = threadIdx.y; col < cols && part < parts; part += PART_LANES)
        total += partial[part * cols + col];
    lanes[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols)
        return;
#pragma unroll
    for (int lane = 1; lane < PART_LANES; lane++)
        total += lanes[lane][threadIdx.x];
    total *= scale != NULL ? *scale : 1.0f;
    sum[col] = accumulate ? sum[col] + total : total;
}

void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts,
               std::initializer_list<struct tensor> sums, const float *scale, bool accumulate)
{
    struct part_sums to = {};
    int count = 0;
    int64_t cols = sums.begin()->cols;
    for (const struct tensor &sum : sums)
        to.of[count++] = static_cast<float *>(sum.data);
    if (cols == 0)
        return;
    dim3 grid((unsigned)ceil_div(cols, WARP), (unsigned)count);
    sum_parts_kernel<<<grid, dim3(WARP, PART_LANES), 0, target->stream>>>(partial, parts, cols, to, scale, accumulate);
    CUDA_CHECK_LAUNCH("sum_parts");
}

/* -- Over rows ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ float to_float(__nv_fp8_e4m3 x)
{
    return static_cast<float>(x);
}

__device__ __forceinline__ float to_float(__nv_fp8_e5m2 x)
{
    return static_cast<float>(x);
}

/* With the element types of a product's operands, and the width of packs that fits. */
template <typename F> static void visit_operand(const struct tensor &x, F f)
{
    auto widths = [&](auto zero) {
        if (packs_fit(x, pack_width<decltype(zero)>))
            f(zero, std::integral_constant<int, pack_width<decltype(zero)>>());
        else
            f(zero, std::integral_constant<int, 1>());
    };
    if (x.dtype == DTYPE_E4M3)
        widths(__nv_fp8_e4m3());
    else if (x.dtype == DTYPE_E5M2)
        widths(__nv_fp8_e5m2());
    else
        visit(x.dtype, widths);
}

enum { ROW_LANES = 8 }; /* warps of a block: they take turns at its rows */

/* Each warp sums some rows of WARP * N columns. */
template <typename T, int N>
__global__ void __launch_bounds__(WARP *ROW_LANES) sum_rows(view<const T> x, int64_t block_rows, float *partial)
{
    __shared__ float lanes[ROW_LANES][N][WARP];
    int64_t col = ((int64_t)blockIdx.y * WARP + threadIdx.x) * N;
    int64_t first = blockIdx.x * block_rows, end = min(first + block_rows, x.rows);
    float total[N] = {};
#pragma unroll 4
    for (int64_t row = first + threadIdx.y; col < x.cols && row < end; row += ROW_LANES) {
        float v[N];
        load(x.row(row) + col, v);
#pragma unroll
        for (int i = 0; i < N; i++)
            total[i] += v[i];
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        lanes[threadIdx.y][i][threadIdx.x] = total[i];
    __syncthreads();
    if (threadIdx.y > 0 || col >= x.cols)
        return;
#pragma unroll
    for (int i = 0; i < N; i++)
        for (int lane = 1; lane < ROW_LANES; lane++)
            total[i] += lanes[lane][i][threadIdx.x];
    store(partial + blockIdx.x * x.cols + col, total);
}

/* Rows of a block, by the shape alone: so that there are about enough blocks, each with so many rows that its sums are
 * little traffic. */
static int64_t rows_of_block(int64_t rows, int64_t cols)
{
    const int64_t blocks = 8 * USUAL_MULTIPROCESSORS, least = 8 * ROW_LANES;
    int64_t block_rows = ceil_div(rows, ceil_div(blocks, ceil_div(cols, 8 * WARP)));
    return block_rows > least ? block_rows : least;
}

int64_t cuda_column_sum_workspace(const struct cuda_target *, int64_t rows, int64_t cols)
{
    return ceil_div(rows, rows_of_block(rows, cols)) * cols * (int64_t)sizeof(float);
}

void cuda_column_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, const float *scale,
                     bool accumulate, char *scratch)
{
    int64_t block_rows = rows_of_block(x.rows, x.cols), parts = ceil_div(x.rows, block_rows);
    float *partial = reinterpret_cast<float *>(scratch);
    if (x.cols == 0)
        return;
    if (parts > 0)
        visit_operand(x, [&](auto zero, auto width) {
            using T = decltype(zero);
            constexpr int N = decltype(width)::value;
            dim3 grid((unsigned)parts, (unsigned)ceil_div(x.cols, WARP * N));
            sum_rows<T, N>
                <<<grid, dim3(WARP, ROW_LANES), 0, target->stream>>>(view_of<const T>(x), block_rows, partial);
            CUDA_CHECK_LAUNCH("column_sum");
        });
    sum_parts(target, partial, parts, {sum}, scale, accumulate);
}

/* -- Over columns ------------------------------------------------------------------------------------------------- */

enum { SUM_TEAM = 256 };

template <typename T, int N>
__global__ void __launch_bounds__(SUM_TEAM) sum_cols(view<const T> x, float *sum, const float *scale, bool accumulate)
{
    __shared__ team_memory<1> memory;
    int64_t packs = x.cols / N;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < x.rows; row += gridDim.x * blockDim.y) {
        const T *from = x.row(row);
        float total = 0.0f;
#pragma unroll 4
        for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
            float v[N];
            load(from + p * N, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                total += v[i];
        }
        total = team_sum(total, memory) * (scale != NULL ? *scale : 1.0f);
        if (threadIdx.x == 0)
            sum[row] = accumulate ? sum[row] + total : total;
    }
}

void cuda_row_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, const float *scale,
                  bool accumulate)
{
    if (x.rows == 0)
        return;
    visit_operand(x, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        dim3 block = team_block(x.cols / N, 4, SUM_TEAM);
        sum_cols<T, N><<<team_blocks(x.rows, block, 8 * target->multiprocessors), block, 0, target->stream>>>(
            view_of<const T>(x), static_cast<float *>(sum.data), scale, accumulate);
        CUDA_CHECK_LAUNCH("row_sum");
    });
}
