/* Attention backward by warpgroups that computes scores once. It is the pass over keys of
 * attention_backward_warpgroup.cu, which here also adds each tile's contribution to dq. Several blocks add to a row of
 * dq, in any order, so dq is summed in f32 in scratch and rounded afterwards.
 *
 * A warpgroup has 64 keys. A row of dq sums over the keys of both warpgroups, so ds, [keys, queries], passes through
 * shared memory. Each warpgroup computes a part of a tile's dq, 64 rows of at most 64 columns, one tile later, when it
 * need not wait for the other warpgroup.
 *
 * For heads of at most 96 columns; wider ones use clusters of blocks (attention_backward_cluster.cu). */
#include "cuda/attention_backward_once.cuh"
#include "cuda/attention_own.h"

template <int DIM> struct once_plan {
    static constexpr int dim = DIM, users = 2, others = DIM > 64 ? 64 : 128, resident = 1;
    static constexpr int room = DIM > 64 ? 128 : DIM; /* columns of a tile, of which GEMMs over heads read DIM */
    static constexpr int part = DIM < 64 ? DIM : 64;  /* columns of dq per warpgroup */
    static constexpr bool of_keys = true, aligned = true;
    /* Whether TMA copies tiles, started by one warp, or the threads of a warpgroup copy them: the faster of the two. */
    static constexpr bool by_engine = DIM >= 64;
    static constexpr int bringers = by_engine ? +WARP : +WARPGROUP;
    static constexpr int stages = DIM == 64 ? 2 : 3, own_places = DIM > 64 ? 1 : 2; /* limited by shared memory */
    static constexpr int rows = WARPGROUP_ROWS * users, threads = (users + 1) * WARPGROUP;
    using own_tile = panels<rows, room>;
    using other_tile = panels<others, room>;
    using ds_tile = panels<rows, others>;
    using registers = warpgroup_registers<users, resident>;
};

template <typename PLAN> struct once_memory {
    struct backward_memory<PLAN> tiles;
    alignas(1024) char ds[2][PLAN::ds_tile::bytes];
    struct tile_place ds_places[2];
};

/* Waits until products may read the tile. */
template <typename plan, int PLACES>
__device__ __forceinline__ void wait_brought(struct tile_place *places, const struct turn<PLACES> &turn)
{
    if constexpr (plan::by_engine)
        wait_there(places, turn);
    else
        wait_filled(places, turn);
}

