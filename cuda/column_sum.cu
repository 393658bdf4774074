/* Sums over rows, and over columns. */
#include "cuda/column_sum.cuh"
#include "cuda/slab_sum.cuh"
#include "cuda/team.cuh"

/* -- Parts -------------------------------------------------------------------------------------------------------- */

enum { PART_LANES = 16 };

/* The sums of one launch, each with a row of blocks. */
struct part_sums {
    struct part_sum of[MOST_PART_SUMS];
};

static __global__ void __launch_bounds__(WARP *PART_LANES)
    sum_parts_kernel(const float *partial, int64_t parts, int64_t cols, struct part_sums sums)
{
    __shared__ float lanes[PART_LANES][WARP];
    int64_t col = (int64_t)blockIdx.x * WARP + threadIdx.x;
    float total = 0.0f;
    struct part_sum to = blockIdx.y == 0 ? sums.of[0] : blockIdx.y == 1 ? sums.of[1] : sums.of[2];
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
    to.sum[col] = to.accumulate ? to.sum[col] + total : total;
}

void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts, int64_t cols,
               const struct part_sum *sums, int count)
{
    struct part_sums to = {};
    if (cols == 0 || count == 0)
        return;
    for (int i = 0; i < count; i++)
        to.of[i] = sums[i];
    dim3 grid((unsigned)ceil_div(cols, WARP), (unsigned)count);
    sum_parts_kernel<<<grid, dim3(WARP, PART_LANES), 0, target->stream>>>(partial, parts, cols, to);
    CUDA_CHECK_LAUNCH("sum_parts");
}

void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts,
               std::initializer_list<struct tensor> sums, bool accumulate)
{
    struct part_sum to[MOST_PART_SUMS];
    int count = 0;
    for (const struct tensor &sum : sums)
        to[count++] = {static_cast<float *>(sum.data), accumulate};
    sum_parts(target, partial, parts, sums.begin()->cols, to, count);
}

/* -- Over rows ---------------------------------------------------------------------------------------------------- */

template <typename T, bool WHOLE> __global__ SLAB_BOUNDS void sum_rows(view<const T> x, struct slab_sums sums)
{
    constexpr int N = pack_width<T>;
    struct parameter_slab slab = slab_of<N>(sums.split, x.rows, x.cols);
    auto from = slab_rows<const T>(x, slab);
    sum_slab<N, WHOLE ? 8 : 2>(
        sums, slab, [&](int row) { return read_elements<T, WHOLE>(from.row(row), slab.count); },
        [&](int, bool, const uint4 &word, float(&v)[N]) { unpack(reinterpret_cast<const pack<T, N> &>(word), v); });
}

int64_t cuda_column_sum_workspace(const struct cuda_target *, struct tensor x)
{
    return slab_workspace(x);
}

void cuda_column_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, bool accumulate,
                     char *scratch)
{
    if (x.cols == 0)
        return;
    struct slab_sums sums = {slab_split_of(x), reinterpret_cast<float *>(scratch), static_cast<float *>(sum.data),
                             accumulate, target->counters};
    visit_packs({x}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr bool WHOLE = decltype(width)::value > 1;
        sum_rows<T, WHOLE>
            <<<slab_grid(sums.split), slab_block(sums.split), 0, target->stream>>>(view_of<const T>(x), sums);
        CUDA_CHECK_LAUNCH("column_sum");
    });
}

/* -- Over columns ------------------------------------------------------------------------------------------------- */

enum { SUM_TEAM = 256 };

template <typename T, int N>
__global__ void __launch_bounds__(SUM_TEAM) sum_cols(view<const T> x, float *sum, bool accumulate)
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
        total = team_sum(total, memory);
        if (threadIdx.x == 0)
            sum[row] = accumulate ? sum[row] + total : total;
    }
}

void cuda_row_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, bool accumulate)
{
    if (x.rows == 0)
        return;
    visit_packs({x}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        dim3 block = team_block(x.cols / N, 4, SUM_TEAM);
        sum_cols<T, N><<<team_blocks(x.rows, block, 8 * target->multiprocessors), block, 0, target->stream>>>(
            view_of<const T>(x), static_cast<float *>(sum.data), accumulate);
        CUDA_CHECK_LAUNCH("row_sum");
    });
}
