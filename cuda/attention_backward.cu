/* Attention backward. Probabilities p are recomputed from lse. With delta = d_o o' and ds = p (d_o v' - delta), the
 * gradients are dq = scale ds k, dk = scale ds' q, dv = p' d_o. One kernel for queries and one for keys each keep a
 * tile of their own side and loop over the other side's tiles. So every sum is made by one block, in a fixed order. */
#include "cuda/attention_work.cuh"
#include "cuda/attention_own.h"

extern "C" {
#include "base/error.h"
}

/* Tile sizes: each warp has `blocks` x 16 rows of its own side. Keys sum two gradients, in f32 registers. */
template <typename T, int DIM, bool KEYS> struct backward_cut {
    static constexpr bool narrow = sizeof(T) == 2, full = KEYS && DIM > 64;
    static constexpr int blocks = narrow && !full ? 2 : 1, warps = narrow ? (full ? 8 : 4) : 2;
    static constexpr int others = narrow ? 32 : 16;
    static constexpr int threads = warps * WARP, warp_rows = 16 * blocks, rows = warp_rows * warps;
    /* blocks per SM */
    static constexpr int resident = !narrow || full ? 1 : (DIM > 64 ? 2 : DIM > 16 ? 3 : 4) - (KEYS ? 1 : 0);
    static constexpr int tile_elements = 2 * (rows + 2 * others) * DIM;
    static constexpr int shared =
        tile_elements * (int)sizeof(T) + 2 * others * (int)sizeof(float2) + (int)sizeof(struct work_item);
};

template <typename T> struct delta_job {
    struct view<const T> o, d_o;
    struct view<const float> lse;
    struct view<float2> statistics;
    int heads, dim;
};

/* Blocks per SM for which the kernel must fit in registers; 0: no requirement. */
template <int DIM, bool VECTOR> constexpr int delta_resident = DIM == 64 && VECTOR ? 8 : 0;

/* Computes delta and lse * log2(e). A warp processes a row; each head has as many lanes as its padded packs. */
template <typename T, int DIM, bool VECTOR>
__global__ static void __launch_bounds__(256, delta_resident<DIM, VECTOR>) delta(const struct delta_job<T> job)
{
    constexpr int width = pack_width<T>, lanes = DIM / width;
    int lane = lane_of_thread(), warps = blockDim.x / WARP, col = lane % lanes * width;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / WARP; row < job.o.rows;
         row += static_cast<int64_t>(gridDim.x) * warps) {
#pragma unroll(VECTOR ? 4 : 1)
        for (int first = 0; first < job.heads; first += WARP / lanes) {
            int head = first + lane / lanes;
            const T *o = job.o.row(row) + head * job.dim + col, *d_o = job.d_o.row(row) + head * job.dim + col;
            float x[width] = {}, y[width] = {}, sum = 0.0f;
            if constexpr (VECTOR) {
                if (head < job.heads && col < job.dim)
                    load(o, x), load(d_o, y);
            } else {
#pragma unroll
                for (int e = 0; e < width; e++)
                    if (head < job.heads && col + e < job.dim)
                        x[e] = to_float(o[e]), y[e] = to_float(d_o[e]);
            }
#pragma unroll
            for (int e = 0; e < width; e++)
                sum += x[e] * y[e];
#pragma unroll
            for (int offset = lanes / 2; offset > 0; offset /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, offset);
            if (head < job.heads && lane % lanes == 0) {
                float lse = job.lse.row(head)[row];
                /* finite: the scores of a query that sees no key are -infinity too */
                float base = lse == -INFINITY ? 0.0f : lse * static_cast<float>(M_LOG2E);
                job.statistics.row(head)[row] = make_float2(base, sum);
            }
        }
    }
}

