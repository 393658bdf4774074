/* GEMMs over the rows of each expert by warpgroups. Clusters of two blocks compute tiles of 256 x 256 of an expert's
 * product, 128 rows per block, and multicast the tile's right side to each other. Where an expert's rows end is known
 * to the device alone: each cluster counts the experts' tiles and computes every n-th one, for n clusters. */
#include "cuda/expert_gemm.cuh"
#include "cuda/accumulator.cuh"
#include "cuda/cluster.cuh"
#include "cuda/head_map.cuh"
#include "cuda/places.cuh"

using bf16 = __nv_bfloat16;

enum { SIDE = 256, STEP = 64 /* terms of the sum at a time */, USERS = 2, STAGES = 4 };
enum { TOGETHER = 8 /* rows of tiles whose columns are computed one after the other, so that both sides stay in L2 */ };

/* to (+)= left right'. A gemm has the experts' rows on the left and in `to`, the gradient sums over them. */
template <typename D> struct expert_call {
    CUtensorMap left, right;
    struct view<D> to;
    const int *ends;
    int experts, m, n, k; /* of an expert's product; that of the experts' rows is not used */
    bool accumulate;
};

/* A tile of an expert's product [rows, n], which sums `steps` times STEP terms. */
struct expert_tile {
    int expert, first, end; /* its rows */
    int rows, row, col, steps;
};

/* Finds tiles by their numbers, which must increase. */
template <bool GRADIENT, typename D> struct expert_tiles {
    const struct expert_call<D> &call;
    int expert = 0, first = 0, counted = 0; /* rows and tiles of the experts before */

    __device__ __forceinline__ bool find(int number, struct expert_tile &tile)
    {
        const int across = (call.n + SIDE - 1) / SIDE;
        for (; expert < call.experts; expert++) {
            const int end = call.ends[expert], rows = GRADIENT ? call.m : end - first;
            const int down = (rows + SIDE - 1) / SIDE, own = number - counted;
            if (own < down * across) {
                const int band = own / (TOGETHER * across), in_band = own % (TOGETHER * across);
                const int height = min(static_cast<int>(TOGETHER), down - band * TOGETHER);
                const int terms = GRADIENT ? end - first : call.k;
                tile = {expert,
                        first,
                        end,
                        rows,
                        (band * TOGETHER + in_band % height) * SIDE,
                        in_band / height * SIDE,
                        (terms + STEP - 1) / STEP};
                return true;
            }
            counted += down * across;
            first = end;
        }
        return false;
    }
};

/* TURNED: the right side is summed over its rows, else over its columns. The gradient sums over the rows of both. */
template <bool TURNED> using right_tile = std::conditional_t<TURNED, panels<STEP, SIDE>, panels<SIDE, STEP>>;
using left_tile = panels<64, STEP>; /* per warpgroup */
static_assert(STEP == 64, "turned, the left tile has the same shape");

struct expert_memory {
    char left[STAGES][USERS][left_tile::bytes], right[STAGES][right_tile<true>::bytes];
    struct tile_place places[STAGES];
};

/* The loop of the thread that copies tiles: the left side of its block, and half of the right side to both blocks. */
template <bool GRADIENT, bool TURNED, typename D>
__device__ __forceinline__ void bring_steps(const struct expert_call<D> &call, struct expert_memory &memory)
{
    using right_tile = right_tile<TURNED>;
    constexpr int bytes = USERS * left_tile::bytes + right_tile::bytes;
    const int rank = rank_in_cluster();
    struct turn<STAGES> now;
    struct expert_tiles<GRADIENT, D> tiles = {
        call
    };
    struct expert_tile tile;
    for (int number = blockIdx.x / 2; tiles.find(number, tile); number += gridDim.x / 2)
        for (int step = 0; step < tile.steps; step++, now.next()) {
            const int along = step * STEP;
            wait_emptied(memory.places, now);
            uint64_t *filled = &memory.places[now.at].filled;
            barrier_arrive_expecting(filled, bytes);
            for (int i = 0; i < USERS; i++) {
                const int row = tile.row + rank * SIDE / 2 + i * 64;
                if (GRADIENT)
                    bring_box(memory.left[now.at][i], call.left, row, 0, tile.first + along, filled);
                else
                    bring_box(memory.left[now.at][i], call.left, along, 0, tile.first + row, filled);
            }
            if (TURNED) {
                constexpr int half = SIDE / 2 / right_tile::width;
                const int row = (GRADIENT ? tile.first : tile.expert * call.k) + along;
                for (int i = rank * half; i < (rank + 1) * half; i++)
                    bring_box<true>(memory.right[now.at] + i * right_tile::panel_bytes, call.right,
                                    tile.col + i * right_tile::width, 0, row, filled);
            } else {
                bring_box<true>(memory.right[now.at] + rank * SIDE / 2 * right_tile::row_bytes, call.right, along, 0,
                                tile.expert * call.n + tile.col + rank * SIDE / 2, filled);
            }
        }
}

