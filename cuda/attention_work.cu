/* Attention's list of work, and the outputs of rows that no segment covers. */
#include "cuda/attention_work.cuh"
#include "cuda/attention_own.h"

extern "C" {
#include "base/error.h"
}

enum { THREADS = 1024, BUCKETS = THREADS, BUCKET_ROWS = 64, CHUNK = 256 };

/* A matrix in bytes. */
struct bytes {
    char *data;
    int64_t width, stride;
};

/* struct attention_side as the kernel gets it. */
struct side {
    bool keys;
    int tile;
    int64_t rows;
    struct work_list list;
    struct bytes clear[2];
    float *lse;
    int64_t lse_rows, lse_stride;
};

struct sides {
    struct side at[ATTENTION_SIDES];
};

/* Slots without queries are empty on both sides. */
__device__ static struct segment segment_of(const struct segment_tables &tables, int slot)
{
    int length = max(tables.q_length[slot], 0);
    return {tables.q_start[slot], length, tables.kv_start[slot], length > 0 ? max(tables.kv_length[slot], 0) : 0,
            tables.offset[slot]};
}

/* The same of another lane. */
__device__ static struct segment segment_of_lane(const struct segment &s, int lane)
{
    auto from = [&](int x) { return __shfl_sync(0xffffffffu, x, lane); };
    return {from(s.q_start), from(s.q_length), from(s.kv_start), from(s.kv_length), from(s.offset)};
}

/* Calls f with each tile's item and bucket. A warp's lanes read as many slots at once and then share out the tiles of
 * each. */
template <typename F>
__device__ static void for_each_tile(const struct segment_tables &tables, const struct side &side, bool causal, F f)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int first_slot = 0; first_slot < tables.slots; first_slot += THREADS) {
        int slot = first_slot + lane * (THREADS / WARP) + warp;
        struct segment mine = {};
        if (slot < tables.slots)
            mine = segment_of(tables, slot);
        unsigned left = __ballot_sync(0xffffffffu, (side.keys ? mine.kv_length : mine.q_length) > 0);
        for (; left != 0; left &= left - 1) {
            struct segment s = segment_of_lane(mine, __ffs(static_cast<int>(left)) - 1);
            int length = side.keys ? s.kv_length : s.q_length;
            for (int first = lane * side.tile; first < length; first += WARP * side.tile) {
                struct range seen = visible(s, side.keys, first, min(first + side.tile, length) - 1, causal);
                f(work{s, first}, min(max(seen.end - seen.begin, 0) / BUCKET_ROWS, BUCKETS - 1));
            }
        }
    }
}

/* Items sorted by what they see, longest first, so that blocks end together. The order of equals is left to chance: no
 * result depends on it. */
__device__ static void make_list(const struct segment_tables &tables, const struct side &side, bool causal)
{
    __shared__ int start[BUCKETS]; /* counts, then the first place behind each bucket's items so far */
    int mine = BUCKETS - 1 - threadIdx.x;
    start[mine] = 0;
    __syncthreads();
    for_each_tile(tables, side, causal, [&](const work &, int bucket) { atomicAdd(&start[bucket], 1); });
    __syncthreads();
    int count = start[mine];
    for (int distance = 1; distance < BUCKETS; distance *= 2) { /* sums from the longest on */
        int before = mine + distance < BUCKETS ? start[mine + distance] : 0;
        __syncthreads();
        start[mine] += before;
        __syncthreads();
    }
    if (mine == 0) {
        *side.list.count = static_cast<int>(min(static_cast<int64_t>(start[0]), side.list.most));
        *side.list.ticket = 0;
    }
    start[mine] -= count;
    __syncthreads();
    for_each_tile(tables, side, causal, [&](const work &item, int bucket) {
        int place = atomicAdd(&start[bucket], 1);
        if (place < side.list.most)
            side.list.items[place] = item;
    });
}

template <typename T> __device__ static void clear_row(char *row, int64_t width)
{
    for (int64_t i = threadIdx.x % WARP; i < width / static_cast<int64_t>(sizeof(T)); i += WARP)
        reinterpret_cast<T *>(row)[i] = T();
}

__device__ static void clear_row_of(const struct bytes &matrix, int64_t row)
{
    char *at = matrix.data + row * matrix.stride;
    if ((reinterpret_cast<uintptr_t>(at) | matrix.width) % sizeof(int4) == 0)
        clear_row<int4>(at, matrix.width);
    else
        clear_row<uint16_t>(at, matrix.width);
}