template <typename plan, typename MASK>
__device__ __forceinline__ void differentiate_once(const struct once_call<MASK> &once, struct once_memory<plan> &memory)
{
    constexpr int DIM = plan::dim;
    const backward_call<MASK> &call = once;
    struct backward_memory<plan> &tiles = memory.tiles;
    int warpgroup = uniform(threadIdx.x / WARPGROUP), warp_of_group = uniform(threadIdx.x / WARP) % 4;
    struct turn<plan::own_places> item_turn;
    struct turn<plan::stages> now;
    struct turn<2> fresh, ripe; /* ds: written, and read */
    /* The place of this lane's matrices of ds in a tile. */
    int ds_row = warpgroup * WARPGROUP_ROWS + warp_of_group * 16 + lane_of_thread() % 16;
    int ds_half = lane_of_thread() / 16;
    const struct dq_part part = dq_part_of<plan>(warpgroup * 4 + warp_of_group);
    for (int n = 0;; n++, item_turn.next()) {
        wait_brought<plan>(tiles.own_places, item_turn);
        const struct work_item &item = tiles.items[n % ITEM_SLOTS];
        if (item.head < 0)
            return;
        const struct segment &segment = item.work.segment;
        int own_at = uniform(item_turn.at), own_row = warpgroup * WARPGROUP_ROWS * plan::own_tile::row_bytes;
        uint64_t keys_all = plan::own_tile::described(tiles.own_x[own_at]);
        uint64_t own_x = plan::own_tile::described(tiles.own_x[own_at] + own_row);
        uint64_t own_y = plan::own_tile::described(tiles.own_y[own_at] + own_row);
        auto warp = [&] { return rows_of_warp(item.work, segment.kv_length, 16); };
        int rows = min(plan::rows, segment.kv_length - item.work.first);
        bool full = rows > WARPGROUP_ROWS, idle = !full && warpgroup > 0;

        float dx[DIM / 8][4] = {}, dy[DIM / 8][4] = {};
        float p[1][plan::others / 8][4], ds[plan::others / 8][4];
        auto begin_p = [&] {
            wait_brought<plan>(tiles.places, now);
            uint64_t other_x = plan::other_tile::described(tiles.other_x[uniform(now.at)]);
            begin_product<plan>(p[0], own_x, other_x);
        };
        auto begin_ds = [&] {
            uint64_t other_y = plan::other_tile::described(tiles.other_y[uniform(now.at)]);
            begin_product<plan>(ds, own_y, other_y);
        };
        uint32_t weights[plan::others / 16][4], left[plan::others / 16][4];
        auto put_ds = [&] {
            wait_emptied(memory.ds_places, fresh);
            if (!idle) {
#pragma unroll
                for (int step = 0; step < plan::others / 16; step++)
                    store_matrices(
                        shared_address(memory.ds[fresh.at] + plan::ds_tile::chunk_at(ds_row, 2 * step + ds_half)),
                        left[step]);
                shared_writes_to_products();
            }
            warp_arrives(&memory.ds_places[fresh.at].filled);
            fresh.next();
        };
        auto add_keys = [&] {
            uint64_t other_x = plan::other_tile::described(tiles.other_x[uniform(now.at)]);
            uint64_t other_y = plan::other_tile::described(tiles.other_y[uniform(now.at)]);
            begin_adding<plan>(dx, dy, weights, left, other_x, other_y);
        };
        float dq[plan::part / 8][4];
        auto begin_dq = [&] {
            barrier_wait(&memory.ds_places[ripe.at].filled, ripe.parity);
            uint64_t a = plan::ds_tile::described(memory.ds[uniform(ripe.at)] +
                                                  (plan::others > 64 ? warpgroup * plan::ds_tile::panel_bytes : 0));
            uint64_t b =
                plan::own_tile::further(keys_all, plan::others > 64 ? 0 : warpgroup * plan::own_tile::panel_bytes);
            auto sum_over = [&](auto keys) {
                products_begin();
#pragma unroll
                for (int step = 0; step < keys.value / 16; step++)
                    multiply_transposed(dq, plan::ds_tile::along_rows(a, step), plan::own_tile::along_rows(b, step),
                                        step > 0);
                products_group();
            };
            if (full)
                sum_over(constant<plan::rows>());
            else
                sum_over(constant<WARPGROUP_ROWS>());
        };
        auto end_dq = [&](const struct dq_tile &to) {
            warp_arrives(&memory.ds_places[ripe.at].emptied);
            ripe.next();
            add_to_sums<plan>(once, dq, part, to);
        };

        struct row_range seen = tiles_seen<plan>(seen_by(segment, true, item.work.first, rows, call.mask));
        int per_head = tiles_of<plan>(seen), count = per_head * call.share;
        int head = item.head * call.share, at = seen.begin, of_head = 0;
        struct dq_tile before = {};
        auto tile_at = [&]() -> struct dq_tile {
            return {head * once.head_stride + static_cast<uint32_t>(segment.q_start + at) * plan::room,
                    segment.q_length - at};
        };
        auto next = [&] {
            now.next();
            at += plan::others;
            if (at >= seen.end)
                at = seen.begin;
            if (++of_head == per_head)
                of_head = 0, head++;
        };
        /* Processes a tile, except for its dq, and computes the dq of the tile before. */
        auto work_on = [&](auto first, auto last) {
            begin_ds();
            make_gradients<plan>(call, segment, warp().first, at, tiles.base[now.at], tiles.delta[now.at], p, ds,
                                 weights, left);
            put_ds();
            add_keys();
            struct dq_tile here = tile_at();
            if (!first.value)
                begin_dq();
            products_wait<first.value ? 0 : 1>();
            hold(dx);
            hold(dy);
            barrier_arrive(&tiles.places[now.at].emptied);
            next();
            if (!last.value)
                begin_p();
            if (!first.value) {
                products_wait<last.value ? 0 : 1>();
                hold(dq);
                end_dq(before);
            }
            before = here;
        };
        /* As work_on, for a warpgroup without keys, which only computes its part of dq. */
        auto look_on = [&](bool first) {
            wait_brought<plan>(tiles.places, now);
            put_ds();
            if (!first) {
                begin_dq();
                products_wait<0>();
                hold(dq);
                end_dq(before);
            }
            barrier_arrive(&tiles.places[now.at].emptied);
            before = tile_at();
            next();
        };
        constexpr constant<true> yes;
        constexpr constant<false> no;
        if (idle) {
#pragma unroll 1
            for (int tile = 0; tile < count; tile++)
                look_on(tile == 0);
        } else if (count > 0) {
            int tile = 0;
            begin_p();
            if (count > 1) {
                work_on(yes, no);
                tile++;
            }
#pragma unroll 1
            for (; tile < count - 1; tile++)
                work_on(no, no);
            if (count > 1)
                work_on(no, yes);
            else
                work_on(yes, yes);
        }
        struct warp_rows mine = warp();
        int64_t row = static_cast<int64_t>(segment.kv_start) + mine.first;
        struct angle_rows angle_rows = angle_rows_of(call.turned, row, mine.count);
        if (count > 0) {
            begin_dq();
            products_wait<0>();
            hold(dq);
            end_dq(before);
        }
        warp_arrives(&tiles.own_places[item_turn.at].emptied);

        struct angles<DIM / 16> angles = angles_at<DIM / 16>(call.turned, angle_rows, 0);
        store_gradient(dy, 1.0f, call.dy, row, item.head * call.dim, mine.count, call.dim);
        turn_back(dx, call.turned, angles);
        store_gradient(dx, call.scale, call.dx, row, item.head * call.dim, mine.count, call.dim);
    }
}

