/* Attention of segments with one query each, for generation. It is bound by the bandwidth of reading keys and values. A
 * group of `lanes` threads reads a key along the head, one pack per thread, and the groups of a block take the keys in
 * turn, with an online softmax (Dao et al. 2022). Query heads that share keys are computed together. If segments are
 * few, each is split, and a second kernel merges the parts. */
#include "cuda/attention_decode.h"
#include "cuda/attention_work.cuh"

enum { THREADS = 128, MOST_GROUP = 8, MOST_SPLITS = 32, BLOCKS_EACH = 4 /* of an SM, wanted */ };

/* Fields after a part's head_dim sums. */
enum { PART_LARGEST, PART_SUM, PART_MORE };

template <typename T> struct decode_job {
    struct view<const T> q, k, v;
    struct view<T> o;
    struct view<float> lse;
    const int *q_start, *kv_start, *kv_length, *offset;
    float *parts; /* [slots, heads, splits, dim + PART_MORE] */
    int heads, share, dim, lanes, splits;
    float scale_log2;
    struct attention_mask mask;
};

/* Returns the number that exponents are relative to: the largest score, or 0 if there is none. */
static __device__ __forceinline__ float base_of(float largest)
{
    return largest == -INFINITY ? 0.0f : largest;
}

template <typename T>
static __device__ __forceinline__ void store_result(const struct decode_job<T> &job, int row, int head, int d,
                                                    float largest, float sum, float weighted)
{
    job.o.row(row)[head * job.dim + d] = from_float<T>(sum == 0.0f ? 0.0f : weighted / sum);
    if (d == 0)
        job.lse.row(head)[row] = sum == 0.0f ? -INFINITY : largest * static_cast<float>(M_LN2) + logf(sum);
}

