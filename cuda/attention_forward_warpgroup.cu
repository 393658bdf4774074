/* Attention forward by warpgroups: while the tensor cores weigh one tile's values, the scores of the next become
 * probabilities. */
#include "cuda/attention_warpgroup.cuh"

#ifndef TRY_WARPGROUPS
#define TRY_WARPGROUPS (DIM == 128 ? 2 : 3)
#endif
#ifndef TRY_KEYS
#define TRY_KEYS 128
#endif
#ifndef TRY_STAGES
#define TRY_STAGES 3
#endif
#ifndef TRY_QPLACES
#define TRY_QPLACES (DIM == 128 ? 1 : 2)
#endif
#ifndef TRY_RESIDENT
#define TRY_RESIDENT 1
#endif

/* How the work is cut. */
template <int DIM> struct forward_cut {
    static constexpr int users = TRY_WARPGROUPS, keys = TRY_KEYS, stages = TRY_STAGES, resident = TRY_RESIDENT;
    static constexpr int q_places = TRY_QPLACES;
    static constexpr int rows = WARPGROUP_ROWS * users, threads = (users + 1) * WARPGROUP;
    using q_tile = panels<rows, DIM>;
    using kv_tile = panels<keys, DIM>;
    using registers = warpgroup_registers<users, resident>;
};

template <int DIM> struct forward_memory {
    using cut = forward_cut<DIM>;
    char q[cut::q_places][cut::q_tile::bytes], k[cut::stages][cut::kv_tile::bytes], v[cut::stages][cut::kv_tile::bytes];
    struct item items[ITEM_SLOTS];
    struct place q_places[cut::q_places], k_places[cut::stages], v_places[cut::stages];
};

struct forward_job {
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
    constexpr int keys = forward_cut<DIM>::keys;
    return count > 0 ? (visible(segment, false, first + count - 1, causal).end + keys - 1) / keys : 0;
}

/* The last warpgroup. */
template <int DIM>
__device__ __forceinline__ void bring(const struct forward_job &job, struct forward_memory<DIM> &memory)
{
    using cut = forward_cut<DIM>;
    struct delivery delivery;
    struct turn<cut::q_places> item_turn;
    struct turn<cut::stages> now;
    bool first_thread = threadIdx.x == (cut::threads - WARPGROUP);
    if (first_thread)
        take_ticket(job.list, job.heads, job.share, &memory.items[0]);
    for (int n = 0;; n++, item_turn.next()) {
        const struct item &item = memory.items[n % ITEM_SLOTS];
        threads_meet<1, WARPGROUP>();
        delivery.wait_for(memory.q_places, item_turn);
        if (item.head < 0) {
            delivery.follow(&memory.q_places[item_turn.at].filled);
            delivery.end();
            return;
        }
        const struct segment &segment = item.work.segment;
        int rows = min(cut::rows, segment.q_length - item.work.first);
        bring_tile<cut::rows, DIM>(
            memory.q[item_turn.at], job.q.row(static_cast<int64_t>(segment.q_start) + item.work.first) + item.head * job.dim,
            job.q.stride, rows, job.dim);
        delivery.follow(&memory.q_places[item_turn.at].filled);
        int tiles = tiles_seen<DIM>(segment, item.work.first, rows, job.causal);
        for (int tile = 0; tile < tiles; tile++, now.next()) {
            int key = tile * cut::keys, left = segment.kv_length - key, column = item.other * job.dim;
            int64_t row = static_cast<int64_t>(segment.kv_start) + key;
            delivery.wait_for(memory.k_places, now);
            bring_tile<cut::keys, DIM>(memory.k[now.at], job.k.row(row) + column, job.k.stride, left, job.dim);
            delivery.follow(&memory.k_places[now.at].filled);
            delivery.wait_for(memory.v_places, now);
            bring_tile<cut::keys, DIM>(memory.v[now.at], job.v.row(row) + column, job.v.stride, left, job.dim);
            delivery.follow(&memory.v_places[now.at].filled);
        }
        if (first_thread)
            take_ticket(job.list, job.heads, job.share, &memory.items[(n + 1) % ITEM_SLOTS]);
        delivery.end();
    }
}