template <typename T, int DIM, bool KEYS, bool VECTOR>
__device__ __forceinline__ void backward_item(const struct backward_job<T> &job, const struct work_item &item,
                                              T *shared)
{
    using cut = backward_cut<T, DIM, KEYS>;
    const struct segment &segment = item.work.segment;
    T *x_tile = shared, *y_tile = x_tile + cut::rows * DIM;
    T *other_x = y_tile + cut::rows * DIM, *other_y = other_x + 2 * cut::others * DIM;
    float2 *statistics = reinterpret_cast<float2 *>(shared + cut::tile_elements); /* of queries, for keys */

    int start = KEYS ? segment.kv_start : segment.q_start, length = KEYS ? segment.kv_length : segment.q_length;
    int rows = min(cut::rows, length - item.work.first);
    struct row_range seen = visible(segment, KEYS, item.work.first, item.work.first + rows - 1, job.mask);
    /* Values that follow from the item are recomputed at each use: as variables they would occupy registers during the
     * loop. */
    auto warp = [&] { return rows_of_warp(item.work, KEYS ? segment.kv_length : segment.q_length, cut::warp_rows); };
    int own = threadIdx.x / WARP * cut::warp_rows * DIM;

    int first_head = KEYS ? item.head * job.share : item.other, end_head = first_head + (KEYS ? job.share : 1);
    auto load_others = [&](int other_head, int at, int stage) {
        int left = (KEYS ? segment.q_length : segment.kv_length) - at, column = other_head * job.dim;
        int64_t row = static_cast<int64_t>(KEYS ? segment.q_start : segment.kv_start) + at;
        load_tile<cut::others, DIM, cut::threads, VECTOR>(
            other_x + stage * cut::others * DIM, job.other_x.row(row) + column, job.other_x.stride, left, job.dim);
        load_tile<cut::others, DIM, cut::threads, VECTOR>(
            other_y + stage * cut::others * DIM, job.other_y.row(row) + column, job.other_y.stride, left, job.dim);
        int i = threadIdx.x;
        if (KEYS && i < cut::others)
            copy_async<8>(statistics + stage * cut::others + i, job.statistics.row(other_head) + row + i, i < left);
    };

    float2 own_statistics[cut::blocks][2];
#pragma unroll
    for (int i = 0; i < cut::blocks; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int r = 16 * i + 8 * half + fragment_row();
            own_statistics[i][half] = make_float2(0.0f, 0.0f);
            if (!KEYS && r < warp().count)
                own_statistics[i][half] = job.statistics.row(item.head)[static_cast<int64_t>(start) + warp().first + r];
        }

    float dx[cut::blocks][DIM / 8][4] = {}, dy[KEYS ? cut::blocks : 1][DIM / 8][4] = {};
    float scale_log2 = job.scale * static_cast<float>(M_LOG2E);
    if (seen.begin < seen.end) {
        int64_t row = static_cast<int64_t>(start) + item.work.first;
        load_tile<cut::rows, DIM, cut::threads, VECTOR>(x_tile, job.x.row(row) + item.head * job.dim, job.x.stride,
                                                        rows, job.dim);
        load_tile<cut::rows, DIM, cut::threads, VECTOR>(y_tile, job.y.row(row) + item.head * job.dim, job.y.stride,
                                                        rows, job.dim);
        load_others(first_head, seen.begin, 0);
    }
    int stage = 0;
    for (int other_head = first_head; other_head < end_head; other_head++)
        for (int at = seen.begin; at < seen.end; at += cut::others, stage ^= 1) {
            copy_async_wait();
            __syncthreads(); /* these rows are loaded, and no thread reads the previous ones */
            if (at + cut::others < seen.end)
                load_others(other_head, at + cut::others, stage ^ 1);
            else if (other_head + 1 < end_head)
                load_others(other_head + 1, seen.begin, stage ^ 1);
            struct warp_rows mine = warp();
            struct row_range seen_by_warp = visible(segment, KEYS, mine.first, mine.first + mine.count - 1, job.mask);
            if (mine.count == 0 || at >= seen_by_warp.end || at + cut::others <= seen_by_warp.begin)
                continue;
            const T *these_x = other_x + stage * cut::others * DIM, *these_y = other_y + stage * cut::others * DIM;
            float p[cut::blocks][cut::others / 8][4] = {}, ds[cut::blocks][cut::others / 8][4] = {};
            add_product<DIM>(p, x_tile + own, these_x);
            add_product<DIM>(ds, y_tile + own, these_y);
            if (at < visible(segment, KEYS, warp().first + cut::warp_rows - 1, job.mask).begin ||
                at + cut::others > visible(segment, KEYS, warp().first, job.mask).end)
                hide(p, segment, KEYS, warp().first, at, job.mask);
#pragma unroll
            for (int j = 0; j < cut::others / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float2 of_column = {};
                    if (KEYS)
                        of_column = statistics[stage * cut::others + 8 * j + fragment_col() + e % 2];
#pragma unroll
                    for (int i = 0; i < cut::blocks; i++) {
                        float2 query = KEYS ? of_column : own_statistics[i][e / 2];
                        p[i][j][e] = exp2_fast(p[i][j][e] * scale_log2 - query.x);
                        ds[i][j][e] = p[i][j][e] * (ds[i][j][e] - query.y);
                    }
                }
            if constexpr (KEYS)
                add_weighted<DIM>(dy, p, these_y);
            add_weighted<DIM>(dx, ds, these_x);
        }

    float factor[cut::blocks][2], one[cut::blocks][2];
#pragma unroll
    for (int i = 0; i < cut::blocks; i++)
        factor[i][0] = factor[i][1] = job.scale, one[i][0] = one[i][1] = 1.0f;
    struct warp_rows rest = warp();
    int64_t row = static_cast<int64_t>(start) + rest.first;
    auto store = [&](const float(&sum)[cut::blocks][DIM / 8][4], const float(&factor)[cut::blocks][2], T *tile,
                     const struct gradient<T> &to) {
        if (to.wide.data == nullptr) {
            store_rows<cut::blocks, DIM, VECTOR>(sum, factor, tile, to.narrow.row(row) + item.head * job.dim,
                                                 to.narrow.stride, rest.count, job.dim);
            return;
        }
#pragma unroll
        for (int i = 0; i < cut::blocks; i++)
            store_wide(sum[i], factor[i][0], to.wide.row(row + 16 * i) + item.head * job.dim, to.wide.stride,
                       rest.count - 16 * i, job.dim, to.accumulate);
    };
    store(dx, factor, x_tile + own, job.dx);
    if constexpr (KEYS)
        store(dy, one, y_tile + own, job.dy);
}

