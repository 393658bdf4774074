/* Attention backward by warpgroups: two passes as in attention_backward.cu, over queries and over keys. */
#include "cuda/attention_backward.cuh"

/* Tile sizes that were fastest on an H200, as far as registers allow: keys sum two gradients. */
template <int DIM, bool KEYS> struct backward_plan {
    static constexpr int dim = DIM, room = DIM;
    static constexpr bool of_keys = KEYS, aligned = false;
    static constexpr int bringers = WARPGROUP;
    static constexpr int users = KEYS && DIM >= 64 ? 2 : 3, others = 64, resident = 1;
    static constexpr int stages = DIM == 128 ? 3 : 4, own_places = DIM == 128 ? 1 : 2; /* limited by shared memory */
    static constexpr bool early = KEYS && DIM <= 64; /* dy's product starts before ds is there; needs registers */
    static constexpr int rows = WARPGROUP_ROWS * users, threads = (users + 1) * WARPGROUP;
    using own_tile = panels<rows, DIM>;
    using other_tile = panels<others, DIM>;
    using registers = warpgroup_registers<users, resident>;
};

/* The loop of the warpgroups that compute. */
template <int DIM, bool KEYS, typename MASK>
__device__ __forceinline__ void differentiate(const backward_call<MASK> &call,
                                              struct backward_memory<backward_plan<DIM, KEYS>> &memory)
{
    using plan = backward_plan<DIM, KEYS>;
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    /* Releases a tile. For keys every thread reads statistics and arrives: racecheck does not see that an arrival
     * covers other threads' reads. */
    auto release = [](struct tile_place &place) {
        if constexpr (KEYS)
            barrier_arrive(&place.emptied);
        else
            warp_arrives(&place.emptied);
    };
    float scale_log2 = call.scale * static_cast<float>(M_LOG2E);
    struct turn<plan::own_places> item_turn;
    struct turn<plan::stages> now;
    for (int n = 0;; n++, item_turn.next()) {
        wait_filled(memory.own_places, item_turn);
        const struct work_item &item = memory.items[n % ITEM_SLOTS];
        if (item.head < 0)
            return;
        const struct segment &segment = item.work.segment;
        auto length = [&] { return KEYS ? segment.kv_length : segment.q_length; };
        int own_at = uniform(item_turn.at), own_row = warpgroup * WARPGROUP_ROWS * plan::own_tile::row_bytes;
        uint64_t own_x = plan::own_tile::described(memory.own_x[own_at] + own_row);
        uint64_t own_y = plan::own_tile::described(memory.own_y[own_at] + own_row);
        auto warp = [&] { return rows_of_warp(item.work, length(), 16); };

        float2 own_statistics[2];
        if (!KEYS)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int r = 8 * half + fragment_row();
                own_statistics[half] = make_float2(0.0f, 0.0f);
                if (r < warp().count)
                    own_statistics[half] =
                        call.statistics.row(item.head)[static_cast<int64_t>(segment.q_start) + warp().first + r];
            }