/* Block (slot, group of heads, part of the keys). */
template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) decode(const struct decode_job<T> job)
{
    constexpr int N = pack_width<T>, AHEAD = GROUP > 2 ? 2 : 4;
    __shared__ float all_o[GROUP][THREADS][N], all_largest[GROUP][THREADS], all_sum[GROUP][THREADS];
    const int slot = blockIdx.x, head = blockIdx.y * GROUP, kv_col = head / job.share * job.dim;
    const int keys = THREADS / job.lanes, lane = threadIdx.x % job.lanes, own = threadIdx.x / job.lanes;
    const bool inside = lane * N < job.dim;
    const int length = job.kv_length[slot];
    const struct segment segment = {0, 1, 0, length, job.offset[slot]};
    const struct row_range seen = visible(segment, false, 0, job.mask);
    const int each = (seen.end - seen.begin + job.splits - 1) / job.splits;
    const int begin = seen.begin + static_cast<int>(blockIdx.z) * each, end = min(seen.end, begin + each);
    const int row = job.q_start[slot];
    const int64_t kv_row = job.kv_start[slot];

    float q[GROUP][N] = {}, o[GROUP][N] = {}, largest[GROUP], sum[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        largest[g] = -INFINITY, sum[g] = 0.0f;
        if (inside)
            load(job.q.row(row) + (head + g) * job.dim + lane * N, q[g]);
#pragma unroll
        for (int i = 0; i < N; i++)
            q[g][i] *= job.scale_log2;
    }
    for (int first = begin; first < end; first += keys * AHEAD) { /* warps do not diverge */
        pack<T, N> k[AHEAD], v[AHEAD];
        float s[GROUP][AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int key = first + a * keys + own;
            k[a] = v[a] = pack<T, N>{};
            if (inside && key < end) {
                k[a] = load_pack<N>(job.k.row(kv_row + key) + kv_col + lane * N);
                v[a] = load_pack<N>(job.v.row(kv_row + key) + kv_col + lane * N);
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            float values[N];
            unpack(k[a], values);
#pragma unroll
            for (int g = 0; g < GROUP; g++) {
                float score = 0.0f;
#pragma unroll
                for (int i = 0; i < N; i++)
                    score += q[g][i] * values[i];
                for (int distance = job.lanes / 2; distance > 0; distance /= 2)
                    score += __shfl_xor_sync(0xffffffffu, score, distance);
                s[g][a] = first + a * keys + own < end ? score : -INFINITY;
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float most = largest[g];
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                most = fmaxf(most, s[g][a]);
            const float base = base_of(most), change = power_of_2(largest[g] - base);
            largest[g] = most;
            sum[g] *= change;
#pragma unroll
            for (int i = 0; i < N; i++)
                o[g][i] *= change;
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                s[g][a] = power_of_2(s[g][a] - base);
                sum[g] += s[g][a];
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            float values[N];
            unpack(v[a], values);
#pragma unroll
            for (int g = 0; g < GROUP; g++)
#pragma unroll
                for (int i = 0; i < N; i++)
                    o[g][i] += s[g][a] * values[i];
        }
    }

#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        all_largest[g][threadIdx.x] = largest[g];
        all_sum[g][threadIdx.x] = sum[g];
#pragma unroll
        for (int i = 0; i < N; i++)
            all_o[g][threadIdx.x][i] = o[g][i];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < GROUP * job.dim; at += THREADS) {
        const int g = at / job.dim, d = at % job.dim;
        float most = -INFINITY, total = 0.0f, weighted = 0.0f;
        for (int i = 0; i < keys; i++)
            most = fmaxf(most, all_largest[g][i * job.lanes]);
        for (int i = 0; i < keys; i++) {
            const float weight = power_of_2(all_largest[g][i * job.lanes] - base_of(most));
            total += weight * all_sum[g][i * job.lanes];
            weighted += weight * all_o[g][i * job.lanes + d / N][d % N];
        }
        if (job.splits == 1) {
            store_result(job, row, head + g, d, most, total, weighted);
            continue;
        }
        float *part = job.parts + ((static_cast<int64_t>(slot) * job.heads + head + g) * job.splits + blockIdx.z) *
                                      (job.dim + PART_MORE);
        part[d] = weighted;
        if (d == 0) {
            part[job.dim + PART_LARGEST] = most;
            part[job.dim + PART_SUM] = total;
        }
    }
}

/* Block (slot, head), with a thread for each column. */
template <typename T> __global__ void __launch_bounds__(CUDA_WIDEST_HEAD) merge(const struct decode_job<T> job)
{
    const int slot = blockIdx.x, head = blockIdx.y, d = threadIdx.x, size = job.dim + PART_MORE;
    const float *parts = job.parts + (static_cast<int64_t>(slot) * job.heads + head) * job.splits * size;
    float most = -INFINITY, total = 0.0f, weighted = 0.0f;
    if (d >= job.dim)
        return;
    for (int i = 0; i < job.splits; i++)
        most = fmaxf(most, parts[i * size + job.dim + PART_LARGEST]);
    for (int i = 0; i < job.splits; i++) {
        const float weight = power_of_2(parts[i * size + job.dim + PART_LARGEST] - base_of(most));
        total += weight * parts[i * size + job.dim + PART_SUM];
        weighted += weight * parts[i * size + d];
    }
    store_result(job, job.q_start[slot], head, d, most, total, weighted);
}

/* Returns the number of heads that one block computes. */
static int group_of(const struct attention_forward_args *args)
{
    const int64_t share = args->heads / args->kv_heads;
    int group = 1;
    while (group < MOST_GROUP && share % (2 * group) == 0)
        group *= 2;
    return group;
}

static int64_t blocks_wanted(const struct cuda_target *target)
{
    return static_cast<int64_t>(target->multiprocessors) * BLOCKS_EACH;
}

/* Returns the number of parts of a segment: enough for the wanted number of blocks. */
static int splits_of(const struct cuda_target *target, const struct attention_forward_args *args)
{
    const int64_t blocks = args->segments.q_start.cols * args->heads / group_of(args);
    const int64_t splits = ceil_div(blocks_wanted(target), blocks);
    return splits < MOST_SPLITS ? static_cast<int>(splits) : static_cast<int>(MOST_SPLITS);
}

int64_t attention_decode_workspace(const struct cuda_target *target, const struct attention_forward_args *args)
{
    const int64_t whole = args->segments.q_start.cols * args->heads;
    const int64_t parts = whole + blocks_wanted(target) * group_of(args);
    if (args->segments.q_start.data == args->segments.kv_start.data)
        return 0;
    return parts * (args->head_dim + PART_MORE) * static_cast<int64_t>(sizeof(float));
}

bool attention_decode_takes(const struct attention_forward_args *args)
{
    const struct tensor *tensors[] = {&args->q, &args->k, &args->v, &args->o};
    const struct attention_segments *s = &args->segments;
    return s->full && s->longest == 1 && s->q_start.data != s->kv_start.data &&
           attention_way_supports(DECODE, tensors, sizeof tensors / sizeof *tensors, args->head_dim);
}

void attention_decode(const struct cuda_target *target, const struct attention_forward_args *args)
{
    const struct attention_segments *s = &args->segments;
    const unsigned slots = static_cast<unsigned>(s->q_start.cols), heads = static_cast<unsigned>(args->heads);
    visit(args->q.dtype, [&](auto zero) {
        using T = decltype(zero);
        struct decode_job<T> job = {
            view_of<const T>(args->q), view_of<const T>(args->k), view_of<const T>(args->v), view_of<T>(args->o),
                view_of<float>(args->lse), static_cast<const int *>(s->q_start.data),
                static_cast<const int *>(s->kv_start.data), static_cast<const int *>(s->kv_length.data),
                static_cast<const int *>(s->q_offset.data), reinterpret_cast<float *>(target->workspace),
                static_cast<int>(args->heads), static_cast<int>(args->heads / args->kv_heads),
                static_cast<int>(args->head_dim), 1, splits_of(target, args), args->scale *static_cast<float>(M_LOG2E),
                mask_of(args)
        };
        while (job.lanes * pack_width<T> < job.dim)
            job.lanes *= 2;
        auto run = [&](auto group) {
            const dim3 grid(slots, heads / group.value, static_cast<unsigned>(job.splits));
            decode<T, group.value><<<grid, THREADS, 0, target->stream>>>(job);
        };
        const int group = group_of(args);
        if (group == 1)
            run(constant<1>());
        else if (group == 2)
            run(constant<2>());
        else if (group == 4)
            run(constant<4>());
        else
            run(constant<8>());
        CUDA_CHECK_LAUNCH("attention_decode");
        if (job.splits > 1) {
            merge<T><<<dim3(slots, heads), CUDA_WIDEST_HEAD, 0, target->stream>>>(job);
            CUDA_CHECK_LAUNCH("attention_decode");
        }
    });
}
