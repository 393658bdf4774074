/* Shared by the warpgroup kernels of attention backward: the warpgroup that copies tiles, and storing gradients. A
 * block keeps a tile of its own side, x and y (queries: q and d_o; keys: k and v), and loops over tiles of the other
 * side. */
#ifndef CUDA_ATTENTION_BACKWARD_CUH
#define CUDA_ATTENTION_BACKWARD_CUH

#include "cuda/attention_warpgroup.cuh"

template <typename PLAN> struct backward_memory {
    char own_x[PLAN::own_places][PLAN::own_tile::bytes], own_y[PLAN::own_places][PLAN::own_tile::bytes];
    char other_x[PLAN::stages][PLAN::other_tile::bytes], other_y[PLAN::stages][PLAN::other_tile::bytes];
    float base[PLAN::stages][PLAN::others],
        delta[PLAN::stages][PLAN::others]; /* of queries, if the block's side is keys */
    struct work_item items[ITEM_SLOTS];
    struct tile_place own_places[PLAN::own_places], places[PLAN::stages];
};

template <typename MASK> using backward_call = struct backward_job<__nv_bfloat16, MASK>;

/* Returns what rows first .. first + count - 1 see. */
template <typename MASK>
__device__ __forceinline__ struct row_range seen_by(const struct segment &segment, bool keys, int first, int count,
                                                    const MASK &mask)
{
    return count > 0 ? visible(segment, keys, first, first + count - 1, mask) : row_range{0, 0};
}

/* Returns `seen`, from a tile's beginning on if plan::aligned, when all items have the same tiles. */
template <typename plan> __device__ __forceinline__ struct row_range tiles_seen(const struct row_range &seen)
{
    if constexpr (plan::aligned)
        return {seen.begin / plan::others * plan::others, seen.end};
    return seen;
}

template <typename plan> __device__ __forceinline__ int tiles_of(const struct row_range &seen)
{
    return (max(seen.end - seen.begin, 0) + plan::others - 1) / plan::others;
}

/* The rope table's rows for a lane's two rows; the warp has `rows` rows, from row `row` of the tensor on. Request them
 * well before the angles, and the angles well before their use: each is a memory access with its full latency. */
struct angle_rows {
    const float *of[2];
};

__device__ __forceinline__ struct angle_rows angle_rows_of(const struct rope_rotation &turned, int64_t row, int rows)
{
    struct angle_rows at = {};
    if (turned.positions == nullptr)
        return at;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int of_warp = 8 * half + fragment_row();
        at.of[half] = turned.table.row(of_warp < rows ? turned.positions[row + of_warp] : 0);
    }
    return at;
}

/* Angles of the pairs that a lane has in two rows of 8 TILES columns of a head's first half and 8 TILES of its second:
 * two pairs per tile. */
template <int TILES> struct angles {
    float2 cosine[2][TILES], sine[2][TILES];
};

/* Loads the angles from column `col` of each half on. */
template <int TILES>
__device__ __forceinline__ struct angles<TILES> angles_at(const struct rope_rotation &turned,
                                                          const struct angle_rows &rows, int col) {
    struct angles<TILES> angles = {
    };
    if (turned.positions == nullptr)
        return angles;
    int first = turned.interleaved ? (col + fragment_col()) / 2 : col + fragment_col();
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            auto load = [&](const float *at) {
                if (turned.interleaved)
                    return make_float2(at[4 * j], at[4 * j + turned.pairs / 2]);
                return *reinterpret_cast<const float2 *>(at + 8 * j);
            };
            angles.cosine[half][j] = load(rows.of[half] + first);
            angles.sine[half][j] = load(rows.of[half] + turned.pairs + first);
        }
    return angles;
}

/* Applies the inverse rope to rows of a gradient. low: columns of a head's first half; high: columns of its second
 * half. */
template <int TILES>
__device__ __forceinline__ void turn_back(float (&low)[TILES][4], float (&high)[TILES][4],
                                          const struct rope_rotation &turned, const struct angles<TILES> &angles)
{
    if (turned.positions == nullptr)
        return;
    auto turn = [](float &x, float &y, float cosine, float sine) {
        float before = x;
        x = before * cosine + y * sine;
        y = y * cosine - before * sine;
    };
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            float2 cosine = angles.cosine[half][j], sine = angles.sine[half][j];
            float &a = low[j][2 * half], &b = low[j][2 * half + 1], &c = high[j][2 * half], &d = high[j][2 * half + 1];
            if (turned.interleaved) {
                turn(a, b, cosine.x, sine.x);
                turn(c, d, cosine.y, sine.y);
            } else {
                turn(a, c, cosine.x, sine.x);
                turn(b, d, cosine.y, sine.y);
            }
        }
}