        float dx[DIM / 8][4] = {}, dy[KEYS ? DIM / 8 : 1][4] = {};
        float p[1][plan::others / 8][4], ds[plan::others / 8][4];
        auto begin_scores = [&] {
            wait_filled(memory.places, now);
            uint64_t other_x = plan::other_tile::described(memory.other_x[uniform(now.at)]);
            uint64_t other_y = plan::other_tile::described(memory.other_y[uniform(now.at)]);
            products_begin();
#pragma unroll
            for (int step = 0; step < DIM / 16; step++)
                multiply(p[0], plan::own_tile::along_columns(own_x, step),
                         plan::other_tile::along_columns(other_x, step), step > 0);
            products_group();
#pragma unroll
            for (int step = 0; step < DIM / 16; step++)
                multiply(ds, plan::own_tile::along_columns(own_y, step), plan::other_tile::along_columns(other_y, step),
                         step > 0);
            products_group();
        };
        auto base_of = [&](int j, int e) {
            return KEYS ? memory.base[now.at][8 * j + fragment_col() + e % 2] : own_statistics[e / 2].x;
        };
        auto delta_of = [&](int j, int e) {
            return KEYS ? memory.delta[now.at][8 * j + fragment_col() + e % 2] : own_statistics[e / 2].y;
        };
        /* Turns scores into gradients, and adds them. */
        auto add_gradients = [&](int at) {
            products_wait<1>();
            hold(p[0]);
            if (at < visible(segment, KEYS, warp().first + 15, call.mask).begin ||
                at + plan::others > visible(segment, KEYS, warp().first, call.mask).end)
                hide(p, segment, KEYS, warp().first, at, call.mask);
#pragma unroll
            for (int j = 0; j < plan::others / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    p[0][j][e] = exp2_fast(p[0][j][e] * scale_log2 - base_of(j, e));
            uint64_t other_x = plan::other_tile::described(memory.other_x[uniform(now.at)]);
            uint64_t other_y = plan::other_tile::described(memory.other_y[uniform(now.at)]);
            uint32_t weights[KEYS ? plan::others / 16 : 1][4], left[plan::others / 16][4];
            auto add_dy = [&] {
                if constexpr (KEYS)
#pragma unroll
                    for (int step = 0; step < plan::others / 16; step++)
                        multiply_weighted(dy, weights[step], plan::other_tile::along_rows(other_y, step));
            };
            if constexpr (plan::early) {
                pairs_of(p[0], weights);
                products_begin();
                add_dy();
                products_group();
            }
            products_wait<plan::early ? 1 : 0>();
            hold(ds);
#pragma unroll
            for (int j = 0; j < plan::others / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    ds[j][e] = p[0][j][e] * (ds[j][e] - delta_of(j, e));
            if constexpr (KEYS && !plan::early)
                pairs_of(p[0], weights);
            pairs_of(ds, left);
            products_begin();
            if constexpr (KEYS && !plan::early)
                add_dy();
#pragma unroll
            for (int step = 0; step < plan::others / 16; step++)
                multiply_weighted(dx, left[step], plan::other_tile::along_rows(other_x, step));
            products_group();
            products_wait<0>();
            hold(dx);
            if constexpr (KEYS)
                hold(dy);
        };
        auto pass_over = [&](int tiles) { /* tiles that only other warpgroups see */
#pragma unroll 1
                                          for (; tiles > 0; tiles--, now.next()) {
                                              wait_filled(memory.places, now);
                                              release(memory.places[now.at]);
                                          }
        };

        int first = item.work.first + warpgroup * WARPGROUP_ROWS;
        struct row_range all =
            seen_by(segment, KEYS, item.work.first, min(plan::rows, length() - item.work.first), call.mask);
        struct row_range own = seen_by(segment, KEYS, first, min(WARPGROUP_ROWS, length() - first), call.mask);
        int tiles = (max(all.end - all.begin, 0) + plan::others - 1) / plan::others;
        bool any = own.begin < own.end;
        /* queries process the few tiles before their window too: skipping them would take registers */
        int before = KEYS && any ? (own.begin - all.begin) / plan::others : 0;
        int mine = any ? (own.end - all.begin + plan::others - 1) / plan::others - before : 0;
#pragma unroll 1
        for (int head = 0; head < (KEYS ? call.share : 1); head++) {
            pass_over(before);
            int at = all.begin + before * plan::others;
#pragma unroll 1
            for (int tile = 0; tile < mine; tile++, at += plan::others, now.next()) {
                begin_scores();
                add_gradients(at);
                release(memory.places[now.at]);
            }
            pass_over(tiles - before - mine);
        }
        warp_arrives(&memory.own_places[item_turn.at].emptied);

        struct warp_rows rows = warp();
        int64_t row = static_cast<int64_t>(KEYS ? segment.kv_start : segment.q_start) + rows.first;
        struct angles<DIM / 16> angles =
            angles_at<DIM / 16>(call.turned, angle_rows_of(call.turned, row, rows.count), 0);
        if constexpr (KEYS)
            store_gradient(dy, 1.0f, call.dy, row, item.head * call.dim, rows.count, call.dim);
        turn_back(dx, call.turned, angles);
        store_gradient(dx, call.scale, call.dx, row, item.head * call.dim, rows.count, call.dim);
    }
}

template <int DIM, bool KEYS, typename MASK>
__global__ static void __launch_bounds__(backward_plan<DIM, KEYS>::threads, backward_plan<DIM, KEYS>::resident)
    backward_by_warpgroups(const __grid_constant__ backward_call<MASK> call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using plan = backward_plan<DIM, KEYS>;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct backward_memory<backward_plan<DIM, KEYS>> *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < plan::own_places; i++)
            place_start(&memory.own_places[i], plan::users, plan::bringers + 1);
        for (int i = 0; i < plan::stages; i++)
            place_start(&memory.places[i], plan::users, plan::bringers, KEYS ? WARPGROUP : WARPGROUP / WARP);
    }
    __syncthreads();
    if (threadIdx.x >= plan::users * WARPGROUP) {
        registers_give<plan::registers::bringing>();
        bring<plan, MASK>(call, call, memory);
    } else {
        registers_get<plan::registers::working>();
        differentiate<DIM, KEYS, MASK>(call, memory);
    }
