/* Attention forward by warpgroups: the softmax of the next tile's scores overlaps with the tensor cores' product of
 * probabilities and values. TMA copies the tiles. */
#include "cuda/attention_warpgroup.cuh"
#include "cuda/head_map.cuh"

/* Tile sizes that were fastest on an H200. Narrow heads are bound by exponentials, so two blocks share an SM. For wide
 * heads each key and value copied should serve many queries; the number of keys at a time is limited by registers. */
template <int DIM> struct forward_plan {
    static constexpr bool narrow = DIM <= 32;
    static constexpr int users = narrow ? 2 : 3, resident = narrow ? 2 : 1;
    static constexpr int keys = narrow ? 64 : DIM <= 64 ? 128 : DIM <= 96 ? 96 : 80;
    static constexpr int stages = 3, q_places = DIM > 64 ? 1 : 2; /* limited by shared memory */
    static constexpr int rows = WARPGROUP_ROWS * users, threads = (users + 1) * WARPGROUP;
    static constexpr int room = DIM <= 64 ? DIM : 128; /* columns of a tile, of which GEMMs read DIM */
    using q_tile = panels<rows, room>;
    using kv_tile = panels<keys, room>;
    using registers = warpgroup_registers<users, resident>;
};

template <int DIM> struct forward_memory {
    using plan = forward_plan<DIM>;
    char q[plan::q_places][plan::q_tile::bytes], k[plan::stages][plan::kv_tile::bytes],
        v[plan::stages][plan::kv_tile::bytes];
    struct work_item items[ITEM_SLOTS];
    struct tile_place q_places[plan::q_places], k_places[plan::stages], v_places[plan::stages];
};

template <typename MASK> struct forward_call {
    CUtensorMap q, k, v;
    struct view<__nv_bfloat16> o;
    struct view<float> lse;
    struct work_list list;
    int heads, share, dim; /* share: query heads per kv head */
    float scale;
    MASK mask;
};

/* Returns the range of key tiles that rows first .. first + count - 1 see; without a window it begins at 0. */
template <int DIM, typename MASK>
__device__ __forceinline__ struct row_range tiles_seen(const struct segment &segment, int first, int count,
                                                       const MASK &mask)
{
    constexpr int keys = forward_plan<DIM>::keys;
    if (count <= 0)
        return {0, 0};
    struct row_range seen = visible(segment, false, first, first + count - 1, mask);
    return {seen.begin / keys, seen.end > seen.begin ? (seen.end + keys - 1) / keys : seen.begin / keys};
}

/* The loop of the thread that copies tiles. */
template <int DIM, typename MASK>
__device__ __forceinline__ void bring(const struct forward_call<MASK> &call, struct forward_memory<DIM> &memory)
{
    using plan = forward_plan<DIM>;
    struct turn<plan::q_places> item_turn;
    struct turn<plan::stages> now;
    memory.items[0] = item_of(call.list, call.heads, call.share, atomicAdd(call.list.tickets, 1));
    for (int n = 0;; n++, item_turn.next()) {
        const struct work_item &item = memory.items[n % ITEM_SLOTS];
        wait_emptied(memory.q_places, item_turn);
        uint64_t *filled = &memory.q_places[item_turn.at].filled;
        if (item.head < 0) {
            barrier_arrive(filled);
            return;
        }
        const struct segment &segment = item.work.segment;
        bring_rows<plan::rows, plan::room>(memory.q[item_turn.at], call.q, item.head, segment.q_start + item.work.first,
                                           filled);
        int rows = min(plan::rows, segment.q_length - item.work.first), head = item.other;
        struct row_range seen = tiles_seen<DIM>(segment, item.work.first, rows, call.mask);
        int tiles = seen.end - seen.begin, row = segment.kv_start + seen.begin * plan::keys, ticket = 0;
        auto take = [&] { ticket = atomicAdd(call.list.tickets, 1); };
        struct tiles_left left_over(tiles, take);
        for (int tile = 0; tile < tiles; tile++, now.next(), row += plan::keys) {
            left_over.next(take);
            wait_emptied(memory.k_places, now);
            bring_rows<plan::keys, plan::room>(memory.k[now.at], call.k, head, row, &memory.k_places[now.at].filled);
            wait_emptied(memory.v_places, now);
            bring_rows<plan::keys, plan::room>(memory.v[now.at], call.v, head, row, &memory.v_places[now.at].filled);
        }
        memory.items[(n + 1) % ITEM_SLOTS] = item_of(call.list, call.heads, call.share, ticket);
    }
}