/* Applies the inverse rope to all columns of a head. */
template <int TILES>
__device__ __forceinline__ void turn_back(float (&sum)[TILES][4], const struct rope_rotation &turned,
                                          const struct angles<TILES / 2> &angles)
{
    using half = float(&)[TILES / 2][4];
    turn_back(reinterpret_cast<half>(sum[0]), reinterpret_cast<half>(sum[TILES / 2]), turned, angles);
}

/* Stores a warp's rows of a gradient, times factor, from row `row` and column `col` of the tensor on. */
template <int TILES>
__device__ __forceinline__ void store_gradient(const float (&sum)[TILES][4], float factor,
                                               const struct gradient<__nv_bfloat16> &to, int64_t row, int col, int rows,
                                               int cols)
{
    const float factors[2] = {factor, factor};
    if (to.wide.data == nullptr)
        store_accumulator(sum, factors, to.narrow.row(row) + col, to.narrow.stride, rows, cols);
    else
        store_wide(sum, factor, to.wide.row(row) + col, to.wide.stride, rows, cols, to.accumulate);
}

/* Copies rows of a head to a tile, with zeros after them. Called by all threads of a warpgroup. */
template <int ROWS, int DIM>
__device__ __forceinline__ void bring_part(char *tile, const struct view<const __nv_bfloat16> &from, int head,
                                           int64_t row, int rows, int dim, uint64_t * /* filled */)
{
    bring_tile<ROWS, DIM>(tile, from.row(row) + head * dim, from.stride, rows, dim);
}

/* The loop that copies tiles, for the first plan::bringers threads of the last warpgroup. from: x, y, other_x and
 * other_y, as bring_part accepts them. */
template <typename plan, typename MASK, typename FROM>
__device__ __forceinline__ void bring(const backward_call<MASK> &call, const FROM &from,
                                      struct backward_memory<plan> &memory)
{
    constexpr int ROOM = plan::room;
    constexpr bool KEYS = plan::of_keys;
    struct turn<plan::own_places> item_turn;
    struct turn<plan::stages> now;
    int thread = threadIdx.x % WARPGROUP;
    if (thread == 0)
        memory.items[0] = item_of(call.list, call.heads, call.share, atomicAdd(call.list.tickets, 1));
    for (int n = 0;; n++, item_turn.next()) {
        const struct work_item &item = memory.items[n % ITEM_SLOTS];
        threads_meet<1, plan::bringers>();
        wait_emptied(memory.own_places, item_turn);
        uint64_t *filled = &memory.own_places[item_turn.at].filled;
        if (thread == 0)
            barrier_arrive(filled); /* the item is there */
        if (item.head < 0) {
            barrier_arrive_behind_copies(filled);
            return;
        }
        const struct segment &segment = item.work.segment;
        int rows = min(plan::rows, (KEYS ? segment.kv_length : segment.q_length) - item.work.first);
        int own_row = (KEYS ? segment.kv_start : segment.q_start) + item.work.first;
        struct row_range seen = tiles_seen<plan>(seen_by(segment, KEYS, item.work.first, rows, call.mask));
        int brought = seen.begin < seen.end ? rows : 0; /* contents of rows that see nothing do not matter */
        bring_part<plan::rows, ROOM>(memory.own_x[item_turn.at], from.x, item.head, own_row, brought, call.dim, filled);
        bring_part<plan::rows, ROOM>(memory.own_y[item_turn.at], from.y, item.head, own_row, brought, call.dim, filled);
        barrier_arrive_behind_copies(filled);
        int head = KEYS ? item.head * call.share : item.other, end_head = head + (KEYS ? call.share : 1);
        int ticket = 0;
        auto take = [&] {
            if (thread == 0)
                ticket = atomicAdd(call.list.tickets, 1);
        };
        struct tiles_left left_over(tiles_of<plan>(seen) * (end_head - head), take);
        for (; head < end_head; head++)
            for (int at = seen.begin; at < seen.end; at += plan::others, now.next()) {
                left_over.next(take);
                int left = (KEYS ? segment.q_length : segment.kv_length) - at;
                int row = (KEYS ? segment.q_start : segment.kv_start) + at;
                filled = &memory.places[now.at].filled;
                wait_emptied(memory.places, now);
                bring_part<plan::others, ROOM>(memory.other_x[now.at], from.other_x, head, row, left, call.dim, filled);
                bring_part<plan::others, ROOM>(memory.other_y[now.at], from.other_y, head, row, left, call.dim, filled);
#pragma unroll
                for (int i = thread; KEYS && i < plan::others; i += plan::bringers) {
                    const float2 *of = call.statistics.row(head) + row + i;
                    copy_async<4>(&memory.base[now.at][i], &of->x, i < left);
                    copy_async<4>(&memory.delta[now.at][i], &of->y, i < left);
                }
                barrier_arrive_behind_copies(filled);
            }
        if (thread == 0)
            memory.items[(n + 1) % ITEM_SLOTS] = item_of(call.list, call.heads, call.share, ticket);
    }
}

#endif
