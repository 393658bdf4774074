/* Makes attention's work list, once for all launches with the same segments, and clears rows that no segment covers. */
#include "cuda/attention_work.cuh"
#include "cuda/attention_bucket.h"
#include "cuda/attention_own.h"
#include "cuda/warpgroup.cuh"

extern "C" {
#include "base/error.h"
}

enum { THREADS = 1024, CHUNK = 256, BITS = 32 };
/* Limit of rows: kernels count them in 32 bits, including some tiles after the last row. */
enum { MOST_ROWS = INT32_MAX - (1 << 16) };
static_assert(static_cast<int>(BUCKETS) == static_cast<int>(THREADS), "each thread has a bucket");
static_assert(ATTENTION_WINDOW == THREADS * BITS, "each thread has a word of a window");

/* -- The list ---------------------------------------------------------------------------------------------------- */

/* struct attention_side as the kernel receives it. */
struct sides {
    struct attention_side at[ATTENTION_SIDES];
};

/* Returns a slot's segment; a slot without queries is empty on both sides. */
__device__ static struct segment segment_of(const struct segment_tables &tables, int slot)
{
    int length = max(tables.q_length[slot], 0);
    return {tables.q_start[slot], length, tables.kv_start[slot], length > 0 ? max(tables.kv_length[slot], 0) : 0,
            tables.offset[slot]};
}

/* Returns the segment of another lane. */
__device__ static struct segment segment_of_lane(const struct segment &s, int lane)
{
    auto from = [&](int x) { return __shfl_sync(0xffffffffu, x, lane); };
    return {from(s.q_start), from(s.q_length), from(s.kv_start), from(s.kv_length), from(s.offset)};
}

/* Calls f with each segment, by all lanes of one warp. The lanes of a warp read different slots at once. */
template <typename F> __device__ static void for_each_segment(const struct segment_tables &tables, F f)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int first_slot = 0; first_slot < tables.slots; first_slot += THREADS) {
        int slot = first_slot + lane * (THREADS / WARP) + warp;
        struct segment mine = {};
        if (slot < tables.slots)
            mine = segment_of(tables, slot);
        for (unsigned left = __ballot_sync(0xffffffffu, mine.q_length > 0); left != 0; left &= left - 1)
            f(segment_of_lane(mine, __ffs(static_cast<int>(left)) - 1));
    }
}

/* Calls f with each tile's item and bucket. The lanes of a warp share the tiles of a segment. */
template <typename F>
__device__ static void for_each_tile(const struct segment_tables &tables, const struct attention_side &side,
                                     const struct attention_mask &mask, F f)
{
    for_each_segment(tables, [&](const struct segment &s) {
        int length = side.keys ? s.kv_length : s.q_length;
        for (int64_t at = threadIdx.x % WARP * side.tile; at < length; at += WARP * side.tile) {
            int first = static_cast<int>(at), last = min(side.tile, length - first) - 1 + first;
            struct row_range seen = visible(s, side.keys, first, last, mask);
            f(tile_work{s, first}, attention_bucket(max(seen.end - seen.begin, 0)));
        }
    });
}

/* Returns a mask of the bits from .. to - 1, within 0 .. 31. */
__device__ static uint32_t bits(int from, int to)
{
    return from < to ? 0xffffffffu >> (BITS - to) & 0xffffffffu << from : 0;
}

/* Appends rows that no segment covers as items of segments that see nothing, from index *next on. Processes one window
 * of rows after another, with one bit for each row. */
__device__ static void append_gaps(const struct segment_tables &tables, const struct attention_side &side, int *next)
{
    __shared__ uint32_t covered[THREADS];
    int me = static_cast<int>(threadIdx.x);
    for (int64_t first = 0; first < side.rows; first += ATTENTION_WINDOW) {
        covered[me] = 0;
        __syncthreads();
        for_each_segment(tables, [&](const struct segment &s) {
            int64_t start = (side.keys ? s.kv_start : s.q_start) - first;
            int begin =
                static_cast<int>(min(max(start, static_cast<int64_t>(0)), static_cast<int64_t>(ATTENTION_WINDOW)));
            int end = static_cast<int>(
                min(start + (side.keys ? s.kv_length : s.q_length), static_cast<int64_t>(ATTENTION_WINDOW)));
            for (int word = begin / BITS + me % WARP; word * BITS < end; word += WARP)
                atomicOr(&covered[word], bits(max(begin - word * BITS, 0), min(end - word * BITS, +BITS)));
        });
        __syncthreads();
        auto uncovered = [&](int word) {
            int64_t rows = side.rows - first - word * BITS;
            return ~covered[word] &
                   bits(0, static_cast<int>(min(max(rows, static_cast<int64_t>(0)), static_cast<int64_t>(BITS))));
        };
        uint32_t mine = uncovered(me), before = me > 0 ? uncovered(me - 1) >> (BITS - 1) : 0;
        for (uint32_t starts = mine & ~(mine << 1 | before); starts != 0; starts &= starts - 1) {
            int bit = __ffs(static_cast<int>(starts)) - 1, word = me;
            uint32_t others = ~mine & bits(bit, BITS);
            while (others == 0 && ++word < THREADS)
                others = ~uncovered(word);
            int row = static_cast<int>(first) + me * BITS + bit;
            int length =
                static_cast<int>(first) + word * BITS + (others == 0 ? 0 : __ffs(static_cast<int>(others)) - 1) - row;
            struct segment gap = {};
            (side.keys ? gap.kv_start : gap.q_start) = row;
            (side.keys ? gap.kv_length : gap.q_length) = length;
            int place = atomicAdd(next, (length + side.tile - 1) / side.tile);
            for (int at = 0; at < length; at += side.tile, place++)
                if (place < side.list.most)
                    side.list.items[place] = tile_work{gap, at};
        }
        __syncthreads();
    }
}

