/* Attention forward: one work item for each tile of queries and head, with an online softmax over tiles of keys (Dao,
 * FlashAttention-2, 2023). The next tile of keys is loaded while the current one is used. */
#include "cuda/attention_decode.h"
#include "cuda/attention_work.cuh"
#include "cuda/attention_own.h"
#include "cuda/attention_tile.cuh"

/* Tile sizes: each warp has `blocks` x 16 queries. f32 is for correctness only, with little shared memory. */
template <typename T, int DIM> struct forward_cut {
    static constexpr bool narrow = sizeof(T) == 2;
    static constexpr int blocks = narrow ? 2 : 1, warps = narrow ? 4 : 2, keys = narrow ? 64 : 32;
    static constexpr int threads = warps * WARP, warp_rows = 16 * blocks, rows = warp_rows * warps;
    /* blocks per SM, for 128, 170 or 255 registers per thread */
    static constexpr int resident = !narrow || DIM > 64 ? 2 : DIM > 16 ? 3 : 4;
    static constexpr int shared = (rows + 4 * keys) * DIM * (int)sizeof(T) + (int)sizeof(struct work_item);
};

template <typename T> struct forward_job {
    struct view<const T> q, k, v;
    struct view<T> o;
    struct view<float> lse;
    struct work_list list;
    int heads, share, dim; /* share: query heads per kv head */
    float scale;
    struct attention_mask mask;
};