/* The others. */
template <int DIM>
__device__ __forceinline__ void attend(const struct forward_job &job, struct forward_memory<DIM> &memory)
{
    using cut = forward_cut<DIM>;
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    float scale_log2 = job.scale * static_cast<float>(M_LOG2E);
    struct turn<cut::q_places> item_turn;
    struct turn<cut::stages> now; /* of keys; the values' is one tile behind */
    for (int n = 0;; n++, item_turn.next()) {
        barrier_wait(&memory.q_places[item_turn.at].filled, item_turn.parity);
        const struct item &item = memory.items[n % ITEM_SLOTS];
        if (item.head < 0)
            return;
        const struct segment &segment = item.work.segment;
        int first = item.work.first + warpgroup * WARPGROUP_ROWS;
        int all = tiles_seen<DIM>(segment, item.work.first, min(cut::rows, segment.q_length - item.work.first),
                                  job.causal);
        int own = tiles_seen<DIM>(segment, first, min(WARPGROUP_ROWS, segment.q_length - first), job.causal);
        uint64_t q_tile = cut::q_tile::described(memory.q[uniform(item_turn.at)] +
                                                 warpgroup * WARPGROUP_ROWS * cut::q_tile::row_bytes);
        auto warp = [&] { return rows_of_warp(item.work, segment.q_length, 16); };

        float o[1][DIM / 8][4] = {}, largest[1][2] = {-INFINITY, -INFINITY}, sum[1][2] = {};
        float s[1][cut::keys / 8][4], change[1][2];
        uint32_t p[cut::keys / 16][4];
        auto score = [&] {
            barrier_wait(&memory.k_places[now.at].filled, now.parity);
            uint64_t k_tile = cut::kv_tile::described(memory.k[uniform(now.at)]);
            products_begin();
#pragma unroll
            for (int step = 0; step < DIM / 16; step++)
                multiply(s[0], cut::q_tile::along_columns(q_tile, step), cut::kv_tile::along_columns(k_tile, step),
                         step > 0);
            products_group();
        };
        auto mask_and_weigh = [&](int tile) {
            int key = tile * cut::keys;
            if (key + cut::keys > visible(segment, false, warp().first, job.causal).end)
                hide(s, segment, false, warp().first, key, job.causal);
            weigh(s, scale_log2, largest, sum, change);
        };
        auto add_values = [&](const struct turn<cut::stages> &of) {
            barrier_wait(&memory.v_places[of.at].filled, of.parity);
            uint64_t v_tile = cut::kv_tile::described(memory.v[uniform(of.at)]);
            products_begin();
#pragma unroll
            for (int step = 0; step < cut::keys / 16; step++)
                multiply_weighted(o[0], p[step], cut::kv_tile::along_rows(v_tile, step));
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
            struct turn<cut::stages> before = now;
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
            barrier_wait(&memory.k_places[now.at].filled, now.parity);
            warp_arrives(&memory.k_places[now.at].emptied);
            barrier_wait(&memory.v_places[now.at].filled, now.parity);
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
                job.lse.row(item.head)[row + r] =
                    total == 0.0f ? 0.0f : largest[0][half] * job.scale + logf(total);
        }
        store_accumulator(o[0], factor, job.o.row(row) + item.head * job.dim, job.o.stride, rows.count, job.dim);
    }
}

template <int DIM>
__global__ static void __launch_bounds__(forward_cut<DIM>::threads, forward_cut<DIM>::resident)
    forward(const __grid_constant__ struct forward_job job)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using cut = forward_cut<DIM>;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct forward_memory<DIM> *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < cut::q_places; i++)
            place_start(&memory.q_places[i], cut::users);
        for (int i = 0; i < cut::stages; i++) {
            place_start(&memory.k_places[i], cut::users);
            place_start(&memory.v_places[i], cut::users);
        }
    }
    __syncthreads();
    if (threadIdx.x >= cut::users * WARPGROUP) {
        registers_give<cut::registers::bringing>();
        bring<DIM>(job, memory);
    } else {
        registers_get<cut::registers::working>();
        attend<DIM>(job, memory);
    }
#endif
}

int attention_forward_warpgroup_rows(int64_t head_dim)
{
    int rows = 0;
    visit_warpgroup_dim(head_dim, [&](auto dim) { rows = forward_cut<dim.value>::rows; });
    return rows;
}

void attention_forward_by_warpgroups(const struct cuda_target *target, const struct attention_forward_args *args,
                                     const struct work_list *list)
{
    struct forward_job job = {
        view_of<const __nv_bfloat16>(args->q), view_of<const __nv_bfloat16>(args->k),
            view_of<const __nv_bfloat16>(args->v), view_of<__nv_bfloat16>(args->o), view_of<float>(args->lse), *list,
            static_cast<int>(args->heads), static_cast<int>(args->heads / args->kv_heads),
            static_cast<int>(args->head_dim), args->scale, args->causal
    };
    visit_warpgroup_dim(args->head_dim, [&](auto dim) {
        using cut = forward_cut<dim.value>;
        run_items(target, forward<dim.value>, job, cut::threads, cut::resident,
                  sizeof(struct forward_memory<dim.value>));
        CUDA_CHECK_LAUNCH("attention_forward by warpgroups");
    });
}