/* One block for each side. Sorts items by the rows that they see, longest first, so that blocks end at about the same
 * time. The order of items in a bucket varies; no result depends on it. */
__global__ static void __launch_bounds__(THREADS)
    make_lists(const struct segment_tables tables, const struct sides sides, const struct attention_mask mask)
{
    __shared__ int start[BUCKETS]; /* counts, then the end of each bucket's items so far */
    __shared__ int next, longest;
    __shared__ unsigned long long all;
    const struct attention_side &side = sides.at[blockIdx.x];
    int mine = BUCKETS - 1 - threadIdx.x;
    start[mine] = 0;
    if (mine == 0)
        longest = all = 0;
    __syncthreads();
    for_each_tile(tables, side, mask, [&](const tile_work &, int bucket) { atomicAdd(&start[bucket], 1); });
    __syncthreads();
    int count = start[mine];
    if (count > 0) {
        atomicMax(&longest, attention_bucket_units(mine));
        atomicAdd(&all, static_cast<unsigned long long>(count) * attention_bucket_units(mine));
    }
    for (int distance = 1; distance < BUCKETS; distance *= 2) { /* prefix sums, from the longest bucket on */
        int before = mine + distance < BUCKETS ? start[mine + distance] : 0;
        __syncthreads();
        start[mine] += before;
        __syncthreads();
    }
    if (mine == 0)
        next = start[0];
    start[mine] -= count;
    __syncthreads();
    for_each_tile(tables, side, mask, [&](const tile_work &item, int bucket) {
        int place = atomicAdd(&start[bucket], 1);
        if (place < side.list.most)
            side.list.items[place] = item;
    });
    if (side.gaps)
        append_gaps(tables, side, &next);
    if (threadIdx.x < ATTENTION_TICKETS)
        side.list.tickets[threadIdx.x] = 0;
    if (mine == 0)
        *side.list.totals = {static_cast<int>(min(static_cast<int64_t>(next), side.list.most)),
                             all > 0 ? static_cast<float>(longest) / static_cast<float>(all) : 0.0f};
}

static struct segment_tables tables_of(const struct attention_segments *segments)
{
    auto numbers = [](const struct tensor &t) { return static_cast<const int *>(t.data); };
    return {numbers(segments->q_start),   numbers(segments->q_length), numbers(segments->kv_start),
            numbers(segments->kv_length), numbers(segments->q_offset), static_cast<int>(segments->q_start.cols)};
}

/* Moves the lists to the kept memory of this direction if they fit there. Returns whether they do. */
static bool keep(struct cuda_kept *kept, bool backward, int64_t slots, struct attention_side *sides, int count)
{
    char *base = kept == nullptr ? nullptr : kept->at + backward * (CUDA_KEPT / 2);
    int64_t used = 0;
    struct work_list lists[ATTENTION_SIDES];
    for (int i = 0; i < count; i++)
        lists[i] = take_work_list(base, &used, sides[i].rows, slots, sides[i].tile);
    if (kept == nullptr || used > CUDA_KEPT / 2)
        return false;
    for (int i = 0; i < count; i++)
        sides[i].list = lists[i];
    return true;
}

/* Returns whether the kept lists were last used with the same tile sizes, and records the present ones. */
static bool are_made(struct cuda_kept *kept, bool backward, const struct attention_side *sides, int count)
{
    bool same = true;
    for (int i = 0; i < count; i++) {
        same = same && kept->tiles[backward][i] == sides[i].tile;
        kept->tiles[backward][i] = sides[i].tile;
    }
    return same;
}