/* The loop of the warpgroups that compute. */
template <int DIM, typename MASK>
__device__ __forceinline__ void attend(const struct forward_call<MASK> &call, struct forward_memory<DIM> &memory)
{
    using plan = forward_plan<DIM>;
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    float scale_log2 = call.scale * static_cast<float>(M_LOG2E);
    struct turn<plan::q_places> item_turn;
    struct turn<plan::stages> now; /* of keys; the values are one tile later */
    for (int n = 0;; n++, item_turn.next()) {
        wait_there(memory.q_places, item_turn);
        const struct work_item &item = memory.items[n % ITEM_SLOTS];
        if (item.head < 0)
            return;
        const struct segment &segment = item.work.segment;
        int first = item.work.first + warpgroup * WARPGROUP_ROWS;
        struct row_range all =
            tiles_seen<DIM>(segment, item.work.first, min(plan::rows, segment.q_length - item.work.first), call.mask);
        struct row_range own =
            tiles_seen<DIM>(segment, first, min(WARPGROUP_ROWS, segment.q_length - first), call.mask);
        bool any = own.begin < own.end;
        uint64_t q_tile = plan::q_tile::described(memory.q[uniform(item_turn.at)] +
                                                  warpgroup * WARPGROUP_ROWS * plan::q_tile::row_bytes);
        auto warp = [&] { return rows_of_warp(item.work, segment.q_length, 16); };
        struct row_range seen_by_all = {visible(segment, false, warp().first + 15, call.mask).begin,
                                        visible(segment, false, warp().first, call.mask).end}; /* rows of this warp */

        float o[1][DIM / 8][4] = {}, largest[1][2] = {-INFINITY, -INFINITY}, sum[1][2] = {};
        float s[1][plan::keys / 8][4], change[1][2];
        uint32_t p[plan::keys / 16][4];
        auto score = [&] {
            wait_there(memory.k_places, now);
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
            if (key < seen_by_all.begin || key + plan::keys > seen_by_all.end)
                hide(s, segment, false, warp().first, key, call.mask);
            weigh(s, scale_log2, largest, sum, change);
        };
        auto add_values = [&](const struct turn<plan::stages> &of) {
            wait_there(memory.v_places, of);
            uint64_t v_tile = plan::kv_tile::described(memory.v[uniform(of.at)]);
            products_begin();
#pragma unroll
            for (int step = 0; step < plan::keys / 16; step++)
                multiply_weighted(o[0], p[step], plan::kv_tile::along_rows(v_tile, step));
            products_group();
        };
        /* Clears values after the segment, whose weights are 0: they may be NaN. */
        auto clear_values_behind = [&](int length) {
            constexpr int chunks = plan::kv_tile::row_bytes / 16;
            wait_there(memory.v_places, now);
            for (int i = length * chunks + threadIdx.x % WARPGROUP; i < plan::keys * chunks; i += WARPGROUP)
#pragma unroll
                for (int panel = 0; panel < plan::room / plan::kv_tile::width; panel++)
                    reinterpret_cast<uint4 *>(memory.v[now.at] + panel * plan::kv_tile::panel_bytes)[i] = uint4();
            shared_writes_to_products();
            warpgroup_meets<1>(warpgroup);
        };

        auto pass_over = [&](int tiles) { /* tiles that only other warpgroups see */
#pragma unroll 1
                                          for (; tiles > 0; tiles--, now.next()) {
                                              wait_there(memory.k_places, now);
                                              warp_arrives(&memory.k_places[now.at].emptied);
                                              wait_there(memory.v_places, now);
                                              warp_arrives(&memory.v_places[now.at].emptied);
                                          }
        };

        pass_over(any ? own.begin - all.begin : all.end - all.begin);
        if (any) {
            score();
            products_wait<0>();
            hold(s[0]);
            warp_arrives(&memory.k_places[now.at].emptied);
            mask_and_weigh(own.begin);
            pairs_of(s[0], p);
        }
#pragma unroll 1
        for (int tile = own.begin + 1; tile < own.end; tile++) {
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
        if (any) {
            int left = segment.kv_length - (own.end - 1) * plan::keys;
            if (left < plan::keys)
                clear_values_behind(left);
            add_values(now);
            products_wait<0>();
            hold(o[0]);
            warp_arrives(&memory.v_places[now.at].emptied);
            now.next();
            pass_over(all.end - own.end);
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

template <int DIM, typename MASK>
__global__ static void __launch_bounds__(forward_plan<DIM>::threads, forward_plan<DIM>::resident)
    forward_by_warpgroups(const __grid_constant__ struct forward_call<MASK> call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using plan = forward_plan<DIM>;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct forward_memory<DIM> *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < plan::q_places; i++)
            place_start(&memory.q_places[i], plan::users, 1);
        for (int i = 0; i < plan::stages; i++) {
            place_start(&memory.k_places[i], plan::users, 1);
            place_start(&memory.v_places[i], plan::users, 1);
        }
        shared_writes_to_products();
    }
    __syncthreads();
    if (threadIdx.x >= plan::users * WARPGROUP) {
        registers_give<plan::registers::bringing>();
        if (threadIdx.x == plan::users * WARPGROUP)
            bring(call, memory);
    } else {
        registers_get<plan::registers::working>();
        attend(call, memory);
    }
#endif
}

int attention_forward_warpgroup_rows(int64_t head_dim)
{
    int rows = 0;
    visit_head_size<FORWARD_WARPGROUPS>(head_dim, [&](auto dim) { rows = forward_plan<dim.value>::rows; });
    return rows;
}

void attention_forward_by_warpgroups(const struct cuda_target *target, const struct attention_forward_args *args,
                                     const struct work_list *list)
{
    visit_head_size<FORWARD_WARPGROUPS>(args->head_dim, [&](auto dim) {
        using plan = forward_plan<dim.value>;
        auto map = [&](const struct tensor &x, int rows) {
            return head_map(x, args->head_dim, plan::q_tile::width, rows);
        };
        visit_mask(mask_of(args), [&](const auto &mask) {
            using MASK = std::decay_t<decltype(mask)>;
            struct forward_call<MASK> call = {
                map(args->q, plan::rows), map(args->k, plan::keys),
                    map(args->v, plan::keys), view_of<__nv_bfloat16>(args->o), view_of<float>(args->lse), *list,
                    static_cast<int>(args->heads), static_cast<int>(args->heads / args->kv_heads),
                    static_cast<int>(args->head_dim), args->scale, mask
            };
            run_items(target, forward_by_warpgroups<dim.value, MASK>, call, plan::threads, plan::resident,
                      sizeof(struct forward_memory<dim.value>));
        });
        CUDA_CHECK_LAUNCH("attention_forward by warpgroups");
    });
}
