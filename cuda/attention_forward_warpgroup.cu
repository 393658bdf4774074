/* Attention forward by warpgroups: while the tensor cores weigh one tile's values, the scores of the next become
 * probabilities. */
#include "cuda/attention_warpgroup.cuh"

/* How the work is cut, by what was fastest on an H200: narrow heads are bound by exponentials, for which two blocks of
 * a multiprocessor take turns. */
template <int DIM> struct forward_plan {
    static constexpr bool narrow = DIM <= 32;
    static constexpr int users = DIM == 64 ? 3 : 2, keys = narrow ? 64 : 128, resident = narrow ? 2 : 1;
    static constexpr int stages = 3, q_places = DIM == 128 ? 1 : 2; /* as shared memory allows */
    static constexpr int rows = WARPGROUP_ROWS * users, threads = (users + 1) * WARPGROUP;
    using q_tile = panels<rows, DIM>;
    using kv_tile = panels<keys, DIM>;
    using registers = warpgroup_registers<users, resident>;
};

template <int DIM> struct forward_memory {
    using plan = forward_plan<DIM>;
    char q[plan::q_places][plan::q_tile::bytes], k[plan::stages][plan::kv_tile::bytes],
        v[plan::stages][plan::kv_tile::bytes];
    struct item items[ITEM_SLOTS];
    struct place q_places[plan::q_places], k_places[plan::stages], v_places[plan::stages];
};

struct forward_call {
    struct view<const __nv_bfloat16> q, k, v;
    struct view<__nv_bfloat16> o;
    struct view<float> lse;
    struct work_list list;
    int heads, share, dim; /* share: heads of a kv head */
    float scale;
    bool causal;
};

/* Tiles of keys that rows first .. first + count - 1 see. */
template <int DIM>
__device__ __forceinline__ int tiles_seen(const struct segment &segment, int first, int count, bool causal)
{
    constexpr int keys = forward_plan<DIM>::keys;
    return count > 0 ? (visible(segment, false, first + count - 1, causal).end + keys - 1) / keys : 0;
}

/* The last warpgroup. */
template <int DIM>
__device__ __forceinline__ void bring(const struct forward_call &call, struct forward_memory<DIM> &memory)
{
    using plan = forward_plan<DIM>;
    struct items_ahead ahead;
    struct turn<plan::q_places> item_turn;
    struct turn<plan::stages> now;
    bool first_thread = threadIdx.x == plan::threads - WARPGROUP;
    if (first_thread)
        ahead.begin(call.list, call.heads, call.share, memory.items);
    for (int n = 0;; n++, item_turn.next()) {
        const struct item &item = memory.items[n % ITEM_SLOTS];
        threads_meet<1, WARPGROUP>();
        wait_emptied(memory.q_places, item_turn);
        uint64_t *filled = &memory.q_places[item_turn.at].filled;
        if (first_thread)
            barrier_arrive(filled); /* the item is there */
        if (item.head < 0) {
            barrier_arrive_behind_copies(filled);
            return;
        }
        if (first_thread)
            ahead.ask(call.list, call.heads, call.share);
        const struct segment &segment = item.work.segment;
        int rows = min(plan::rows, segment.q_length - item.work.first);
        bring_tile<plan::rows, DIM>(memory.q[item_turn.at],
                                    call.q.row(static_cast<int64_t>(segment.q_start) + item.work.first) +
                                        item.head * call.dim,
                                    call.q.stride, rows, call.dim);
        barrier_arrive_behind_copies(filled);
        int tiles = tiles_seen<DIM>(segment, item.work.first, rows, call.causal);
        for (int tile = 0; tile < tiles; tile++, now.next()) {
            int key = tile * plan::keys, left = segment.kv_length - key, column = item.other * call.dim;
            int64_t row = static_cast<int64_t>(segment.kv_start) + key;
            wait_emptied(memory.k_places, now);
            bring_tile<plan::keys, DIM>(memory.k[now.at], call.k.row(row) + column, call.k.stride, left, call.dim);
            barrier_arrive_behind_copies(&memory.k_places[now.at].filled);
            wait_emptied(memory.v_places, now);
            bring_tile<plan::keys, DIM>(memory.v[now.at], call.v.row(row) + column, call.v.stride, left, call.dim);
            barrier_arrive_behind_copies(&memory.v_places[now.at].filled);
        }
        if (first_thread)
            memory.items[(n + 1) % ITEM_SLOTS] = ahead.next;
    }
}