template <typename plan, typename MASK>
__global__ static void __launch_bounds__(plan::threads, plan::resident)
    backward_once(const __grid_constant__ struct once_call<MASK> call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct once_memory<plan> *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < plan::own_places; i++)
            place_start(&memory.tiles.own_places[i], plan::users, plan::bringers + 1);
        for (int i = 0; i < plan::stages; i++)
            place_start(&memory.tiles.places[i], plan::users, plan::bringers, WARPGROUP);
        for (int i = 0; i < 2; i++)
            place_start(&memory.ds_places[i], plan::users, plan::users * WARPGROUP / WARP);
    }
    if constexpr (plan::by_engine) {
        /* Rows after a segment's last do not contribute as long as they are finite. They are zeros at first, and later
         * rows of an earlier tile. */
        constexpr int bytes = offsetof(struct backward_memory<plan>, base);
        for (int i = threadIdx.x * 16; i < bytes; i += plan::threads * 16)
            *reinterpret_cast<uint4 *>(shared + i) = uint4();
        shared_writes_to_products();
    }
    __syncthreads();
    if (threadIdx.x >= plan::users * WARPGROUP) {
        registers_give<plan::registers::bringing>();
        if constexpr (!plan::by_engine)
            bring<plan, MASK>(call, call, memory.tiles);
        else if (threadIdx.x < plan::users * WARPGROUP + plan::bringers)
            bring<plan, MASK>(call, call.maps, memory.tiles);
    } else {
        registers_get<plan::registers::working>();
        differentiate_once(call, memory);
    }
#endif
}