template <typename T, int DIM, bool KEYS, bool VECTOR>
__global__ static void __launch_bounds__(backward_cut<T, DIM, KEYS>::threads, backward_cut<T, DIM, KEYS>::resident)
    backward(const struct backward_job<T> job)
{
    extern __shared__ __align__(1024) char shared[];
    struct work_item *item = reinterpret_cast<struct work_item *>(shared + backward_cut<T, DIM, KEYS>::shared) - 1;
    while (take_item(job.list, job.heads, job.share, item))
        backward_item<T, DIM, KEYS, VECTOR>(job, *item, reinterpret_cast<T *>(shared));
}

/* Returns the rows of a tile by dtype, equal for all head sizes and both sides; warpgroup kernels have other tiles. */
static int tile_rows(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? backward_cut<float, 32, true>::rows : backward_cut<__nv_bfloat16, 32, true>::rows;
}

struct layout {
    struct work_list queries, keys;
    float2 *statistics;
    float *sums; /* of dq, for the kernel with one pass */
};

static int64_t lay_out(const struct attention_backward_args *args, bool once, char *base, struct layout *layout)
{
    int64_t used = 0, slots = args->segments.q_start.cols;
    auto rows = [&](bool keys) {
        int plain = tile_rows(args->q.dtype), of_warpgroups = attention_backward_warpgroup_rows(args->head_dim, keys);
        if (once)
            return attention_backward_once_rows(args->head_dim, keys);
        return plain < of_warpgroups ? plain : of_warpgroups;
    };
    layout->queries = take_work_list(base, &used, args->q.rows, slots, rows(false));
    layout->keys = take_work_list(base, &used, args->k.rows, slots, rows(true));
    layout->statistics =
        reinterpret_cast<float2 *>(take(base, &used, args->heads * args->q.rows * (int64_t)sizeof(float2)));
    if (once)
        layout->sums = reinterpret_cast<float *>(take(base, &used, attention_backward_once_sums(args)));
    return used;
}

/* The `once` kernel sums dq in scratch. Of long rows it processes some heads after others, so that the sums of the
 * heads that it processes together take at most this many bytes (or those of one kv head, if they take more). */
static int64_t most_sums = (int64_t)576 << 20;

void cuda_own_attention_limit_sums(int64_t bytes)
{
    most_sums = bytes;
}

