/* Attention backward that computes scores once (attention_backward_once.cu), for heads of more than 96 columns.
 * Clusters of two blocks have 256 keys: 128 per block, 64 per warpgroup. The bottleneck is traffic between SMs and the
 * L2 cache; clusters reduce it, since both blocks loop over the same queries:
 *
 * A tile of 64 queries, q and d_o, is multicast to both blocks; each block requests half of the columns.
 *
 * The blocks alternate in computing a tile's dq over all 256 keys, which halves the additions to dq. One block sends
 * its ds to the other, which has the keys of both. A block computes a tile's dq while it works on the next tile, whose
 * ds it sends. */
#include "cuda/attention_backward_once.cuh"
#include "cuda/cluster.cuh"

struct cluster_plan : cluster_cut {
    static constexpr int users = 2, resident = 1, stages = 2;
    static constexpr bool aligned = true;
    static constexpr int rows = WARPGROUP_ROWS * users, threads = (users + 1) * WARPGROUP; /* of a block */
    using own_tile = panels<rows, dim>;
    using other_tile = panels<others, dim>;
    using ds_tile = panels<rows, others>;
    /* Registers per thread. One warp copies tiles, and needs few. */
    static constexpr int bringing = 24, working = 240;
    static_assert(cluster_cut::keys == 2 * rows, "of both blocks");
};

struct cluster_memory {
    alignas(1024) char keys[2][cluster_plan::own_tile::bytes]; /* of the cluster's first and second block */
    char values[cluster_plan::own_tile::bytes];                /* of this block */
    char other_x[cluster_plan::stages][cluster_plan::other_tile::bytes];
    char other_y[cluster_plan::stages][cluster_plan::other_tile::bytes];
    char ds[2][cluster_plan::ds_tile::bytes]; /* of both blocks' keys, for a tile whose dq this block computes */
    char sent[cluster_plan::ds_tile::bytes];  /* ds to send to the other block */
    float base[cluster_plan::stages][cluster_plan::others], delta[cluster_plan::stages][cluster_plan::others];
    struct work_item items[ITEM_SLOTS];
    int tickets[2];
    struct tile_place own_place, places[cluster_plan::stages]; /* emptied by both blocks */
    struct tile_place sums;                                    /* of ds: filled by both blocks, emptied by this one */
    uint64_t may_send;                                         /* the other block has emptied its ds */
    struct tile_place ticket_places[2];                        /* filled in the second block, emptied in the first */
};

/* Tickets, which the first block takes for both. Called by one thread of each block. */
struct cluster_tickets {
    struct turn<2> turn;
    __device__ __forceinline__ int take(struct cluster_memory &memory, const struct work_list &list, int rank)
    {
        struct tile_place *place = &memory.ticket_places[turn.at];
        int *shared = &memory.tickets[turn.at], ticket;
        if (rank == 0) {
            ticket = atomicAdd(list.tickets, 1);
            barrier_wait_passed_on(&place->emptied, turn.parity ^ 1);
            store_in_block(address_in_block(shared, 1), ticket);
            barrier_arrive_passing_on(address_in_block(&place->filled, 1));
        } else {
            barrier_wait_passed_on(&place->filled, turn.parity);
            ticket = *const_cast<volatile int *>(shared);
            barrier_arrive_passing_on(address_in_block(&place->emptied, 0));
        }
        turn.next();
        return ticket;
    }
};

