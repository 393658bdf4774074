/* Clusters of two blocks compute tiles of 256 x 256, 128 rows per block, and multicast the 256 columns of b to each
 * other. In whole rounds each cluster has one tile. The tiles that are left over are split along k into parts for all
 * clusters, whose sums a second kernel adds. All clusters advance along k at one pace, so that the a and b that a
 * cluster reads are in the L2 cache for the other clusters of its row and column of tiles. */
#include "cuda/gemm_gradient.h"
#include "cuda/cluster.cuh"
#include "cuda/head_map.cuh"
#include "cuda/places.cuh"

enum { SIDE = 256, SIDE_ELEMENTS = SIDE * SIDE, STEP = 64 /* rows of a and b at a time */, USERS = 2, STAGES = 4 };
enum { LEFT_OVER = 3 /* limit of rounds with parts */ };

/* A round with `tiles` tiles from `first` on; `parts` clusters share each tile. */
struct tile_round {
    int first, tiles, parts;
};

struct gradient_call {
    CUtensorMap a, b; /* boxes of 64 rows and 64 columns */
    float *d;
    int64_t stride;
    float *parts; /* [rounds with parts][clusters][256][256], for rounds with several parts */
    int across;   /* number of tiles of 256 columns in a row of tiles */
    int steps;    /* number of steps along k */
    int whole;    /* number of rounds with one tile per cluster */
    int rounds;   /* number of all rounds, including those with parts */
    struct tile_round left_over[LEFT_OVER];
    bool accumulate;
};

/* A cluster's work in a round: steps first .. end - 1 of a tile. */
struct tile_share {
    int tile, first, end;
    float *part; /* destination of the sum; NULL: d */
};

/* Sets this cluster's share of a round; false: none. */
__device__ __forceinline__ bool share_of(const struct gradient_call &call, int round, struct tile_share &share)
{
    const int clusters = gridDim.x / 2, cluster = blockIdx.x / 2;
    share = {round * clusters + cluster, 0, call.steps, nullptr};
    if (round < call.whole)
        return true;
    const struct tile_round &of = call.left_over[round - call.whole];
    const int part = cluster / of.tiles;
    if (part >= of.parts)
        return false;
    share.tile = of.first + cluster % of.tiles;
    share.first = static_cast<int>(static_cast<int64_t>(call.steps) * part / of.parts);
    share.end = static_cast<int>(static_cast<int64_t>(call.steps) * (part + 1) / of.parts);
    if (of.parts > 1)
        share.part = call.parts + (static_cast<int64_t>(round - call.whole) * clusters + cluster) * SIDE_ELEMENTS;
    return true;
}

using left_tile = panels<STEP, 64>;    /* per warpgroup */
using right_tile = panels<STEP, SIDE>; /* per cluster */

struct gradient_memory {
    char left[STAGES][USERS][left_tile::bytes], right[STAGES][right_tile::bytes];
    struct tile_place places[STAGES];
};

/* The loop of the thread that copies tiles: its block's rows of a, and half of b to both blocks. */
__device__ __forceinline__ void bring_steps(const struct gradient_call &call, struct gradient_memory &memory)
{
    constexpr int bytes = USERS * left_tile::bytes + right_tile::bytes, halves = SIDE / 2 / right_tile::width;
    const int rank = rank_in_cluster();
    struct turn<STAGES> now;
    struct tile_share share;
    for (int round = 0; round < call.rounds; round++) {
        if (!share_of(call, round, share))
            continue;
        const int left = (share.tile / call.across * 2 + rank) * USERS, right = share.tile % call.across * 2 * halves;
        for (int step = share.first; step < share.end; step++, now.next()) {
            wait_emptied(memory.places, now);
            uint64_t *filled = &memory.places[now.at].filled;
            barrier_arrive_expecting(filled, bytes);
            for (int i = 0; i < USERS; i++)
                bring_box(memory.left[now.at][i], call.a, 0, left + i, step * STEP, filled);
            for (int i = rank * halves; i < (rank + 1) * halves; i++)
                bring_box<true>(memory.right[now.at] + i * right_tile::panel_bytes, call.b, 0, right + i, step * STEP,
                                filled);
        }
    }
}