void attention_prepare(const struct cuda_target *target, const struct attention_segments *segments,
                       const struct attention_mask &mask, bool backward, struct attention_side *sides, int count)
{
    struct sides to = {};
    bool kept = keep(target->kept, backward, segments->q_start.cols, sides, count);
    int64_t turn = kept ? segments->again % ATTENTION_TICKETS : 0;
    for (int i = 0; i < count; i++) {
        sides[i].gaps = sides[i].gaps && !segments->full;
        to.at[i] = sides[i];
        sides[i].list.tickets += turn;
    }
    if (kept && are_made(target->kept, backward, sides, count) && turn > 0)
        return;
    make_lists<<<static_cast<unsigned>(count), THREADS, 0, target->stream>>>(tables_of(segments), to, mask);
    CUDA_CHECK_LAUNCH("attention_prepare");
}

/* -- Rows that no segment covers, where there are no queries ------------------------------------------------------ */

/* A matrix as bytes; width and stride in bytes. */
struct bytes {
    char *data;
    int64_t width, stride;
};

/* struct attention_rows as the kernel receives it. */
struct cleared {
    bool keys;
    int64_t rows;
    struct bytes clear[2];
    float *lse;
    int64_t lse_rows, lse_stride;
};

struct cleared_sides {
    struct cleared at[ATTENTION_SIDES];
};

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

/* blockIdx.y: the side; blockIdx.x: CHUNK of its rows. */
__global__ static void __launch_bounds__(THREADS)
    clear_uncovered(const struct segment_tables tables, const struct cleared_sides sides)
{
    __shared__ bool covered[CHUNK];
    const struct cleared &side = sides.at[blockIdx.y];
    int64_t first = static_cast<int64_t>(blockIdx.x) * CHUNK;
    int rows = static_cast<int>(min(max(side.rows - first, static_cast<int64_t>(0)), static_cast<int64_t>(CHUNK)));
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

static struct bytes bytes_of(const struct tensor &t)
{
    return {static_cast<char *>(t.data), t.cols * dtype_size(t.dtype), t.stride * dtype_size(t.dtype)};
}

void attention_clear(const struct cuda_target *target, const struct attention_segments *segments,
                     const struct attention_rows *sides, int count)
{
    struct cleared_sides to = {};
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        const struct attention_rows &from = sides[i];
        to.at[i] = {from.keys, from.rows, {bytes_of(from.clear[0]), bytes_of(from.clear[1])}, nullptr, 0, 0};
        to.at[i].lse = static_cast<float *>(from.lse.data);
        to.at[i].lse_rows = tensor_present(&from.lse) ? from.lse.rows : 0;
        to.at[i].lse_stride = from.lse.stride;
        rows = from.rows > rows ? from.rows : rows;
    }
    if (rows == 0)
        return;
    dim3 grid(static_cast<unsigned>(ceil_div(rows, CHUNK)), static_cast<unsigned>(count));
    clear_uncovered<<<grid, THREADS, 0, target->stream>>>(tables_of(segments), to);
    CUDA_CHECK_LAUNCH("attention_clear");
}

int64_t attention_tickets(const struct work_list &list, int heads)
{
    int64_t most = list.most * heads;
    if (most > INT32_MAX)
        error_fatal("cuda executor: attention of up to %lld tiles of %d heads: at most 2^31 - 1", (long long)list.most,
                    heads);
    return most;
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
    for (int i = 0; i < count; i++)
        if (tensors[i]->rows > MOST_ROWS)
            error_fatal("cuda executor: attention of %lld rows: at most %d", (long long)tensors[i]->rows, MOST_ROWS);
    if (head_dim > CUDA_WIDEST_HEAD)
        error_fatal("cuda executor: attention with heads of %lld: at most %d", (long long)head_dim, CUDA_WIDEST_HEAD);
    if (!(scale > 0.0f))
        error_fatal("cuda executor: attention with scale %g: must be positive", (double)scale);
}

bool head_packs_fit(const struct tensor *const *tensors, int count, int64_t head_dim)
{
    for (int i = 0; i < count; i++) {
        int n = 16 / static_cast<int>(dtype_size(tensors[i]->dtype));
        if (head_dim % n != 0 || !packs_fit(*tensors[i], n))
            return false;
    }
    return true;
}

bool attention_way_supports(enum attention_way way, const struct tensor *const *tensors, int count, int64_t head_dim)
{
    const struct attention_limits &limits = attention_limits[way];
    int widest = 0;
    for (int size : limits.head_sizes)
        widest = size > widest ? size : widest;
    if (limits.wgmma && !(warpgroups_run() && tensors[0]->dtype == DTYPE_BF16))
        return false;
    return head_dim <= widest && (!limits.packs || head_packs_fit(tensors, count, head_dim));
}