/* Arguments for dq = scale * sums, or dq += scale * sums. A block for each tile of queries and head. */
struct rounding_call {
    struct work_list queries;
    float *sums;
    uint32_t head_stride;
    struct gradient<__nv_bfloat16> dq;
    int heads, dim;
    float scale;
    struct rope_rotation turned;
};

/* A warp has the same columns of both halves of a head, or all columns: rope's pairs belong to one thread. */
template <typename plan> __global__ static void __launch_bounds__(256) round_dq(const struct rounding_call call)
{
    int index = blockIdx.x / call.heads, head = blockIdx.x % call.heads;
    if (index >= call.queries.totals->items)
        return;
    const struct tile_work work = call.queries.items[index];
    int64_t row = static_cast<int64_t>(work.segment.q_start) + work.first;
    const struct dq_tile tile = {static_cast<uint32_t>(head * call.head_stride + row * plan::room),
                                 work.segment.q_length - work.first};
    constexpr int tiles = plan::part / 8, groups = plan::part / DQ_GROUP;
    const int warp = threadIdx.x / WARP;
    float sum[tiles][4] = {};
    using half_of_sum = float(&)[tiles / 2][4];
    half_of_sum low = reinterpret_cast<half_of_sum>(sum[0]), high = reinterpret_cast<half_of_sum>(sum[tiles / 2]);
    auto load = [&](auto count, auto to, const struct dq_part &part) {
        for_each_four<plan, count.value>(
            call.sums, part, tile, call.dim, [&](int half, int group, const float *at, bool real) {
                if (!real)
                    return;
                float4 four = *reinterpret_cast<const float4 *>(at);
                float(&a)[4] = sum[to.value + 2 * group], (&b)[4] = sum[to.value + 2 * group + 1];
                a[2 * half] = four.x, a[2 * half + 1] = four.y;
                b[2 * half] = four.z, b[2 * half + 1] = four.w;
            });
    };
    auto store = [&](const auto &columns, const struct dq_part &part) {
        store_gradient(columns, call.scale, call.dq, row + part.row, head * call.dim + part.col, tile.rows - part.row,
                       call.dim - part.col);
    };
    if constexpr (plan::room == plan::part) {
        const struct dq_part all = dq_part_of<plan>(warp);
        const struct angle_rows angle_rows = angle_rows_of(call.turned, row + all.row, tile.rows - all.row);
        load(constant<groups>(), constant<0>(), all);
        turn_back(sum, call.turned, angles_at<tiles / 2>(call.turned, angle_rows, 0));
        store(sum, all);
    } else {
        const int four = warp % 4, from = warp / 4 * groups / 2;
        const struct dq_part first = from_group(dq_part_of<plan>(four), from);
        const struct dq_part second = from_group(dq_part_of<plan>(four + 4), from);
        const struct angle_rows angle_rows = angle_rows_of(call.turned, row + first.row, tile.rows - first.row);
        load(constant<groups / 2>(), constant<0>(), first);
        load(constant<groups / 2>(), constant<tiles / 2>(), second);
        turn_back(low, high, call.turned, angles_at<tiles / 2>(call.turned, angle_rows, first.col));
        store(low, first);
        store(high, second);
    }
}

static int room_of(int64_t head_dim)
{
    int room = 0;
    visit_head_size<BACKWARD_ONCE>(head_dim, [&](auto dim) { room = once_plan<dim.value>::room; });
    return room;
}

int64_t attention_backward_once_sums(const struct attention_backward_args *args)
{
    return args->q.rows * args->heads * room_of(args->head_dim) * static_cast<int64_t>(sizeof(float));
}

int attention_backward_once_rows(int64_t head_dim, bool keys)
{
    int rows = 0;
    visit_head_size<BACKWARD_ONCE>(head_dim, [&](auto dim) {
        if constexpr (dim.value == cluster_cut::dim)
            rows = keys ? cluster_cut::keys : cluster_cut::others;
        else
            rows = keys ? once_plan<dim.value>::rows : once_plan<dim.value>::others;
    });
    return rows;
}