/* The others. */
template <int DIM>
__device__ __forceinline__ void attend(const struct forward_call &call, struct forward_memory<DIM> &memory)
{
    using plan = forward_plan<DIM>;
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    float scale_log2 = call.scale * static_cast<float>(M_LOG2E);
    struct turn<plan::q_places> item_turn;
    struct turn<plan::stages> now; /* of keys; the values' is one tile behind */
    for (int n = 0;; n++, item_turn.next()) {
        wait_filled(memory.q_places, item_turn);
        const struct item &item = memory.items[n % ITEM_SLOTS];
        if (item.head < 0)
            return;
        const struct segment &segment = item.work.segment;
        int first = item.work.first + warpgroup * WARPGROUP_ROWS;
        int all =
            tiles_seen<DIM>(segment, item.work.first, min(plan::rows, segment.q_length - item.work.first), call.causal);
        int own = tiles_seen<DIM>(segment, first, min(WARPGROUP_ROWS, segment.q_length - first), call.causal);
        uint64_t q_tile = plan::q_tile::described(memory.q[uniform(item_turn.at)] +
                                                  warpgroup * WARPGROUP_ROWS * plan::q_tile::row_bytes);
        auto warp = [&] { return rows_of_warp(item.work, segment.q_length, 16); };

        float o[1][DIM / 8][4] = {}, largest[1][2] = {-INFINITY, -INFINITY}, sum[1][2] = {};
        float s[1][plan::keys / 8][4], change[1][2];
        uint32_t p[plan::keys / 16][4];
        auto score = [&] {
            wait_filled(memory.k_places, now);
            uint64_t k_tile = plan::kv_tile::described(memory.k[uniform(now.at)]);
            products_begin();
#pragma unroll
            for (int step = 0; step < DIM / 16; step++)
                multiply(s[0], plan::q_tile::along_columns(q_tile, step), plan::kv_tile::along_columns(k_tile, step),
                         step > 0);
            products_group();
        };
        auto mask_and_weigh = [&](int tile) {
            int key = tile * plan::keys;
            if (key + plan::keys > visible(segment, false, warp().first, call.causal).end)
                hide(s, segment, false, warp().first, key, call.causal);
            weigh(s, scale_log2, largest, sum, change);
        };
        auto add_values = [&](const struct turn<plan::stages> &of) {
            wait_filled(memory.v_places, of);
            uint64_t v_tile = plan::kv_tile::described(memory.v[uniform(of.at)]);
            products_begin();
#pragma unroll
            for (int step = 0; step < plan::keys / 16; step++)
                multiply_weighted(o[0], p[step], plan::kv_tile::along_rows(v_tile, step));
            products_group();
        };

        if (own > 0) {
            score();
            products_wait<0>();
            hold(s[0]);
            warp_arrives(&memory.k_places[now.at].emptied);
            mask_and_weigh(0);
            pairs_of(s[0], p);
        }
#pragma unroll 1
        for (int tile = 1; tile < own; tile++) {
            struct turn<plan::stages> before = now;
            now.next();
            score();
            add_values(before);
            products_wait<1>();
            hold(s[0]);
            warp_arrives(&memory.k_places[now.at].emptied);
            mask_and_weigh(tile);
            finished(sum[0][0] + sum[0][1]);
            products_wait<0>();
            hold(o[0]);
            warp_arrives(&memory.v_places[before.at].emptied);
            rescale(o, change);
            pairs_of(s[0], p);
        }
        warp_arrives(&memory.q_places[item_turn.at].emptied);
        if (own > 0) {
            add_values(now);
            products_wait<0>();
            hold(o[0]);
            warp_arrives(&memory.v_places[now.at].emptied);
            now.next();
        }
#pragma unroll 1
        for (int tile = own; tile < all; tile++, now.next()) { /* of warpgroups that see more */
            wait_filled(memory.k_places, now);
            warp_arrives(&memory.k_places[now.at].emptied);
            wait_filled(memory.v_places, now);
            warp_arrives(&memory.v_places[now.at].emptied);
        }

        float factor[2];
        struct warp_rows rows = warp();
        int64_t row = static_cast<int64_t>(segment.q_start) + rows.first;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float total = sum[0][half];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            factor[half] = total == 0.0f ? 0.0f : 1.0f / total;
            int r = 8 * half + fragment_row();
            if (r < rows.count && fragment_col() == 0)
                call.lse.row(item.head)[row + r] =
                    total == 0.0f ? -INFINITY : largest[0][half] * call.scale + logf(total);
        }
        store_accumulator(o[0], factor, call.o.row(row) + item.head * call.dim, call.o.stride, rows.count, call.dim);
    }
}

template <int DIM>
__global__ static void __launch_bounds__(forward_plan<DIM>::threads, forward_plan<DIM>::resident)
    forward_by_warpgroups(const __grid_constant__ struct forward_call call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using plan = forward_plan<DIM>;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct forward_memory<DIM> *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < plan::q_places; i++)
            place_start(&memory.q_places[i], plan::users, WARPGROUP + 1);
        for (int i = 0; i < plan::stages; i++) {
            place_start(&memory.k_places[i], plan::users);
            place_start(&memory.v_places[i], plan::users);
        }
    }
    __syncthreads();
    if (threadIdx.x >= plan::users * WARPGROUP) {
        registers_give<plan::registers::bringing>();
        bring<DIM>(call, memory);
    } else {
        registers_get<plan::registers::working>();
        attend<DIM>(call, memory);
    }
#endif
}

int attention_forward_warpgroup_rows(int64_t head_dim)
{
    int rows = 0;
    visit_warpgroup_dim(head_dim, [&](auto dim) { rows = forward_plan<dim.value>::rows; });
    return rows;
}

void attention_forward_by_warpgroups(const struct cuda_target *target, const struct attention_forward_args *args,
                                     const struct work_list *list)
{
    struct forward_call call = {view_of<const __nv_bfloat16>(args->q),
                                view_of<const __nv_bfloat16>(args->k),
                                view_of<const __nv_bfloat16>(args->v),
                                view_of<__nv_bfloat16>(args->o),
                                view_of<float>(args->lse),
                                *list,
                                static_cast<int>(args->heads),
                                static_cast<int>(args->heads / args->kv_heads),
                                static_cast<int>(args->head_dim),
                                args->scale,
                                args->causal};
    visit_warpgroup_dim(args->head_dim, [&](auto dim) {
        using plan = forward_plan<dim.value>;
        run_items(target, forward_by_warpgroups<dim.value>, call, plan::threads, plan::resident,
                  sizeof(struct forward_memory<dim.value>));
        CUDA_CHECK_LAUNCH("attention_forward by warpgroups");
    });
}