template <typename T, int DIM, bool VECTOR>
__device__ __forceinline__ void forward_item(const struct forward_job<T> &job, const struct work_item &item, T *shared)
{
    using cut = forward_cut<T, DIM>;
    const struct segment &segment = item.work.segment;
    T *q_tile = shared, *k_tiles = q_tile + cut::rows * DIM, *v_tiles = k_tiles + 2 * cut::keys * DIM;
    /* Values that follow from the item are recomputed at each use: as variables they would occupy registers during the
     * loop. */
    auto rows = [&] { return min(cut::rows, segment.q_length - item.work.first); };
    auto keys = [&] { return visible(segment, false, item.work.first + rows() - 1, job.mask).end; };
    /* The first tile of keys that any row sees. */
    auto first_key = [&] { return visible(segment, false, item.work.first, job.mask).begin / cut::keys * cut::keys; };
    auto warp = [&] { return rows_of_warp(item.work, segment.q_length, cut::warp_rows); };

    auto load_keys = [&](int key) {
        int stage = key / cut::keys % 2 * cut::keys * DIM, left = segment.kv_length - key;
        int64_t row = static_cast<int64_t>(segment.kv_start) + key;
        load_tile<cut::keys, DIM, cut::threads, VECTOR>(k_tiles + stage, job.k.row(row) + item.other * job.dim,
                                                        job.k.stride, left, job.dim);
        load_tile<cut::keys, DIM, cut::threads, VECTOR>(v_tiles + stage, job.v.row(row) + item.other * job.dim,
                                                        job.v.stride, left, job.dim);
    };

    float o[cut::blocks][DIM / 8][4] = {}, largest[cut::blocks][2], sum[cut::blocks][2];
#pragma unroll
    for (int i = 0; i < cut::blocks; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            largest[i][half] = -INFINITY, sum[i][half] = 0.0f;

    float scale_log2 = job.scale * static_cast<float>(M_LOG2E);
    if (keys() > first_key()) {
        load_tile<cut::rows, DIM, cut::threads, VECTOR>(
            q_tile, job.q.row(static_cast<int64_t>(segment.q_start) + item.work.first) + item.head * job.dim,
            job.q.stride, rows(), job.dim);
        load_keys(first_key());
    }
    for (int key = first_key(); key < keys(); key += cut::keys) {
        copy_async_wait();
        __syncthreads(); /* these keys are loaded, and no thread reads the previous ones */
        if (key + cut::keys < keys())
            load_keys(key + cut::keys);
        struct warp_rows own = warp();
        struct row_range seen_by_warp = visible(segment, false, own.first, own.first + own.count - 1, job.mask);
        if (own.count == 0 || key >= seen_by_warp.end || key + cut::keys <= seen_by_warp.begin)
            continue;
        int stage = key / cut::keys % 2 * cut::keys * DIM;
        float s[cut::blocks][cut::keys / 8][4] = {};
        add_product<DIM>(s, q_tile + threadIdx.x / WARP * cut::warp_rows * DIM, k_tiles + stage);
        if (key < visible(segment, false, warp().first + cut::warp_rows - 1, job.mask).begin ||
            key + cut::keys > visible(segment, false, warp().first, job.mask).end)
            hide(s, segment, false, warp().first, key, job.mask);
        float change[cut::blocks][2];
        weigh(s, scale_log2, largest, sum, change);
        rescale(o, change);
        add_weighted<DIM>(o, s, v_tiles + stage);
    }

    float factor[cut::blocks][2];
    struct warp_rows own = warp();
    int64_t row = static_cast<int64_t>(segment.q_start) + own.first;
#pragma unroll
    for (int i = 0; i < cut::blocks; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float all = sum[i][half];
            all += __shfl_xor_sync(0xffffffffu, all, 1);
            all += __shfl_xor_sync(0xffffffffu, all, 2);
            factor[i][half] = all == 0.0f ? 0.0f : 1.0f / all;
            int r = 16 * i + 8 * half + fragment_row();
            if (r < own.count && fragment_col() == 0)
                job.lse.row(item.head)[row + r] = all == 0.0f ? -INFINITY : largest[i][half] * job.scale + logf(all);
        }
    store_rows<cut::blocks, DIM, VECTOR>(o, factor, q_tile + threadIdx.x / WARP * cut::warp_rows * DIM,
                                         job.o.row(row) + item.head * job.dim, job.o.stride, own.count, job.dim);
}

template <typename T, int DIM, bool VECTOR>
__global__ static void __launch_bounds__(forward_cut<T, DIM>::threads, forward_cut<T, DIM>::resident)
    forward(const struct forward_job<T> job)
{
    extern __shared__ __align__(1024) char shared[];
    struct work_item *item = reinterpret_cast<struct work_item *>(shared + forward_cut<T, DIM>::shared) - 1;
    while (take_item(job.list, job.heads, job.share, item))
        forward_item<T, DIM, VECTOR>(job, *item, reinterpret_cast<T *>(shared));
}

/* Returns the rows of a tile by dtype, equal for all head sizes; warpgroup kernels have other tiles. */
static int tile_rows(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? forward_cut<float, 32>::rows : forward_cut<__nv_bfloat16, 32>::rows;
}

static int64_t lay_out(const struct attention_forward_args *args, char *base, struct work_list *list)
{
    int64_t used = 0;
    int rows = tile_rows(args->q.dtype), of_warpgroups = attention_forward_warpgroup_rows(args->head_dim);
    *list = take_work_list(base, &used, args->q.rows, args->segments.q_start.cols,
                           rows < of_warpgroups ? rows : of_warpgroups);
    return used;
}

int64_t cuda_attention_forward_workspace(const struct cuda_target *target, const struct attention_forward_args *args)
{
    struct work_list list;
    const int64_t own = lay_out(args, nullptr, &list), decode = attention_decode_workspace(target, args);
    return own > decode ? own : decode;
}

void cuda_attention_forward(const struct cuda_target *target, const struct attention_forward_args *args)
{
    const struct tensor *tensors[] = {&args->q, &args->k, &args->v, &args->o};
    int count = sizeof tensors / sizeof *tensors;
    attention_check(tensors, count, &args->lse, args->head_dim, args->scale);
    if (args->q.rows == 0)
        return;
    if (attention_decode_takes(args)) {
        attention_decode(target, args);
        return;
    }
    struct work_list list;
    lay_out(args, target->workspace, &list);
    bool by_warpgroups = attention_way_supports(FORWARD_WARPGROUPS, tensors, count, args->head_dim);
    int rows = by_warpgroups ? attention_forward_warpgroup_rows(args->head_dim) : tile_rows(args->q.dtype);
    struct attention_side side = {false, rows, args->q.rows, true, list};
    attention_prepare(target, &args->segments, mask_of(args), false, &side, 1);
    if (by_warpgroups) {
        attention_forward_by_warpgroups(target, args, &side.list);
        return;
    }
    visit_attention<FORWARD_TILES>(tensors, count, args->head_dim, [&](auto zero, auto dim, auto vector) {
        using T = decltype(zero);
        using cut = forward_cut<T, dim.value>;
        struct forward_job<T> job = {
            view_of<const T>(args->q), view_of<const T>(args->k), view_of<const T>(args->v), view_of<T>(args->o),
                view_of<float>(args->lse), side.list, static_cast<int>(args->heads),
                static_cast<int>(args->heads / args->kv_heads), static_cast<int>(args->head_dim), args->scale,
                mask_of(args)
        };
        run_items(target, forward<T, dim.value, vector.value>, job, cut::threads, cut::resident, cut::shared);
        CUDA_CHECK_LAUNCH("attention_forward");
    });
}