/* The loop of the warp that copies tiles. */
template <typename MASK>
__device__ __forceinline__ void bring_in_cluster(const struct once_call<MASK> &call, struct cluster_memory &memory)
{
    using plan = cluster_plan;
    constexpr int row_bytes = plan::dim * static_cast<int>(sizeof(__nv_bfloat16));
    const int rank = rank_in_cluster(), lane = lane_of_thread();
    const struct once_maps &maps = call.maps;
    struct cluster_tickets tickets;
    struct turn<1> item_turn;
    struct turn<plan::stages> now;
    if (lane == 0)
        memory.items[0] = item_of(call.list, call.heads, call.share, tickets.take(memory, call.list, rank));
    for (int n = 0;; n++, item_turn.next()) {
        const struct work_item &item = memory.items[n % ITEM_SLOTS];
        __syncwarp();
        wait_emptied(&memory.own_place, item_turn);
        uint64_t *filled = &memory.own_place.filled;
        if (item.head < 0) {
            if (lane == 0)
                barrier_arrive(filled);
            return;
        }
        const struct segment &segment = item.work.segment;
        int rows = min(plan::keys, segment.kv_length - item.work.first);
        struct row_range seen = tiles_seen<plan>(seen_by(segment, true, item.work.first, rows, call.mask));
        int seeing = seen.begin < seen.end ? rows : 0; /* contents of rows that see nothing do not matter */
        int own = min(max(seeing - rank * plan::rows, 0), plan::rows);
        int own_row = segment.kv_start + item.work.first + rank * plan::rows;
        if (lane == 0)
            barrier_arrive_expecting(filled, (seeing + own) * row_bytes);
        __syncwarp();
        bring_panels<plan::rows, plan::dim, 2, true>(memory.keys[rank], maps.x, item.head, own_row, own, 0, filled);
        bring_panels<plan::rows, plan::dim, 2, false>(memory.values, maps.y, item.head, own_row, own, 0, filled);
        int first_head = item.head * call.share, tiles = tiles_of<plan>(seen), ticket = 0;
        auto take = [&] {
            if (lane == 0)
                ticket = tickets.take(memory, call.list, rank);
            __syncwarp();
        };
        struct tiles_left left_over(tiles * call.share, take);
        for (int tile = 0; tile < tiles; tile++)
            for (int head = first_head; head < first_head + call.share; head++, now.next()) {
                left_over.next(take);
                int at = seen.begin + (item.from_end ? tiles - 1 - tile : tile) * plan::others;
                int left = min(segment.q_length - at, plan::others), row = segment.q_start + at;
                wait_emptied(memory.places, now);
                filled = &memory.places[now.at].filled;
                if (lane == 0)
                    barrier_expect(filled, 2 * left * row_bytes);
                __syncwarp();
                bring_panels<plan::others, plan::dim, 1, true>(memory.other_x[now.at], maps.other_x, head, row, left,
                                                               rank, filled);
                bring_panels<plan::others, plan::dim, 1, true>(memory.other_y[now.at], maps.other_y, head, row, left,
                                                               rank, filled);
#pragma unroll
                for (int i = lane; i < plan::others; i += WARP) {
                    const float2 *of = call.statistics.row(head) + row + i;
                    copy_async<4>(&memory.base[now.at][i], &of->x, i < left);
                    copy_async<4>(&memory.delta[now.at][i], &of->y, i < left);
                }
                barrier_arrive_behind_copies(filled);
            }
        if (lane == 0)
            memory.items[(n + 1) % ITEM_SLOTS] = item_of(call.list, call.heads, call.share, ticket);
        __syncwarp();
    }
}

/* Warpgroups multiply alternately: one multiplies while the other processes scores. */
__device__ __forceinline__ void turn_begins(int warpgroup)
{
    if (warpgroup == 0)
        threads_meet<1, cluster_plan::users * WARPGROUP>();
    else
        threads_meet<2, cluster_plan::users * WARPGROUP>();
}

__device__ __forceinline__ void turn_passes(int warpgroup)
{
    if (warpgroup == 0)
        threads_arrive<2, cluster_plan::users * WARPGROUP>();
    else
        threads_arrive<1, cluster_plan::users * WARPGROUP>();
}

