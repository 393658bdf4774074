/* Sums over the rows of a matrix in one launch, fused with other work of a kernel on its elements. */
#ifndef CUDA_SLAB_SUM_CUH
#define CUDA_SLAB_SUM_CUH

#include "cuda/team.cuh"

/* Full memory bandwidth needs threads with many loads in flight, and a grid of one wave: a partial second wave would
 * take as long as the first. */
enum { SLAB_THREADS = 512, SLAB_RESIDENT = 2, SLAB_BLOCKS = SLAB_RESIDENT * USUAL_MULTIPROCESSORS };
#define SLAB_BOUNDS __launch_bounds__(SLAB_THREADS, SLAB_RESIDENT)

/* Splits a matrix into stripes of columns and slabs of rows, one block for each slab of each stripe. In a block,
 * `packs` threads read a row of the stripe, 16 bytes each, and `lanes` such groups of threads take the slab's rows in
 * turn. The split depends only on shape and type, and determines the order of the sums. */
struct slab_split {
    int packs, lanes, stripes, slabs;
    int64_t slab_rows;
};

inline struct slab_split slab_split_of(const struct tensor &x)
{
    enum { MOST_LANES = 32, LEAST_LANE_ROWS = 4 };
    int64_t packs = ceil_div(x.cols * dtype_size(x.dtype), 16), stripes = ceil_div(packs, WARP);
    struct slab_split split = {};
    split.stripes = (int)stripes;
    split.packs = (int)ceil_div(packs, stripes);
    split.lanes = SLAB_THREADS / split.packs < MOST_LANES ? SLAB_THREADS / split.packs : MOST_LANES;
    int64_t most = stripes < SLAB_BLOCKS ? SLAB_BLOCKS / stripes : 1, least_rows = split.lanes * LEAST_LANE_ROWS;
    split.slab_rows = ceil_div(x.rows, most) > least_rows ? ceil_div(x.rows, most) : least_rows;
    split.slabs = x.rows > split.slab_rows ? (int)ceil_div(x.rows, split.slab_rows) : 1;
    return split;
}

inline dim3 slab_grid(const struct slab_split &split)
{
    return dim3((unsigned)split.stripes, (unsigned)split.slabs);
}

inline int slab_block(const struct slab_split &split)
{
    return split.packs * split.lanes;
}

/* Returns the bytes of scratch, aligned to 16, for the column sums of x. */
inline int64_t slab_workspace(const struct tensor &x)
{
    if (x.cols == 0)
        return 0;
    struct slab_split split = slab_split_of(x);
    return (int64_t)split.stripes * split.slabs * split.packs * (16 / dtype_size(x.dtype)) * (int64_t)sizeof(float);
}

/* Kernel argument for sum[c] (+)= sum over rows. */
struct slab_sums {
    struct slab_split split;
    float *partial; /* scratch [stripes][slabs][packs * elements per pack] */
    float *sum;
    bool accumulate;
    int *done; /* target->counters: number of slabs of each stripe whose sums are written */
};

/* A block's part of the matrix, and this thread's columns in it. */
struct parameter_slab {
    int64_t first_row, first_col; /* in the matrix */
    int rows, cols;
    int lane, lanes;
    int col, count; /* the thread's first column in the stripe, and its number of columns, 0 or less if none */
};

/* Returns this thread's slab. N elements are 16 bytes. */
template <int N>
__device__ __forceinline__ struct parameter_slab slab_of(const struct slab_split &split, int64_t rows, int64_t cols)
{
    int columns = split.packs * N;
    struct parameter_slab s;
    s.first_row = blockIdx.y * split.slab_rows;
    s.first_col = (int64_t)blockIdx.x * columns;
    s.rows = (int)min(split.slab_rows, rows - s.first_row);
    s.cols = (int)min((int64_t)columns, cols - s.first_col);
    s.lane = threadIdx.x / split.packs;
    s.lanes = split.lanes;
    s.col = threadIdx.x % split.packs * N;
    s.count = min(N, s.cols - s.col);
    return s;
}

/* The rows of a slab, from the thread's first column on. */
template <typename T> struct rows_at {
    using byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    byte *first;
    int64_t stride_bytes;
    __device__ __forceinline__ T *row(int r) const
    {
        return reinterpret_cast<T *>(first + address_row((uint32_t)r, stride_bytes));
    }
};