/* Stores 16 rows of a tile; called by a warp. A lane has two consecutive elements of each eight columns, in two
 * rows. */
template <bool ADD>
__device__ __forceinline__ void store_sum(const float (&sum)[SIDE / 8][4], float *to, int64_t stride)
{
    to += threadIdx.x % WARP / 4 * stride + threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int j = 0; j < SIDE / 8; j++) {
            float2 *at = reinterpret_cast<float2 *>(to + 8 * half * stride + 8 * j);
            const float2 before = ADD ? *at : make_float2(0.0f, 0.0f);
            *at = make_float2(before.x + sum[j][2 * half], before.y + sum[j][2 * half + 1]);
        }
}

/* The loop of a warpgroup, which multiplies 64 rows of each tile. */
__device__ __forceinline__ void multiply_steps(const struct gradient_call &call, struct gradient_memory &memory)
{
    const int rank = rank_in_cluster(), group = uniform(threadIdx.x / WARPGROUP);
    const int row = rank * SIDE / 2 + threadIdx.x / WARP * 16;
    struct turn<STAGES> now;
    struct tile_share share;
    float sum[SIDE / 8][4];
    for (int round = 0; round < call.rounds; round++) {
        if (!share_of(call, round, share))
            continue;
        struct tile_place *before = nullptr;
        for (int step = share.first; step < share.end; step++, now.next()) {
            const uint64_t left = left_tile::described(memory.left[now.at][group]);
            const uint64_t right = right_tile::described(memory.right[now.at]);
            wait_there(memory.places, now);
            products_begin();
#pragma unroll
            for (int i = 0; i < STEP / 16; i++)
                multiply_transposed(sum, left_tile::along_rows(left, i), right_tile::along_rows(right, i),
                                    step > share.first || i > 0);
            products_group();
            products_wait<1>();
            if (before != nullptr)
                warp_arrives_in_both(&before->emptied, &before->emptied, rank);
            before = &memory.places[now.at];
        }
        products_wait<0>();
        hold(sum);
        warp_arrives_in_both(&before->emptied, &before->emptied, rank);

        float *whole = call.d + (share.tile / call.across * SIDE + row) * call.stride + share.tile % call.across * SIDE;
        if (share.part != nullptr)
            store_sum<false>(sum, share.part + row * SIDE, SIDE);
        else if (call.accumulate)
            store_sum<true>(sum, whole, call.stride);
        else
            store_sum<false>(sum, whole, call.stride);
    }
}

IN_CLUSTERS __global__ static void __launch_bounds__((USERS + 1) * WARPGROUP, 1)
    gradient_product(const __grid_constant__ struct gradient_call call)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using registers = warpgroup_registers<USERS, 1>;
    extern __shared__ __align__(1024) char shared[];
    auto &memory = *reinterpret_cast<struct gradient_memory *>(shared);
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
            bring_steps(call, memory);
    } else {
        registers_get<registers::working>();
        multiply_steps(call, memory);
    }
    __syncwarp();
    cluster_meets(); /* no block may access the memory of a block that has ended */
#endif
}

enum { ADDING = 256, ADDED = 4 /* threads per block; consecutive elements per thread */ };

/* d (+)= the sum of each tile's parts, in a fixed order. blockIdx.y: number among the tiles with several parts. */
__global__ static void __launch_bounds__(ADDING)
    add_parts(const __grid_constant__ struct gradient_call call, int clusters)
{
    int tile = blockIdx.y, round = 0;
    for (; call.left_over[round].parts == 1 || tile >= call.left_over[round].tiles; round++)
        tile -= call.left_over[round].parts == 1 ? 0 : call.left_over[round].tiles;
    const struct tile_round &of = call.left_over[round];
    const int at = (blockIdx.x * ADDING + threadIdx.x) * ADDED;
    const float *from = call.parts + (static_cast<int64_t>(round) * clusters + tile) * SIDE_ELEMENTS + at;
    tile += of.first;
    float *to = call.d + (tile / call.across * SIDE + at / SIDE) * call.stride + tile % call.across * SIDE + at % SIDE;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = 0; i < of.parts; i++, from += static_cast<int64_t>(of.tiles) * SIDE_ELEMENTS) {
        const float4 part = *reinterpret_cast<const float4 *>(from);
        sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    }
    const float4 before = call.accumulate ? *reinterpret_cast<const float4 *>(to) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *reinterpret_cast<float4 *>(to) =
        make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
}