/* The sum of two numbers has one order. Clusters process the queries of causal segments in an order that depends on all
 * segments. */
bool cuda_own_attention_backward_once_repeats(const struct attention_backward_args *args)
{
    const struct attention_segments &s = args->segments;
    bool by_clusters = false;
    visit_head_size<BACKWARD_ONCE>(args->head_dim, [&](auto dim) { by_clusters = dim.value == cluster_cut::dim; });
    return !(by_clusters && args->causal) && s.kv_length.data == s.q_length.data && s.longest > 0 &&
           s.longest <= 2 * attention_backward_once_rows(args->head_dim, true);
}

template <typename MASK>
static void run_once(const struct cuda_target *target, const struct attention_backward_args *args, const MASK &mask,
                     const struct work_list *queries, const struct work_list *keys, float2 *statistics, float *sums,
                     const struct rope_rotation &turned)
{
    using T = __nv_bfloat16;
    int dim = static_cast<int>(args->head_dim);
    int heads = static_cast<int>(args->heads), kv_heads = static_cast<int>(args->kv_heads);
    struct view<float2> of_queries = {
        statistics, args->heads, args->q.rows, args->q.rows
    };
    struct once_call<MASK> call = {
        {view_of<const T>(args->k),
         view_of<const T>(args->v),
         view_of<const T>(args->q),
         view_of<const T>(args->d_o),
         gradient_of<T>(args->dk, DTYPE_BF16, args->accumulate_kv),
         gradient_of<T>(args->dv, DTYPE_BF16, args->accumulate_kv),
         of_queries,
         *keys,
         kv_heads,
         heads / kv_heads,
         dim,
         args->scale,
         mask,
         turned},
            {}, sums, static_cast<uint32_t>(args->q.rows *room_of(dim))
    };
    CUDA_CHECK(cudaMemsetAsync(sums, 0, static_cast<size_t>(attention_backward_once_sums(args)), target->stream));
    struct gradient<T> dq = gradient_of<T>(args->dq, DTYPE_BF16, args->accumulate_q);
    struct rounding_call rounding = {*queries, sums, call.head_stride, dq, heads, dim, args->scale, turned};
    unsigned blocks = static_cast<unsigned>(attention_tickets(*queries, heads));
    visit_head_size<BACKWARD_ONCE>(dim, [&](auto padded_dim) {
        if constexpr (padded_dim.value == cluster_cut::dim) {
            attention_backward_by_clusters(target, args, call);
            if (blocks > 0)
                round_dq<cluster_cut><<<blocks, 256, 0, target->stream>>>(rounding);
        } else {
            using plan = once_plan<padded_dim.value>;
            constexpr int shared = sizeof(struct once_memory<plan>);
            static_assert(shared <= 232448, "what a block may have");
            if constexpr (plan::by_engine) {
                auto maps = [&](const struct tensor &x, int rows) {
                    return head_maps(x, dim, plan::own_tile::width, rows);
                };
                call.maps = {maps(args->k, plan::rows), maps(args->v, plan::rows), maps(args->q, plan::others),
                             maps(args->d_o, plan::others)};
            }
            run_items(target, backward_once<plan, MASK>, call, plan::threads, plan::resident, shared);
            CUDA_CHECK_LAUNCH("attention_backward with scores once");
            if (blocks > 0)
                round_dq<plan><<<blocks, 256, 0, target->stream>>>(rounding);
        }
    });
    CUDA_CHECK_LAUNCH("attention_backward's dq rounded");
}

void attention_backward_once(const struct cuda_target *target, const struct attention_backward_args *args,
                             const struct work_list *queries, const struct work_list *keys, float2 *statistics,
                             float *sums, const struct rope_rotation &turned)
{
    visit_mask(mask_of(args),
               [&](const auto &mask) { run_once(target, args, mask, queries, keys, statistics, sums, turned); });
}
