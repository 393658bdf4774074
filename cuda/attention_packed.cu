#include "cuda/attention_packed.h"
#include "cuda/attention_work.cuh"

enum { TABLE_THREADS = 1024, TILE = 32, TILE_ROWS = 8 };

/* -- Tables ------------------------------------------------------------------------------------------------------ */

/* One block. The end of all segments up to each slot is a running maximum, by doubling distances. */
__global__ static void __launch_bounds__(TABLE_THREADS)
    make_tables(const int *start, const int *length, int slots, int64_t longest, const struct packed_tables tables)
{
    __shared__ int64_t ends[TABLE_THREADS];
    int me = static_cast<int>(threadIdx.x);
    int64_t before = 0; /* the end of all segments of earlier rounds */
    for (int first = 0; first < slots; first += TABLE_THREADS) {
        int slot = first + me;
        int64_t rows = slot < slots ? max(length[slot], 0) : 0;
        if (longest > 0 && rows > longest)
            rows = longest;
        int64_t begin = rows > 0 ? start[slot] : 0;
        ends[me] = max(before, rows > 0 ? begin + rows : static_cast<int64_t>(0));
        for (int distance = 1; distance < TABLE_THREADS; distance *= 2) {
            __syncthreads();
            int64_t other = me >= distance ? ends[me - distance] : 0;
            __syncthreads();
            ends[me] = max(ends[me], other);
        }
        __syncthreads();
        if (slot < slots) {
            tables.lengths[slot] = static_cast<int>(rows);
            for (int i = 0; i < PACKED_TABLES; i++)
                if (tables.starts[i] != nullptr)
                    tables.starts[i][slot] = (rows > 0 ? begin : me > 0 ? ends[me - 1] : before) * tables.strides[i];
        }
        before = ends[TABLE_THREADS - 1];
        __syncthreads();
    }
    if (me < PACKED_TABLES && tables.starts[me] != nullptr)
        tables.starts[me][slots] = before * tables.strides[me];
}

void attention_packed_tables(const struct cuda_target *target, const struct attention_segments *segments,
                             const struct packed_tables *tables)
{
    make_tables<<<1, TABLE_THREADS, 0, target->stream>>>(
        static_cast<const int *>(segments->q_start.data), static_cast<const int *>(segments->q_length.data),
        static_cast<int>(segments->q_start.cols), segments->longest, *tables);
    CUDA_CHECK_LAUNCH("attention_packed_tables");
}

/* -- Statistics -------------------------------------------------------------------------------------------------- */

struct statistics_job {
    float *lse, *statistics;
    int64_t lse_stride, tokens, heads;
    int64_t longest; /* of regular segments; 0: statistics are tokens by heads */
    bool to_lse;
};

__device__ static int64_t place(const struct statistics_job &job, int64_t token, int64_t head)
{
    if (job.longest == 0)
        return token * job.heads + head;
    return (token / job.longest * job.heads + head) * job.longest + token % job.longest;
}

/* A tile of tokens and heads at a time, read and written along what is contiguous on either side. The library would
 * subtract minus infinity from itself, so it gets 0 for rows that no segment covers. */
__global__ static void __launch_bounds__(TILE *TILE_ROWS) move_statistics(const struct statistics_job job)
{
    __shared__ float tile[TILE][TILE + 1]; /* heads by tokens */
    int64_t first_token = static_cast<int64_t>(blockIdx.x) * TILE, first_head = static_cast<int64_t>(blockIdx.y) * TILE;
    auto each = [&](bool in_lse, bool read) {
        bool by_tokens = in_lse || job.longest > 0;
        for (int i = static_cast<int>(threadIdx.y); i < TILE; i += TILE_ROWS) {
            int h = by_tokens ? i : threadIdx.x, t = by_tokens ? threadIdx.x : i;
            int64_t head = first_head + h, token = first_token + t;
            if (head >= job.heads || token >= job.tokens)
                continue;
            float *at = in_lse ? job.lse + head * job.lse_stride + token : job.statistics + place(job, token, head);
            if (read)
                tile[h][t] = !job.to_lse && *at == -INFINITY ? 0.0f : *at;
            else
                *at = tile[h][t];
        }
    };
    each(!job.to_lse, true);
    __syncthreads();
    each(job.to_lse, false);
}

void attention_packed_statistics(const struct cuda_target *target, struct tensor lse,
                                 const struct attention_segments *segments, float *statistics, bool to_lse)
{
    int64_t longest = segments->regular ? segments->longest : 0;
    struct statistics_job job = {
        static_cast<float *>(lse.data), statistics, lse.stride, lse.cols, lse.rows, longest, to_lse};
    dim3 grid(static_cast<unsigned>(ceil_div(lse.cols, TILE)), static_cast<unsigned>(ceil_div(lse.rows, TILE)));
    if (grid.x == 0 || grid.y == 0)
        return;
    move_statistics<<<grid, dim3(TILE, TILE_ROWS), 0, target->stream>>>(job);
    CUDA_CHECK_LAUNCH("attention_packed_statistics");
}

/* -- Rows that no segment covers --------------------------------------------------------------------------------- */

void attention_packed_clear_forward(const struct cuda_target *target, const struct attention_forward_args *args)
{
    const struct attention_rows side = {false, args->q.rows, {args->o, {}}, args->lse};
    attention_clear(target, &args->segments, &side, 1);
}

void attention_packed_clear_backward(const struct cuda_target *target, const struct attention_backward_args *args)
{
    const struct attention_rows sides[] = {{false, args->q.rows, {args->dq, {}}, {}},
                                           {true, args->k.rows, {args->dk, args->dv}, {}}};
    attention_clear(target, &args->segments, sides, 2);
}