/* Returns the arguments of `count` kv heads from `first` on, with their query heads. */
static struct attention_backward_args heads_of(const struct attention_backward_args *args, int64_t first, int64_t count)
{
    struct attention_backward_args part = *args;
    const int64_t share = args->heads / args->kv_heads, dim = args->head_dim;
    for (struct tensor *t : {&part.q, &part.o, &part.d_o, &part.dq})
        *t = tensor_columns(t, first * share * dim, count * share * dim);
    for (struct tensor *t : {&part.k, &part.v, &part.dk, &part.dv})
        *t = tensor_columns(t, first * dim, count * dim);
    part.lse = tensor_rows(&part.lse, first * share, count * share);
    part.heads = count * share;
    part.kv_heads = count;
    if (first > 0)
        part.segments.again = 0; /* new lists, with tickets for these heads */
    return part;
}

/* Returns the number of kv heads that a launch of the `once` kernel processes together. */
static int64_t kv_heads_together(const struct attention_backward_args *args)
{
    const struct attention_backward_args one = heads_of(args, 0, 1);
    const int64_t bytes = attention_backward_once_sums(&one), fit = bytes > 0 ? most_sums / bytes : args->kv_heads;
    const int64_t launches = ceil_div(args->kv_heads, fit > 1 ? fit : 1);
    return ceil_div(args->kv_heads, launches);
}

int64_t cuda_own_attention_backward_workspace(const struct cuda_target *, const struct attention_backward_args *args,
                                              bool once)
{
    struct layout layout;
    const struct attention_backward_args part = once ? heads_of(args, 0, kv_heads_together(args)) : *args;
    return lay_out(&part, once, nullptr, &layout);
}

/* Collects the tensors that must have q's type: all but gradients in f32. Returns their number. */
static int narrow_tensors(const struct attention_backward_args *args, const struct tensor *(&tensors)[8])
{
    int count = 0;
    for (const struct tensor *t : {&args->q, &args->k, &args->v, &args->o, &args->d_o})
        tensors[count++] = t;
    for (const struct tensor *t : {&args->dq, &args->dk, &args->dv}) {
        if (!gradient_is_wide(*t, args->q.dtype, t == &args->dq ? args->accumulate_q : args->accumulate_kv))
            tensors[count++] = t;
        else if (t->dtype != DTYPE_F32)
            error_fatal("cuda executor: attention adds to gradients in f32, not in %s", dtype_name(t->dtype));
    }
    return count;
}

bool cuda_own_attention_backward_turns(const struct attention_backward_args *args)
{
    const struct tensor *tensors[8];
    int count = narrow_tensors(args, tensors);
    /* The pairs of a padded head are not in its halves. */
    return attention_way_has_size(BACKWARD_WARPGROUPS, args->head_dim) && packs_fit(args->table, 2) &&
           attention_way_supports(BACKWARD_WARPGROUPS, tensors, count, args->head_dim);
}

/* Returns the inverse rope, for warpgroup kernels that apply it. */
static struct rope_rotation rotation_of(const struct attention_backward_args *args)
{
    if (!tensor_present(&args->positions) || !cuda_own_attention_backward_turns(args))
        return {};
    return {static_cast<const int *>(args->positions.data), view_of<const float>(args->table),
            static_cast<int>(args->head_dim / 2), args->interleaved};
}