static int forced;
static int64_t launches;

void cuda_gemm_gradient_force(int clusters)
{
    forced = clusters;
}

bool cuda_gemm_gradient_forced(void)
{
    return forced > 0;
}

int64_t cuda_gemm_gradient_launches(void)
{
    return launches;
}

static int clusters_of(const struct cuda_target *target)
{
    const int held = target->multiprocessors / 2;
    return forced > 0 && forced < held ? forced : held;
}

/* Returns whether TMA can read the matrix. */
static bool is_readable(const struct tensor &x)
{
    return x.dtype == DTYPE_BF16 && x.cols % SIDE == 0 && x.stride % 8 == 0 &&
           reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}

bool cuda_gemm_gradient_fits(const struct gemm_args *args)
{
    return warpgroups_run() && args->transpose_a && !args->transpose_b && args->d.dtype == DTYPE_F32 &&
           !tensor_present(&args->c) && !tensor_present(&args->bias) && !tensor_present(&args->scale_a) &&
           !tensor_present(&args->scale_b) && is_readable(args->a) && is_readable(args->b) && args->d.stride % 4 == 0 &&
           reinterpret_cast<uintptr_t>(args->d.data) % 16 == 0;
}

/* Assigns all tiles to rounds. If equal parts of the left-over tiles would leave more than one cluster in sixteen idle,
 * the round takes fewer tiles with one part more each, and the next round the rest. Parts have at least 4 steps. */
static void share_out(struct gradient_call *call, int tiles, int clusters)
{
    const int shortest = 4, most = call->steps / shortest > 1 ? call->steps / shortest : 1;
    call->whole = call->rounds = tiles / clusters;
    for (int left = tiles % clusters; left > 0;) {
        const int first = tiles - left, each = clusters / left < most ? clusters / left : most;
        struct tile_round *next = &call->left_over[call->rounds++ - call->whole];
        const bool last = call->rounds == call->whole + LEFT_OVER;
        if (last || each == most || left * each >= clusters - clusters / 16)
            *next = {first, left, each};
        else
            *next = {first, clusters / (each + 1), each + 1};
        left -= next->tiles;
    }
}

static struct gradient_call call_of(const struct cuda_target *target, const struct gemm_args *args)
{
    struct gradient_call call = {};
    call.d = static_cast<float *>(args->d.data);
    call.stride = args->d.stride;
    call.parts = reinterpret_cast<float *>(target->workspace);
    call.across = static_cast<int>(args->d.cols / SIDE);
    call.steps = static_cast<int>((args->a.rows + STEP - 1) / STEP);
    call.accumulate = args->accumulate;
    share_out(&call, static_cast<int>(args->d.rows / SIDE) * call.across, clusters_of(target));
    return call;
}

int64_t cuda_gemm_gradient_workspace(const struct cuda_target *target)
{
    return LEFT_OVER * clusters_of(target) * SIDE_ELEMENTS * static_cast<int64_t>(sizeof(float));
}

void cuda_gemm_gradient(const struct cuda_target *target, const struct gemm_args *args)
{
    constexpr int shared = sizeof(struct gradient_memory);
    static_assert(shared <= 232448, "what a block may have");
    const int clusters = clusters_of(target);
    struct gradient_call call = call_of(target, args);
    call.a = head_map(args->a, 64, left_tile::width, STEP);
    call.b = head_map(args->b, 64, right_tile::width, STEP);
    CUDA_CHECK(cudaFuncSetAttribute(gradient_product, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    gradient_product<<<2 * clusters, (USERS + 1) * WARPGROUP, shared, target->stream>>>(call);
    CUDA_CHECK_LAUNCH("a weight's gradient");
    unsigned added = 0;
    for (int i = 0; i < call.rounds - call.whole; i++)
        added += call.left_over[i].parts > 1 ? call.left_over[i].tiles : 0;
    if (added > 0)
        add_parts<<<dim3(SIDE_ELEMENTS / (ADDING * ADDED), added), ADDING, 0, target->stream>>>(call, clusters);
    CUDA_CHECK_LAUNCH("a weight's gradient");
    launches++;
}
