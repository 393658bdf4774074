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
    sum_parts_kernel(const float *partial, int64_t parts, int64_t cols, struct part_sums sums, bool accumulate)
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
    sum[col] = accumulate ? sum[col] + total : total;
}

void sum_parts(const struct cuda_target *target, const float *partial, int64_t parts,
               std::initializer_list<struct tensor> sums, bool accumulate)
{
    struct part_sums to = {};
    int count = 0;
    int64_t cols = sums.begin()->cols;
    for (const struct tensor &sum : sums)
        to.of[count++] = static_cast<float *>(sum.data);
    if (cols == 0)
        return;
    dim3 grid((unsigned)ceil_div(cols, WARP), (unsigned)count);
    sum_parts_kernel<<<grid, dim3(WARP, PART_LANES), 0, target->stream>>>(partial, parts, cols, to, accumulate);
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

/* Memory shows its speed to a thread with many loads on their way, and to a grid that runs as one wave: blocks left
 * over would take as long again. */
enum { SUM_THREADS = 512, SUM_RESIDENT = 2, SUM_BLOCKS = SUM_RESIDENT * USUAL_MULTIPROCESSORS, SUM_ROUND = 8 };

/* How a matrix is cut, by its shape and type alone, which makes the order of the sums: into stripes of columns and
 * slabs of rows, a block for each slab of each stripe. In a block `packs` threads take a row of the stripe, 16 bytes
 * each, and `lanes` such rows of threads take turns at the slab's. */
struct row_sum_cut {
    int packs, lanes, stripes, slabs;
    int64_t slab_rows;
};

static struct row_sum_cut row_sum_cut_of(const struct tensor &x)
{
    enum { MOST_LANES = 32, LEAST_LANE_ROWS = SUM_ROUND / 2 };
    int64_t packs = ceil_div(x.cols * dtype_size(x.dtype), 16), stripes = ceil_div(packs, WARP);
    struct row_sum_cut cut = {};
    cut.stripes = (int)stripes;
    cut.packs = (int)ceil_div(packs, stripes);
    cut.lanes = SUM_THREADS / cut.packs < MOST_LANES ? SUM_THREADS / cut.packs : MOST_LANES;
    int64_t most = stripes < SUM_BLOCKS ? SUM_BLOCKS / stripes : 1, least_rows = cut.lanes * LEAST_LANE_ROWS;
    cut.slab_rows = ceil_div(x.rows, most) > least_rows ? ceil_div(x.rows, most) : least_rows;
    cut.slabs = x.rows > cut.slab_rows ? (int)ceil_div(x.rows, cut.slab_rows) : 1;
    return cut;
}

/* The first `count` of 16 bytes' elements, zeros for the others. WHOLE: all are wanted, and they are aligned. */
template <typename T, bool WHOLE> __device__ __forceinline__ uint4 read_elements(const T *from, int count)
{
    if (WHOLE)
        return *reinterpret_cast<const uint4 *>(from);
    uint4 word = {};
    T *at = reinterpret_cast<T *>(&word);
#pragma unroll
    for (int i = 0; i < pack_width<T>; i++)
        if (i < count)
            at[i] = from[i];
    return word;
}

/* Thread c of the block gets the sum over the rows of column c of packs * pack_width, of which the first `cols` are
 * there; the others' are zeros. All threads of the block call it; none may still read `memory`. */
template <typename T, bool WHOLE>
__device__ __forceinline__ float block_column_sum(const T *x, int64_t stride, int rows, int cols, int packs,
                                                  float *memory)
{
    constexpr int N = pack_width<T>, ROUND = WHOLE ? SUM_ROUND : 2;
    const int columns = packs * N, lanes = blockDim.x / packs;
    const int lane = threadIdx.x / packs, first = threadIdx.x % packs * N;
    const T *from = x + lane * stride + first;
    const int64_t step = lanes * stride;
    /* Rows of this thread; threads beyond the last lane have none. */
    int left = lane < lanes && first < cols ? (rows - lane + lanes - 1) / lanes : 0;
    float total[N] = {};
    for (; left > 0; left -= ROUND, from += ROUND * step) {
        uint4 words[ROUND] = {};
#pragma unroll
        for (int r = 0; r < ROUND; r++)
            if (r < left)
                words[r] = read_elements<T, WHOLE>(from + r * step, cols - first);
#pragma unroll
        for (int r = 0; r < ROUND; r++) {
            float v[N];
            unpack(reinterpret_cast<const pack<T, N> &>(words[r]), v);
#pragma unroll
            for (int i = 0; i < N; i++)
                total[i] += v[i];
        }
    }
    if (lane < lanes)
#pragma unroll
        for (int i = 0; i < N; i += 4)
            *reinterpret_cast<float4 *>(memory + lane * columns + first + i) =
                make_float4(total[i], total[i + 1], total[i + 2], total[i + 3]);
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 8
    for (int l = 0; threadIdx.x < columns && l < lanes; l++)
        sum += memory[l * columns + threadIdx.x];
    return sum;
}

/* Slabs of each stripe whose sums are written; zeros between launches, which one stream orders. Where a stripe has
 * several slabs there are at most half as many stripes as blocks. */
static __device__ int slabs_done[SUM_BLOCKS / 2];

/* Is this the last block of its stripe, which finds what all others wrote? All threads of the block call it. */
static __device__ __forceinline__ bool is_last_slab(int stripe, int slabs)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(&slabs_done[stripe], 1) == slabs - 1;
        if (last)
            slabs_done[stripe] = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* partial: [stripes][slabs][packs * pack_width]; the last block of a stripe sums those of its slabs. */
template <typename T, bool WHOLE>
__global__ void __launch_bounds__(SUM_THREADS, SUM_RESIDENT)
    sum_rows(view<const T> x, struct row_sum_cut cut, float *partial, float *sum, const float *scale, bool accumulate)
{
    constexpr int N = pack_width<T>;
    static_assert(SUM_THREADS / WARP >= N, "a thread for each column of a stripe");
    __shared__ __align__(16) float memory[SUM_THREADS * N];
    int stripe = blockIdx.x, slab = blockIdx.y, columns = cut.packs * N;
    int64_t first_col = (int64_t)stripe * columns, first_row = slab * cut.slab_rows;
    int rows = (int)min(cut.slab_rows, x.rows - first_row), cols = (int)min((int64_t)columns, x.cols - first_col);
    float total = block_column_sum<T, WHOLE>(x.row(first_row) + first_col, x.stride, rows, cols, cut.packs, memory);
    if (cut.slabs > 1) {
        partial += (int64_t)stripe * cut.slabs * columns;
        if (threadIdx.x < columns)
            partial[slab * columns + threadIdx.x] = total;
        if (!is_last_slab(stripe, cut.slabs))
            return;
        total =
            block_column_sum<float, true>(partial, columns, cut.slabs, columns, columns / pack_width<float>, memory);
    }
    if (threadIdx.x >= cols)
        return;
    sum += first_col + threadIdx.x;
    total *= scale != NULL ? *scale : 1.0f;
    *sum = accumulate ? *sum + total : total;
}

int64_t cuda_column_sum_workspace(const struct cuda_target *, struct tensor x)
{
    if (x.cols == 0)
        return 0;
    struct row_sum_cut cut = row_sum_cut_of(x);
    return (int64_t)cut.stripes * cut.slabs * cut.packs * (16 / dtype_size(x.dtype)) * (int64_t)sizeof(float);
}

void cuda_column_sum(const struct cuda_target *target, struct tensor x, struct tensor sum, const float *scale,
                     bool accumulate, char *scratch)
{
    if (x.cols == 0)
        return;
    struct row_sum_cut cut = row_sum_cut_of(x);
    visit_operand(x, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr bool WHOLE = decltype(width)::value > 1;
        dim3 grid((unsigned)cut.stripes, (unsigned)cut.slabs);
        sum_rows<T, WHOLE><<<grid, cut.packs * cut.lanes, 0, target->stream>>>(
            view_of<const T>(x), cut, reinterpret_cast<float *>(scratch), static_cast<float *>(sum.data), scale,
            accumulate);
        CUDA_CHECK_LAUNCH("column_sum");
    });
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