template <typename T> __device__ __forceinline__ rows_at<T> slab_rows(const view<T> &x, const struct parameter_slab &s)
{
    using byte = typename rows_at<T>::byte;
    return {reinterpret_cast<byte *>(x.row(s.first_row) + s.first_col + s.col), x.stride * (int64_t)sizeof(T)};
}

/* Reads 16 bytes of elements: the first `count`, and zeros for the rest. WHOLE: reads all, and they are aligned. */
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

/* Returns to thread c of the block the sum over the slab's rows of its column c; 0 beyond the last column. Each thread
 * calls values(row, there, load(row), v) for its rows, with ROUND loads in flight before the first use. It also calls
 * values for some rows that do not exist, with an all-zero load that must give zeros. All threads of the block call the
 * function; `memory` has N floats per thread, and no thread may still read it. */
template <int N, int ROUND, typename Load, typename Values>
__device__ __forceinline__ float block_column_sum(const struct parameter_slab &s, int packs, float *memory, Load load,
                                                  Values values)
{
    const int columns = packs * N, end = s.lane < s.lanes && s.count > 0 ? s.rows : 0;
    float total[N] = {};
    for (int row = s.lane; row < end; row += ROUND * s.lanes) {
        decltype(load(row)) loaded[ROUND] = {};
#pragma unroll
        for (int r = 0; r < ROUND; r++)
            if (row + r * s.lanes < end)
                loaded[r] = load(row + r * s.lanes);
#pragma unroll
        for (int r = 0; r < ROUND; r++) {
            float v[N];
            values(row + r * s.lanes, row + r * s.lanes < end, loaded[r], v);
#pragma unroll
            for (int i = 0; i < N; i++)
                total[i] += v[i];
        }
    }
    if (s.lane < s.lanes)
#pragma unroll
        for (int i = 0; i < N; i += 4)
            *reinterpret_cast<float4 *>(memory + s.lane * columns + s.col + i) =
                make_float4(total[i], total[i + 1], total[i + 2], total[i + 3]);
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 8
    for (int l = 0; threadIdx.x < columns && l < s.lanes; l++)
        sum += memory[l * columns + threadIdx.x];
    return sum;
}

/* If a stripe has several slabs, the number of stripes is at most half the number of blocks. */
static_assert(SLAB_BLOCKS / 2 <= CUDA_COUNTERS, "a counter for each stripe of several slabs");

/* Returns whether this is the last block of its stripe, which then sees the writes of all other blocks. It resets the
 * counter to 0. All threads of the block call it. */
static __device__ __forceinline__ bool is_last_slab(int *done, int slabs)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(done, 1) == slabs - 1;
        if (last)
            *done = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* Computes the sums of all columns: each block those of its slab, and a stripe's last block adds the slabs' sums. */
template <int N, int ROUND, typename Load, typename Values>
__device__ __forceinline__ void sum_slab(const struct slab_sums &to, const struct parameter_slab &s, Load load,
                                         Values values)
{
    static_assert(SLAB_THREADS / WARP >= N, "a thread for each column of a stripe");
    __shared__ __align__(16) float memory[SLAB_THREADS * N];
    int stripe = blockIdx.x, slab = blockIdx.y, slabs = to.split.slabs, columns = to.split.packs * N;
    float total = block_column_sum<N, ROUND>(s, to.split.packs, memory, load, values);
    if (slabs > 1) {
        float *partial = to.partial + (int64_t)stripe * slabs * columns;
        if (threadIdx.x < columns)
            partial[slab * columns + threadIdx.x] = total;
        if (!is_last_slab(&to.done[stripe], slabs))
            return;
        constexpr int FLOATS = pack_width<float>;
        int packs = columns / FLOATS;
        struct parameter_slab parts = {};
        parts.rows = slabs;
        parts.lane = threadIdx.x / packs;
        parts.lanes = blockDim.x / packs;
        parts.col = threadIdx.x % packs * FLOATS;
        parts.count = FLOATS;
        total = block_column_sum<FLOATS, 8>(
            parts, packs, memory,
            [&](int part) { return *reinterpret_cast<const float4 *>(partial + part * columns + parts.col); },
            [&](int, bool, const float4 &word, float(&v)[FLOATS]) {
                v[0] = word.x;
                v[1] = word.y;
                v[2] = word.z;
                v[3] = word.w;
            });
    }
    if (threadIdx.x >= s.cols)
        return;
    float *sum = to.sum + s.first_col + threadIdx.x;
    *sum = to.accumulate ? *sum + total : total;
}

#endif