/* Rows first .. first + CHUNK - 1. */
__device__ static void clear_uncovered(const struct segment_tables &tables, const struct side &side, int64_t first)
{
    __shared__ bool covered[CHUNK];
    int rows = static_cast<int>(min(side.rows - first, static_cast<int64_t>(CHUNK)));
    if (threadIdx.x < CHUNK)
        covered[threadIdx.x] = false;
    __syncthreads();
    for (int slot = threadIdx.x; slot < tables.slots; slot += THREADS) {
        struct segment s = segment_of(tables, slot);
        int64_t begin = (side.keys ? s.kv_start : s.q_start) - first;
        int64_t end = min(begin + (side.keys ? s.kv_length : s.q_length), static_cast<int64_t>(rows));
        for (int64_t row = max(begin, static_cast<int64_t>(0)); row < end; row++)
            covered[row] = true;
    }
    __syncthreads();
    for (int row = threadIdx.x / WARP; row < rows; row += THREADS / WARP) {
        if (covered[row])
            continue;
        for (const struct bytes &matrix : side.clear)
            if (matrix.data != nullptr)
                clear_row_of(matrix, first + row);
        for (int64_t head = threadIdx.x % WARP; head < side.lse_rows; head += WARP)
            side.lse[head * side.lse_stride + first + row] = -INFINITY;
    }
}

/* blockIdx.y: the side; the first block of each makes its list. */
__global__ static void __launch_bounds__(THREADS) prepare(struct segment_tables tables, struct sides sides, bool causal)
{
    const struct side &side = sides.at[blockIdx.y];
    if (blockIdx.x == 0 && side.list.most > 0)
        make_list(tables, side, causal);
    else if (blockIdx.x > 0 && (blockIdx.x - 1) * static_cast<int64_t>(CHUNK) < side.rows)
        clear_uncovered(tables, side, (blockIdx.x - 1) * static_cast<int64_t>(CHUNK));
}

static struct bytes bytes_of(const struct tensor &t)
{
    return {static_cast<char *>(t.data), t.cols * dtype_size(t.dtype), t.stride * dtype_size(t.dtype)};
}

void attention_prepare(const struct cuda_target *target, const struct attention_segments *segments, bool causal,
                       const struct attention_side *sides, int count)
{
    auto numbers = [](const struct tensor &t) { return static_cast<const int *>(t.data); };
    struct segment_tables tables = {numbers(segments->q_start),  numbers(segments->q_length),
                                    numbers(segments->kv_start), numbers(segments->kv_length),
                                    numbers(segments->q_offset), static_cast<int>(segments->q_start.cols)};
    struct sides to = {};
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        const struct attention_side &from = sides[i];
        to.at[i] = {from.keys, from.tile, from.rows, from.list, {}, nullptr, 0, 0};
        for (int j = 0; j < 2; j++)
            to.at[i].clear[j] = bytes_of(from.clear[j]);
        to.at[i].lse = static_cast<float *>(from.lse.data);
        to.at[i].lse_rows = tensor_present(&from.lse) ? from.lse.rows : 0;
        to.at[i].lse_stride = from.lse.stride;
        rows = from.rows > rows ? from.rows : rows;
    }
    dim3 grid(static_cast<unsigned>(1 + ceil_div(rows, CHUNK)), static_cast<unsigned>(count));
    prepare<<<grid, THREADS, 0, target->stream>>>(tables, to, causal);
    CUDA_CHECK_LAUNCH("attention_prepare");
}

void attention_check(const struct tensor *const *tensors, int count, const struct tensor *lse, int64_t head_dim,
                     float scale)
{
    enum dtype dtype = tensors[0]->dtype;
    for (int i = 0; i < count; i++)
        if (tensors[i]->dtype != dtype || (dtype != DTYPE_F32 && dtype != DTYPE_BF16))
            error_fatal("cuda executor: attention takes tensors of one dtype, f32 or bf16");
    if (lse->dtype != DTYPE_F32)
        error_fatal("cuda executor: attention takes lse in f32");
    if (head_dim > CUDA_WIDEST_HEAD)
        error_fatal("cuda executor: attention with heads of %lld: at most %d", (long long)head_dim, CUDA_WIDEST_HEAD);
    if (!(scale > 0.0f))
        error_fatal("cuda executor: attention with scale %g: must be positive", (double)scale);
}

enum { MARK = 8192 };

/* Has so much shared memory in code for devices with warpgroups' products: which code a device runs is known then. */
__global__ static void has_warpgroups(int *never)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ volatile char mark[MARK];
    mark[threadIdx.x] = 0;
    if (never != nullptr)
        *never = mark[blockDim.x - 1 - threadIdx.x];
#endif
}

static bool warpgroups_taken = true;

void cuda_own_attention_by_warpgroups(bool taken)
{
    warpgroups_taken = taken;
}

bool attention_runs_by_warpgroups(const struct tensor *const *tensors, int count, int64_t head_dim)
{
    static const bool there = [] {
        struct cudaFuncAttributes attributes;
        CUDA_CHECK(cudaFuncGetAttributes(&attributes, has_warpgroups));
        return attributes.sharedSizeBytes >= MARK;
    }();
    return there && warpgroups_taken && tensors[0]->dtype == DTYPE_BF16 && head_packs_fit(tensors, count, head_dim);
}