#endif
}

int attention_backward_warpgroup_rows(int64_t head_dim, bool keys)
{
    int rows = 0;
    visit_head_size<BACKWARD_WARPGROUPS>(head_dim, [&](auto dim) {
        rows = keys ? backward_plan<dim.value, true>::rows : backward_plan<dim.value, false>::rows;
    });
    return rows;
}

void attention_backward_by_warpgroups(const struct cuda_target *target, const struct attention_backward_args *args,
                                      const struct work_list *queries, const struct work_list *keys, float2 *statistics,
                                      const struct rope_rotation &turned)
{
    using T = __nv_bfloat16;
    struct view<const T> q = view_of<const T>(args->q), k = view_of<const T>(args->k), v = view_of<const T>(args->v);
    struct view<const T> d_o = view_of<const T>(args->d_o);
    struct view<float2> of_queries = {
        statistics, args->heads, args->q.rows, args->q.rows
    };
    int heads = static_cast<int>(args->heads), kv_heads = static_cast<int>(args->kv_heads), share = heads / kv_heads;
    int dim = static_cast<int>(args->head_dim);
    auto dq = gradient_of<T>(args->dq, DTYPE_BF16, args->accumulate_q);
    auto dk = gradient_of<T>(args->dk, DTYPE_BF16, args->accumulate_kv);
    auto dv = gradient_of<T>(args->dv, DTYPE_BF16, args->accumulate_kv);
    float scale = args->scale;
    visit_mask(mask_of(args), [&](const auto &mask) {
        using MASK = std::decay_t<decltype(mask)>;
        backward_call<MASK> of_keys = {k,     v,        q,     d_o, dk,    dv,   of_queries,
                                       *keys, kv_heads, share, dim, scale, mask, turned};
        backward_call<MASK> of_q = {q, d_o, k, v, dq, {}, of_queries, *queries, heads, share, dim, scale, mask, turned};
        visit_head_size<BACKWARD_WARPGROUPS>(args->head_dim, [&](auto dim) {
            using keys_plan = backward_plan<dim.value, true>;
            run_items(target, backward_by_warpgroups<dim.value, true, MASK>, of_keys, keys_plan::threads,
                      keys_plan::resident, sizeof(struct backward_memory<keys_plan>));
            CUDA_CHECK_LAUNCH("attention_backward of keys by warpgroups");
            using queries_plan = backward_plan<dim.value, false>;
            run_items(target, backward_by_warpgroups<dim.value, false, MASK>, of_q, queries_plan::threads,
                      queries_plan::resident, sizeof(struct backward_memory<queries_plan>));
            CUDA_CHECK_LAUNCH("attention_backward of queries by warpgroups");
        });
    });
}