/* Clears the last STEP - rows rows of both sides in a stage, which belong to the next expert. Called by all warpgroups
 * that multiply. */
__device__ __forceinline__ void clear_rows_behind(struct expert_memory &memory, int stage, int rows)
{
    using panel = panels<STEP, 64>;
    constexpr int chunks = panel::bytes / 16;
    auto clear = [&](char *from) {
        for (int i = rows * panel::row_bytes / 16 + threadIdx.x; i < chunks; i += USERS * WARPGROUP)
            reinterpret_cast<uint4 *>(from)[i] = uint4();
    };
    for (int i = 0; i < USERS; i++)
        clear(memory.left[stage][i]);
    for (int i = 0; i < SIDE / 64; i++)
        clear(memory.right[stage] + i * panel::bytes);
    shared_writes_to_products();
    threads_meet<1, USERS * WARPGROUP>();
}

/* Stores a warp's 16 rows from `row` and `col` on, of which `rows` and `cols` exist. */
template <typename D>
__device__ __forceinline__ void store_tile(const float (&sum)[SIDE / 8][4], const struct expert_call<D> &call,
                                           int64_t row, int col, int rows, int cols)
{
    if constexpr (std::is_same_v<D, bf16>)
        if (!call.accumulate) {
            store_accumulator(sum, {1.0f, 1.0f}, call.to.row(row) + col, call.to.stride, rows, cols);
            return;
        }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = 8 * half + fragment_row();
        D *to = call.to.row(row + r) + col + fragment_col();
#pragma unroll
        for (int j = 0; j < SIDE / 8; j++) {
            if (r >= rows || 8 * j >= cols)
                continue;
            pack<D, 2> *at = reinterpret_cast<pack<D, 2> *>(to + 8 * j), made;
#pragma unroll
            for (int e = 0; e < 2; e++)
                made.at[e] = from_float<D>((call.accumulate ? to_float(at->at[e]) : 0.0f) + sum[j][2 * half + e]);
            *at = made;
        }
    }
}

/* The loop of a warpgroup, which multiplies 64 rows of each tile. */
template <bool GRADIENT, bool TURNED, typename D>
__device__ __forceinline__ void multiply_steps(const struct expert_call<D> &call, struct expert_memory &memory)
{
    using right_tile = right_tile<TURNED>;
    const int rank = uniform(rank_in_cluster()), group = uniform(threadIdx.x / WARPGROUP);
    struct turn<STAGES> now;
    struct expert_tiles<GRADIENT, D> tiles = {
        call
    };
    struct expert_tile tile;
    float sum[SIDE / 8][4];
    for (int number = blockIdx.x / 2; tiles.find(number, tile); number += gridDim.x / 2) {
        const int row = tile.row + rank * SIDE / 2 + group * 64;
        auto begin = [&](int step) {
            wait_there(memory.places, now);
            const int left = tile.end - tile.first - step * STEP;
            if (GRADIENT && left < STEP)
                clear_rows_behind(memory, now.at, left);
        };
        auto release = [&](struct tile_place *place) { warp_arrives_in_both(&place->emptied, &place->emptied, rank); };
        if (row >= tile.rows) {
            for (int step = 0; step < tile.steps; step++, now.next()) {
                begin(step);
                release(&memory.places[now.at]);
            }
            continue;
        }
#pragma unroll
        for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[j][e] = 0.0f;
        struct tile_place *before = nullptr;
#pragma unroll 1
        for (int step = 0; step < tile.steps; step++, now.next()) {
            begin(step);
            const int stage = uniform(now.at);
            const uint64_t left = left_tile::described(memory.left[stage][group]);
            const uint64_t right = right_tile::described(memory.right[stage]);
            products_begin();
#pragma unroll
            for (int i = 0; i < STEP / 16; i++) {
                if constexpr (GRADIENT)
                    multiply_transposed(sum, left_tile::along_rows(left, i), right_tile::along_rows(right, i), 1);
                else if constexpr (TURNED)
                    multiply_by_rows(sum, left_tile::along_columns(left, i), right_tile::along_rows(right, i), 1);
                else
                    multiply(sum, left_tile::along_columns(left, i), right_tile::along_columns(right, i), 1);
            }
            products_group();
            products_wait<1>();
            if (before != nullptr)
                release(before);
            before = &memory.places[now.at];
        }
        products_wait<0>();
        hold(sum);
        if (before != nullptr) /* unless an expert without rows has no steps */
            release(before);
        const int own = row + threadIdx.x % WARPGROUP / WARP * 16;
        const int64_t base = GRADIENT ? static_cast<int64_t>(tile.expert) * call.m : tile.first;
        store_tile(sum, call, base + own, tile.col, tile.rows - own, call.n - tile.col);
    }
}