template <typename MASK>
__device__ __forceinline__ void differentiate_in_cluster(const struct once_call<MASK> &call,
                                                         struct cluster_memory &memory)
{
    using plan = cluster_plan;
    constexpr int DIM = plan::dim;
    const int rank = uniform(rank_in_cluster());
    int warpgroup = uniform(threadIdx.x / WARPGROUP), warp_of_group = uniform(threadIdx.x / WARP) % 4;
    struct turn<1> item_turn, fresh, sending; /* fresh: ds that stay in this block */
    struct turn<plan::stages> now;
    /* The place of this lane's matrices of ds in a tile. For each further 16 columns XOR it with 32, because chunks are
     * permuted. */
    int warp_row = warpgroup * WARPGROUP_ROWS + warp_of_group * 16;
    uint32_t ds_at = plan::ds_tile::chunk_at(warp_row + lane_of_thread() % 16, lane_of_thread() / 16);
    uint32_t ds_own = shared_address(memory.ds[rank]), ds_sent = shared_address(memory.sent);
    const struct dq_part part = dq_part_of<plan>(warpgroup * 4 + warp_of_group);
    uint64_t keys_all[2] = {plan::own_tile::described(memory.keys[0]), plan::own_tile::described(memory.keys[1])};
    uint64_t ds_all[2] = {plan::ds_tile::described(memory.ds[0]), plan::ds_tile::described(memory.ds[1])};
    int own_row = warpgroup * WARPGROUP_ROWS * plan::own_tile::row_bytes;
    uint64_t own_x = plan::own_tile::described(memory.keys[rank] + own_row);
    uint64_t own_y = plan::own_tile::described(memory.values + own_row);
    if (warpgroup == 1)
        turn_passes(warpgroup);
    for (int n = 0;; n++, item_turn.next()) {
        wait_there(&memory.own_place, item_turn);
        const struct work_item &item = memory.items[n % ITEM_SLOTS];
        if (item.head < 0)
            return;
        const struct segment &segment = item.work.segment;
        auto warp_first = [&] { return item.work.first + rank * plan::rows + warp_row; };
        int rows = min(plan::keys, segment.kv_length - item.work.first);
        /* Returns the first query that sees any key of this warpgroup. */
        auto sees_from = [&] {
            int first = item.work.first + rank * plan::rows + warpgroup * WARPGROUP_ROWS;
            return visible(segment, true, first, call.mask).begin;
        };

        float dx[DIM / 8][4] = {}, dy[DIM / 8][4] = {};
        float p[1][plan::others / 8][4], ds[plan::others / 8][4];
        struct row_range seen = tiles_seen<plan>(seen_by(segment, true, item.work.first, rows, call.mask));
        int tiles = tiles_of<plan>(seen), count = tiles * call.share, head = 0; /* head: of those with the same keys */
        int at = seen.begin + (item.from_end ? tiles - 1 : 0) * plan::others;
        auto begin_p = [&] {
            wait_there(memory.places, now);
            uint64_t other_x = plan::other_tile::described(memory.other_x[uniform(now.at)]);
            begin_product<plan>(p[0], own_x, other_x);
        };
        auto begin_ds = [&] {
            uint64_t other_y = plan::other_tile::described(memory.other_y[uniform(now.at)]);
            begin_product<plan>(ds, own_y, other_y);
        };
        uint32_t weights[plan::others / 16][4], left[plan::others / 16][4];
        /* Stores ds here (mine) or sends them to the other block. If `mine`, a warp expects the bytes that a warp of
         * the other block sends. */
        auto put_ds = [&](bool mine) {
            constexpr int bytes = 16 * plan::ds_tile::row_bytes;
            int from = warp_row * plan::ds_tile::row_bytes;
            uint32_t to = ds_at + (mine ? ds_own : ds_sent);
            barrier_wait(mine ? &memory.sums.emptied : &memory.may_send, (mine ? fresh.parity : sending.parity) ^ 1);
#pragma unroll
            for (int step = 0; step < plan::others / 16; step++)
                store_matrices(recomputed(to) ^ 32 * step, left[step]);
            shared_writes_to_products();
            __syncwarp();
            if (lane_of_thread() == 0) {
                if (mine)
                    barrier_arrive_expecting(&memory.sums.filled, bytes);
                else
                    send_to_block<bytes>(address_in_block(memory.ds[rank] + from, rank ^ 1), memory.sent + from,
                                         address_in_block(&memory.sums.filled, rank ^ 1));
            }
            if (mine)
                fresh.next();
            else
                sending.next();
        };
        auto add_keys = [&] {
            uint64_t other_x = plan::other_tile::described(memory.other_x[uniform(now.at)]);
            uint64_t other_y = plan::other_tile::described(memory.other_y[uniform(now.at)]);
            begin_adding<plan>(dx, dy, weights, left, other_x, other_y);
        };
        float dq[plan::part / 8][4];
        auto begin_dq = [&] {
            barrier_wait(&memory.sums.filled, fresh.parity ^ 1);
            products_begin();
#pragma unroll
            for (int block = 0; block < 2; block++) {
                uint64_t b = plan::own_tile::further(keys_all[block], warpgroup * plan::own_tile::panel_bytes);
#pragma unroll
                for (int step = 0; step < plan::rows / 16; step++)
                    multiply_transposed(dq, plan::ds_tile::along_rows(ds_all[block], step),
                                        plan::own_tile::along_rows(b, step), block + step > 0);
            }
            products_group();
        };
        auto end_dq = [&](const struct dq_tile &to) {
            warp_arrives_in_both(&memory.sums.emptied, &memory.may_send, rank);
            add_to_sums<plan>(call, dq, part, to);
        };

        struct dq_tile before = {};
        auto tile_at = [&]() -> struct dq_tile {
            return {(item.head * call.share + head) * call.head_stride +
                        static_cast<uint32_t>(segment.q_start + at) * DIM,
                    segment.q_length - at};
        };
        auto next = [&] {
            now.next();
            if (++head == call.share)
                head = 0, at += item.from_end ? -plan::others : plan::others;
        };
        /* Processes a tile. mine: this block computes the tile's dq; otherwise it computes the dq of the tile before.
         * sees: any of the tile's queries sees any of the warpgroup's keys. */
        auto work = [&](auto mine, auto first, auto last, auto sees) {
            constexpr bool sums = !mine.value && !first.value;
            if (sees.value) {
                begin_ds();
                make_gradients<plan>(call, segment, warp_first(), at, memory.base[now.at], memory.delta[now.at], p, ds,
                                     weights, left);
            } else {
                products_wait<0>();
                hold(p[0]);
#pragma unroll
                for (int step = 0; step < plan::others / 16; step++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        left[step][e] = 0;
            }
            put_ds(mine.value);
            turn_begins(warpgroup);
            if (sees.value)
                add_keys();
            struct dq_tile here = tile_at();
            if (sums)
                begin_dq();
            if (sees.value) {
                products_wait<sums ? 1 : 0>();
                hold(dx);
                hold(dy);
            }
            threads_arrive_in_both(&memory.places[now.at].emptied, &memory.places[now.at].emptied, rank);
            next();
            if (!last.value)
                begin_p();
            turn_passes(warpgroup);
            if (sums) {
                products_wait<last.value ? 0 : 1>();
                hold(dq);
                end_dq(before);
            }
            before = here;
        };
        constexpr constant<true> yes;
        constexpr constant<false> no;
        auto work_on = [&](auto mine, auto first, auto last) {
            if (at + plan::others > sees_from())
                work(mine, first, last, yes);
            else
                work(mine, first, last, no);
        };
        if (count > 0) {
            int left_over = count;
            begin_p();
            do {
                if (rank == 1) {
                    if (left_over == 1) {
                        work_on(no, yes, yes);
                        break;
                    }
                    work_on(no, yes, no);
                    left_over--;
                }
#pragma unroll 1
                for (; left_over > 2; left_over -= 2) {
                    work_on(yes, no, no);
                    work_on(no, no, no);
                }
                if (left_over == 2) {
                    work_on(yes, no, no);
                    work_on(no, no, yes);
                } else {
                    work_on(yes, no, yes);
                    begin_dq();
                    products_wait<0>();
                    hold(dq);
                    end_dq(before);
                }
            } while (false);
        }
        struct warp_rows own = {warp_first(), max(0, min(16, segment.kv_length - warp_first()))};
        int64_t row = static_cast<int64_t>(segment.kv_start) + own.first;
        struct angle_rows angle_rows = angle_rows_of(call.turned, row, own.count);
        threads_arrive_in_both(&memory.own_place.emptied, &memory.own_place.emptied, rank);

        struct angles<DIM / 16> angles = angles_at<DIM / 16>(call.turned, angle_rows, 0);
        store_gradient(dy, 1.0f, call.dy, row, item.head * call.dim, own.count, call.dim);
        turn_back(dx, call.turned, angles);
        store_gradient(dx, call.scale, call.dx, row, item.head * call.dim, own.count, call.dim);
    }
}

template <typename MASK>
IN_CLUSTERS __global__ static void __launch_bounds__(cluster_plan::threads, cluster_plan::resident)
    backward_by_clusters(const __grid_constant__ struct once_call<MASK> call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using plan = cluster_plan;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct cluster_memory *>(shared);
    if (threadIdx.x == 0) {
        constexpr int warps = plan::users * WARPGROUP / WARP, releasers = plan::users * WARPGROUP + warps;
        place_start(&memory.own_place, 1, 1, releasers);
        for (int i = 0; i < plan::stages; i++)
            place_start(&memory.places[i], 1, WARP, releasers);
        place_start(&memory.sums, 1, warps, warps);
        barrier_start(&memory.may_send, warps);
        for (int i = 0; i < 2; i++)
            place_start(&memory.ticket_places[i], 1, 1, 1);
        barriers_started();
    }
    /* Rows after a segment's last do not contribute as long as they are finite. They are zeros at first, and later rows
     * of an earlier tile. */
    constexpr int bytes = offsetof(struct cluster_memory, ds);
    for (int i = threadIdx.x * 16; i < bytes; i += plan::threads * 16)
        *reinterpret_cast<uint4 *>(shared + i) = uint4();
    shared_writes_to_products();
    __syncthreads();
    cluster_meets();
    if (threadIdx.x >= plan::users * WARPGROUP) {
        registers_give<plan::bringing>();
        if (threadIdx.x < plan::users * WARPGROUP + WARP)
            bring_in_cluster(call, memory);
    } else {
        registers_get<plan::working>();
        differentiate_in_cluster(call, memory);
    }
    __syncwarp();
    cluster_meets(); /* no block may access the memory of a block that has ended */
#endif
}

template <typename MASK>
static void run_clusters(const struct cuda_target *target, const struct attention_backward_args *args,
                         struct once_call<MASK> call)
{
    using plan = cluster_plan;
    constexpr int shared = sizeof(struct cluster_memory);
    static_assert(shared <= 232448, "what a block may have");
    auto maps = [&](const struct tensor &x, int rows) { return head_maps(x, call.dim, plan::own_tile::width, rows); };
    call.maps = {maps(args->k, plan::rows), maps(args->v, plan::rows), maps(args->q, plan::others),
                 maps(args->d_o, plan::others)};
    int64_t most = attention_tickets(call.list, call.heads), held = target->multiprocessors / 2;
    if (most == 0)
        return;
    CUDA_CHECK(cudaFuncSetAttribute(backward_by_clusters<MASK>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    int clusters = static_cast<int>(most < held ? most : held);
    call.list.workers = call.mask.causal ? clusters : 0;
    unsigned blocks = static_cast<unsigned>(2 * clusters);
    backward_by_clusters<MASK><<<blocks, plan::threads, shared, target->stream>>>(call);
    CUDA_CHECK_LAUNCH("attention_backward with scores once, by clusters");
}

void attention_backward_by_clusters(const struct cuda_target *target, const struct attention_backward_args *args,
                                    const struct once_call<struct attention_mask> &call)
{
    run_clusters(target, args, call);
}

void attention_backward_by_clusters(const struct cuda_target *target, const struct attention_backward_args *args,
                                    const struct once_call<struct plain_mask> &call)
{
    run_clusters(target, args, call);
}
