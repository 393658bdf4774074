/* A stable counting sort by the digits of rows, the lowest digit first. Each block has a tile of tokens. One kernel
 * counts the digits of each tile; another moves the tokens after those of smaller digits and of earlier tiles. */
#include "cuda/token_order.cuh"
#include "cuda/device.cuh"

enum {
    DIGIT_BITS = 9, /* at most; two passes suffice for the largest vocabularies in use */
    BINS = 1 << DIGIT_BITS,
    SORT_THREADS = 256,
    SORT_WARPS = SORT_THREADS / WARP,
    WARP_TOKENS = 8 * WARP,
    SORT_TILE = SORT_WARPS * WARP_TOKENS
};

/* Input of a pass. order: result of the pass before; NULL: 0, 1, 2, ... */
struct sort_pass {
    struct token_rows rows;
    const int32_t *order;
    int count, shift;

    __device__ __forceinline__ int item(int i) const
    {
        return order != NULL ? order[i] : i;
    }

    __device__ __forceinline__ int digit(int item) const
    {
        return rows.at(item) >> shift & (BINS - 1);
    }
};

/* counts: [tiles, BINS]. */
static __global__ void __launch_bounds__(SORT_THREADS) count_digits(struct sort_pass pass, int32_t *counts)
{
    __shared__ int32_t bins[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += SORT_THREADS)
        bins[bin] = 0;
    __syncthreads();
    int first = blockIdx.x * SORT_TILE, end = min(first + SORT_TILE, pass.count);
    for (int i = first + threadIdx.x; i < end; i += SORT_THREADS)
        atomicAdd(&bins[pass.digit(pass.item(i))], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += SORT_THREADS)
        counts[blockIdx.x * BINS + bin] = bins[bin];
}

/* Returns the sum over the threads before this one. */
__device__ __forceinline__ int sum_before(int x, int32_t *shared)
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, sum = x;
#pragma unroll
    for (int offset = 1; offset < WARP; offset *= 2) {
        int other = __shfl_up_sync(0xffffffffu, sum, offset);
        sum += lane >= offset ? other : 0;
    }
    if (lane == WARP - 1)
        shared[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        sum += shared[w];
    return sum - x;
}

/* Each warp moves WARP_TOKENS tokens of the tile in their order, a warp's width at a time. */
static __global__ void __launch_bounds__(SORT_THREADS)
    move_tokens(struct sort_pass pass, const int32_t *counts, int tiles, int32_t *sorted)
{
    enum { THREAD_BINS = BINS / SORT_THREADS };
    __shared__ int32_t next[SORT_WARPS][BINS]; /* destination of a warp's next token with a digit */
    __shared__ int32_t shared[SORT_WARPS];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int first = blockIdx.x * SORT_TILE + warp * WARP_TOKENS;
    for (int i = threadIdx.x; i < SORT_WARPS * BINS; i += SORT_THREADS)
        next[i / BINS][i % BINS] = 0;

    /* Counts of this thread's digits in all tiles, and in the tiles before this one. */
    int all[THREAD_BINS] = {}, before[THREAD_BINS] = {}, sum = 0;
    for (int tile = 0; tile < tiles; tile++)
#pragma unroll
        for (int b = 0; b < THREAD_BINS; b++) {
            int count = counts[tile * BINS + threadIdx.x * THREAD_BINS + b];
            all[b] += count;
            before[b] += tile < blockIdx.x ? count : 0;
        }
#pragma unroll
    for (int b = 0; b < THREAD_BINS; b++)
        sum += all[b];
    int start = sum_before(sum, shared);

    for (int i = first + lane; i < min(first + WARP_TOKENS, pass.count); i += WARP)
        atomicAdd(&next[warp][pass.digit(pass.item(i))], 1);
    __syncthreads();
#pragma unroll
    for (int b = 0; b < THREAD_BINS; b++) {
        int bin = threadIdx.x * THREAD_BINS + b, place = start + before[b];
        for (int w = 0; w < SORT_WARPS; w++) {
            int count = next[w][bin];
            next[w][bin] = place;
            place += count;
        }
        start += all[b];
    }
    __syncthreads();

    for (int i = first + lane; i - lane < min(first + WARP_TOKENS, pass.count); i += WARP) {
        unsigned there = __ballot_sync(0xffffffffu, i < pass.count);
        int item = 0, digit = 0, rank = 0, place = 0;
        unsigned equal = 0;
        if (i < pass.count) {
            item = pass.item(i);
            digit = pass.digit(item);
            equal = __match_any_sync(there, digit);
            rank = __popc(equal & ((1u << lane) - 1));
            place = next[warp][digit] + rank;
            sorted[place] = item;
        }
        __syncwarp();
        if (i < pass.count && rank == 0)
            next[warp][digit] += __popc(equal);
        __syncwarp();
    }
}

static int64_t tiles_of(int64_t count)
{
    return ceil_div(count, SORT_TILE);
}

int64_t token_order_workspace(int64_t count)
{
    return (2 * count + tiles_of(count) * BINS) * (int64_t)sizeof(int32_t);
}

const int32_t *token_order(const struct cuda_target *target, struct token_rows rows, int64_t count, char *scratch)
{
    int32_t *orders[2] = {reinterpret_cast<int32_t *>(scratch), reinterpret_cast<int32_t *>(scratch) + count};
    int32_t *counts = orders[1] + count;
    int tiles = (int)tiles_of(count);
    struct sort_pass pass = {rows, NULL, (int)count, 0};
    for (int i = 0; i == 0 || static_cast<uint64_t>(rows.rows) >> pass.shift > 0; i++, pass.shift += DIGIT_BITS) {
        count_digits<<<tiles, SORT_THREADS, 0, target->stream>>>(pass, counts);
        CUDA_CHECK_LAUNCH("count_digits");
        move_tokens<<<tiles, SORT_THREADS, 0, target->stream>>>(pass, counts, tiles, orders[i % 2]);
        CUDA_CHECK_LAUNCH("move_tokens");
        pass.order = orders[i % 2];
    }
    return pass.order;
}