template <bool GRADIENT, bool TURNED, typename D>
IN_CLUSTERS __global__ static void __launch_bounds__((USERS + 1) * WARPGROUP, 1)
    expert_product(const __grid_constant__ struct expert_call<D> call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using registers = warpgroup_registers<USERS, 1>;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct expert_memory *>(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++)
            place_start(&memory.places[i], 2, 1, USERS * WARPGROUP / WARP);
        barriers_started();
    }
    __syncthreads();
    cluster_meets();
    if (threadIdx.x >= USERS * WARPGROUP) {
        registers_give<registers::bringing>();
        if (threadIdx.x == USERS * WARPGROUP)
            bring_steps<GRADIENT, TURNED>(call, memory);
    } else {
        registers_get<registers::working>();
        multiply_steps<GRADIENT, TURNED>(call, memory);
    }
    __syncwarp();
    cluster_meets(); /* no block may access the memory of a block that has ended */
#endif
}

/* most: tiles that there may be. */
template <bool GRADIENT, bool TURNED, typename D>
static void launch(const struct cuda_target *target, const struct expert_call<D> &call, int64_t most)
{
    constexpr int shared = sizeof(struct expert_memory);
    static_assert(shared <= 232448, "what a block may have");
    if (most > INT32_MAX / 2)
        error_fatal("cuda executor: a GEMM of experts has %lld tiles: at most %d", (long long)most, INT32_MAX / 2);
    const int held = target->multiprocessors / 2, clusters = most < held ? static_cast<int>(most) : held;
    auto *kernel = expert_product<GRADIENT, TURNED, D>;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    kernel<<<2 * clusters, (USERS + 1) * WARPGROUP, shared, target->stream>>>(call);
    CUDA_CHECK_LAUNCH(GRADIENT ? "expert_gradient by warpgroups" : "expert_gemm by warpgroups");
}

/* Returns whether TMA can read the matrix. */
static bool is_readable(const struct tensor &x)
{
    return x.dtype == DTYPE_BF16 && packs_fit(x, 8);
}

bool expert_gemm_has_warpgroups(const struct expert_gemm_args *args)
{
    return warpgroups_run() && is_readable(args->a) && is_readable(args->b) && is_readable(args->d);
}

bool expert_gradient_has_warpgroups(const struct expert_gradient_args *args)
{
    return warpgroups_run() && is_readable(args->dy) && is_readable(args->x) && packs_fit(args->dweight, 4);
}

/* Returns a tensor map with boxes of `rows` rows and 64 columns. */
static CUtensorMap map_of(const struct tensor &x, int rows)
{
    return head_map(x, x.cols, 64, rows);
}

void expert_gemm_by_warpgroups(const struct cuda_target *target, const struct expert_gemm_args *args)
{
    const int experts = static_cast<int>(args->ends.cols), n = static_cast<int>(args->d.cols);
    const int64_t most = (args->a.rows / SIDE + experts) * ceil_div(n, SIDE);
    struct expert_call<bf16> call = {
        map_of(args->a, 64), map_of(args->b, args->transpose_b ? SIDE / 2 : STEP), view_of<bf16>(args->d),
            static_cast<const int *>(args->ends.data), experts, 0, n, static_cast<int>(args->a.cols), false
    };
    if (args->transpose_b)
        launch<false, false>(target, call, most);
    else
        launch<false, true>(target, call, most);
}

void expert_gradient_by_warpgroups(const struct cuda_target *target, const struct expert_gradient_args *args)
{
    const int experts = static_cast<int>(args->ends.cols);
    const int m = static_cast<int>(args->dy.cols), n = static_cast<int>(args->x.cols);
    visit(args->dweight.dtype, [&](auto zero) {
        using D = decltype(zero);
        struct expert_call<D> call = {
            map_of(args->dy, STEP), map_of(args->x, STEP), view_of<D>(args->dweight),
                static_cast<const int *>(args->ends.data), experts, m, n, 0, args->accumulate
        };
        launch<true, true>(target, call, experts * ceil_div(m, SIDE) * ceil_div(n, SIDE));
    });
}