template <typename T, int DIM, bool VECTOR>
static void run(const struct cuda_target *target, const struct attention_backward_args *args,
                const struct layout &layout, bool by_warpgroups, bool once)
{
    struct view<const T> q = view_of<const T>(args->q), k = view_of<const T>(args->k), v = view_of<const T>(args->v);
    struct view<const T> d_o = view_of<const T>(args->d_o);
    struct view<float2> statistics = {
        layout.statistics, args->heads, args->q.rows, args->q.rows
    };
    int heads = static_cast<int>(args->heads), kv_heads = static_cast<int>(args->kv_heads), share = heads / kv_heads;
    int dim = static_cast<int>(args->head_dim);

    struct delta_job<T> delta_job = {
        view_of<const T>(args->o), d_o, view_of<const float>(args->lse), statistics, heads, dim
    };
    int64_t blocks = ceil_div(args->q.rows, 256 / WARP), most = static_cast<int64_t>(target->multiprocessors) * 8;
    delta<T, DIM, VECTOR><<<static_cast<unsigned>(blocks < most ? blocks : most), 256, 0, target->stream>>>(delta_job);
    CUDA_CHECK_LAUNCH("attention_delta");
    const struct rope_rotation turned = rotation_of(args);
    if (once) {
        attention_backward_once(target, args, &layout.queries, &layout.keys, layout.statistics, layout.sums, turned);
        return;
    }
    if (by_warpgroups) {
        attention_backward_by_warpgroups(target, args, &layout.queries, &layout.keys, layout.statistics, turned);
        return;
    }

    using keys_cut = backward_cut<T, DIM, true>;
    using queries_cut = backward_cut<T, DIM, false>;
    static_assert(keys_cut::rows == backward_cut<T, 32, true>::rows && queries_cut::rows == keys_cut::rows,
                  "tile_rows() knows the rows of a tile by dtype");
    auto of_keys = [&](const struct tensor &t) { return gradient_of<T>(t, args->q.dtype, args->accumulate_kv); };
    struct backward_job<T> keys = {
        k, v, q, d_o, of_keys(args->dk), of_keys(args->dv), statistics, layout.keys, kv_heads, share, dim, args->scale,
            mask_of(args),
        {
        }
    };
    run_items(target, backward<T, DIM, true, VECTOR>, keys, keys_cut::threads, keys_cut::resident, keys_cut::shared);
    CUDA_CHECK_LAUNCH("attention_backward of keys");
    struct backward_job<T> queries = {
        q, d_o, k, v, gradient_of<T>(args->dq, args->q.dtype, args->accumulate_q),
            {}, statistics, layout.queries, heads, share, dim, args->scale, mask_of(args),
        {
        }
    };
    run_items(target, backward<T, DIM, false, VECTOR>, queries, queries_cut::threads, queries_cut::resident,
              queries_cut::shared);
    CUDA_CHECK_LAUNCH("attention_backward of queries");
}

bool cuda_own_attention_backward_has_once(const struct attention_backward_args *args)
{
    const struct tensor *tensors[8];
    int count = narrow_tensors(args, tensors);
    if (!attention_way_supports(BACKWARD_ONCE, tensors, count, args->head_dim))
        return false;
    const struct attention_backward_args part = heads_of(args, 0, kv_heads_together(args));
    return attention_backward_once_sums(&part) / static_cast<int64_t>(sizeof(float)) <= UINT32_MAX; /* 32-bit indices */
}

static void backward_of(const struct cuda_target *target, const struct attention_backward_args *args, bool once)
{
    const struct tensor *tensors[8];
    int count = narrow_tensors(args, tensors);
    attention_check(tensors, count, &args->lse, args->head_dim, args->scale);
    struct layout layout;
    lay_out(args, once, target->workspace, &layout);
    bool by_warpgroups = attention_way_supports(BACKWARD_WARPGROUPS, tensors, count, args->head_dim);
    auto rows = [&](bool keys) {
        if (once)
            return attention_backward_once_rows(args->head_dim, keys);
        return by_warpgroups ? attention_backward_warpgroup_rows(args->head_dim, keys) : tile_rows(args->q.dtype);
    };
    if (args->q.rows == 0) {
        const struct attention_rows keys = {true, args->k.rows, {args->dk, args->dv}, {}};
        if (!args->accumulate_kv)
            attention_clear(target, &args->segments, &keys, 1);
        return;
    }
    struct attention_side sides[] = {{false, rows(false), args->q.rows, !args->accumulate_q, layout.queries},
                                     {true, rows(true), args->k.rows, !args->accumulate_kv, layout.keys}};
    attention_prepare(target, &args->segments, mask_of(args), true, sides, 2);
    layout.queries = sides[0].list;
    layout.keys = sides[1].list;
    visit_attention<BACKWARD_TILES>(tensors, count, args->head_dim, [&](auto zero, auto dim, auto vector) {
        run<decltype(zero), dim.value, vector.value>(target, args, layout, by_warpgroups, once);
    });
}

void cuda_own_attention_backward(const struct cuda_target *target, const struct attention_backward_args *args,
                                 bool once)
{
    const int64_t together = once ? kv_heads_together(args) : args->kv_heads;
    for (int64_t first = 0; first < args->kv_heads; first += together) {
        const int64_t left = args->kv_heads - first;
        const struct attention_backward_args part = heads_of(args, first, left < together ? left : together);
        backward_of(target, &part, once);
    }
}
