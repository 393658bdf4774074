/* Cross-entropy. A team a row. A row's packs end before its last elements where the vocabulary is no multiple of their
 * width (rows are padded): the rest is taken singly. */
#include "cuda/team.cuh"

#include <algorithm>

enum { XENT_TEAM = 512, XENT_RESIDENT = 2, XENT_AHEAD = 4 };

/* Calls use(first element, values) for all of a row's elements that are this thread's. */
template <int N, typename T, typename Pack, typename Single>
__device__ __forceinline__ void each_logit(const T *row, int cols, Pack use_pack, Single use_single)
{
    int packs = cols / N;
    for (int first = threadIdx.x; first < packs; first += XENT_AHEAD * blockDim.x) {
        pack<T, N> in[XENT_AHEAD];
#pragma unroll
        for (int i = 0; i < XENT_AHEAD; i++) {
            int p = first + i * blockDim.x;
            if (p < packs)
                in[i] = load_pack<N>(row + p * N);
        }
#pragma unroll
        for (int i = 0; i < XENT_AHEAD; i++) {
            int p = first + i * blockDim.x;
            if (p >= packs)
                break;
            float v[N];
            unpack(in[i], v);
            use_pack(p * N, v);
        }
    }
    for (int c = packs * N + threadIdx.x; c < cols; c += blockDim.x) {
        float v[1] = {to_float(row[c])};
        use_single(c, v);
    }
}

/* The sum of exp(x - largest), taken in one pass: when the largest grows, what has been summed shrinks. */
struct running_sum {
    float largest, sum;
};

template <int N> __device__ __forceinline__ void add_exps(struct running_sum &running, const float (&x)[N])
{
    float largest = running.largest;
#pragma unroll
    for (int i = 0; i < N; i++)
        largest = fmaxf(largest, x[i]);
    float sum = running.sum * exponential(running.largest - largest);
#pragma unroll
    for (int i = 0; i < N; i++)
        sum += power_of_2((x[i] - largest) * 0x1.715476p0f); /* log2(e) */
    running = {largest, sum};
}

/* Of a row: every thread of the team gets it. */
template <int N, typename T>
__device__ __forceinline__ struct running_sum sum_row(const T *x, int cols, team_memory<1> &memory)
{
    struct running_sum running = {-0x1p100f, 0.0f}; /* finite: the difference of two is no NaN */
    auto add_pack = [&](int, const float(&v)[N]) { add_exps(running, v); };
    auto add_single = [&](int, const float(&v)[1]) { add_exps(running, v); };
    each_logit<N>(x, cols, add_pack, add_single);
    float largest = team_max(running.largest, memory);
    return {largest, team_sum(running.sum * exponential(running.largest - largest), memory)};
}

/* partial: for each block the sum of its losses and the number of its labels. */
template <typename T, int N>
__global__ void __launch_bounds__(XENT_TEAM, XENT_RESIDENT)
    xent_stat(view<const T> logits, const int32_t *labels, float *loss, float *lse, double2 *partial)
{
    __shared__ team_memory<1> memory;
    __shared__ double2 of_team[XENT_TEAM / WARP];
    double2 total = {0.0, 0.0};
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < logits.rows;
         row += gridDim.x * blockDim.y) {
        int label = labels[row];
        float row_loss = 0.0f, row_lse = 0.0f;
        if (label >= 0) {
            const T *x = logits.row(row);
            struct running_sum all = sum_row<N>(x, (int)logits.cols, memory);
            float log_sum = logf(all.sum);
            row_lse = all.largest + log_sum;
            row_loss = all.largest - to_float(x[label]) + log_sum;
            total.x += (double)row_loss;
            total.y += 1.0;
        }
        if (threadIdx.x == 0) {
            loss[row] = row_loss;
            lse[row] = row_lse;
        }
    }
    if (threadIdx.x == 0)
        of_team[threadIdx.y] = total;
    __syncthreads();
    if (threadIdx.x > 0 || threadIdx.y > 0)
        return;
    for (int team = 1; team < blockDim.y; team++) {
        total.x += of_team[team].x;
        total.y += of_team[team].y;
    }
    partial[blockIdx.x] = total;
}

enum { TOTAL_THREADS = 256 };

static __global__ void __launch_bounds__(TOTAL_THREADS) xent_total(const double2 *partial, int blocks, double *total)
{
    __shared__ double shared[WARP];
    double loss = 0.0, count = 0.0;
    for (int i = threadIdx.x; i < blocks; i += TOTAL_THREADS) {
        loss += partial[i].x;
        count += partial[i].y;
    }
    loss = block_sum(loss, shared);
    count = block_sum(count, shared);
    if (threadIdx.x == 0) {
        total[0] += loss;
        total[1] += count;
    }
}

/* How rows are dealt to blocks. */
struct xent_cut {
    dim3 block;
    unsigned blocks;
};

static struct xent_cut cut(const struct tensor &logits, int n, int multiprocessors)
{
    dim3 block = team_block(logits.cols / n, XENT_AHEAD, XENT_TEAM);
    int64_t resident = XENT_RESIDENT * (XENT_TEAM / (block.x * block.y));
    return {block, team_blocks(logits.rows, block, multiprocessors * resident)};
}

/* By the shape alone, which is the order of the total. */
static struct xent_cut total_cut(const struct tensor &logits, int n)
{
    return cut(logits, n, USUAL_MULTIPROCESSORS);
}

/* Calls f as visit_packs does; rows need not consist of packs. */
template <typename F> static void visit_logits(const struct tensor &logits, F f)
{
    visit(logits.dtype, [&](auto zero) {
        constexpr int widest = pack_width<decltype(zero)>;
        if (rows_fit(logits, widest))
            f(zero, std::integral_constant<int, widest>());
        else
            f(zero, std::integral_constant<int, 1>());
    });
}

int64_t cuda_xent_stat_workspace(const struct cuda_target *, const struct xent_stat_args *args)
{
    unsigned blocks = total_cut(args->logits, 1).blocks; /* where packs do not fit, and where they do */
    visit(args->logits.dtype,
          [&](auto zero) { blocks = std::max(blocks, total_cut(args->logits, pack_width<decltype(zero)>).blocks); });
    return blocks * (int64_t)sizeof(double2);
}

void cuda_xent_stat(const struct cuda_target *target, const struct xent_stat_args *args)
{
    double2 *partial = reinterpret_cast<double2 *>(target->workspace);
    if (args->logits.rows == 0)
        return;
    visit_logits(args->logits, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        struct xent_cut c = total_cut(args->logits, N);
        xent_stat<T, N><<<c.blocks, c.block, 0, target->stream>>>(
            view_of<const T>(args->logits), static_cast<const int32_t *>(args->labels.data),
            static_cast<float *>(args->loss.data), static_cast<float *>(args->lse.data), partial);
        CUDA_CHECK_LAUNCH("xent_stat");
        xent_total<<<1, TOTAL_THREADS, 0, target->stream>>>(partial, (int)c.blocks,
                                                            static_cast<double *>(args->total.data));
        CUDA_CHECK_LAUNCH("xent_total");
    });
}

/* -- Parts of the vocabulary -------------------------------------------------------------------------------------- */

template <typename T, int N>
__global__ void __launch_bounds__(XENT_TEAM, XENT_RESIDENT)
    xent_part(view<const T> logits, const int32_t *labels, int origin, view<float> statistics)
{
    __shared__ team_memory<1> memory;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < logits.rows;
         row += gridDim.x * blockDim.y) {
        int label = labels[row], target = label - origin;
        struct running_sum all = {0.0f, 0.0f};
        bool here = label >= 0 && target >= 0 && target < logits.cols;
        if (label >= 0)
            all = sum_row<N>(logits.row(row), (int)logits.cols, memory);
        if (threadIdx.x > 0)
            continue;
        statistics.row(XENT_LARGEST)[row] = all.largest;
        statistics.row(XENT_SUM)[row] = all.sum;
        statistics.row(XENT_TARGET)[row] = here ? to_float(logits.row(row)[target]) : 0.0f;
    }
}

void cuda_xent_part(const struct cuda_target *target, const struct xent_part_args *args)
{
    if (args->logits.rows == 0)
        return;
    visit_logits(args->logits, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        struct xent_cut c = cut(args->logits, N, target->multiprocessors);
        xent_part<T, N><<<c.blocks, c.block, 0, target->stream>>>(
            view_of<const T>(args->logits), static_cast<const int32_t *>(args->labels.data), (int)args->origin,
            view_of<float>(args->statistics));
        CUDA_CHECK_LAUNCH("xent_part");
    });
}

/* partial: as in xent_stat; a thread a token. */
static __global__ void __launch_bounds__(TOTAL_THREADS)
    xent_merge(view<const float> statistics, const int32_t *labels, float *loss, float *lse, double2 *partial)
{
    __shared__ double shared[WARP];
    int64_t t = (int64_t)blockIdx.x * TOTAL_THREADS + threadIdx.x;
    bool counted = t < statistics.cols && labels[t] >= 0;
    float row_loss = 0.0f, row_lse = 0.0f;
    if (counted) {
        float largest = statistics.row(XENT_LARGEST)[t], sum = 0.0f, target = 0.0f;
        for (int64_t p = XENT_STATISTICS; p < statistics.rows; p += XENT_STATISTICS)
            largest = fmaxf(largest, statistics.row(p + XENT_LARGEST)[t]);
        for (int64_t p = 0; p < statistics.rows; p += XENT_STATISTICS) {
            sum += statistics.row(p + XENT_SUM)[t] * exponential(statistics.row(p + XENT_LARGEST)[t] - largest);
            target += statistics.row(p + XENT_TARGET)[t];
        }
        float log_sum = logf(sum);
        row_lse = largest + log_sum;
        row_loss = largest - target + log_sum;
    }
    if (t < statistics.cols) {
        loss[t] = row_loss;
        lse[t] = row_lse;
    }
    double sum_of_losses = block_sum((double)row_loss, shared), count = block_sum(counted ? 1.0 : 0.0, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = {sum_of_losses, count};
}

static int64_t merge_blocks(const struct xent_merge_args *args)
{
    return ceil_div(args->statistics.cols, TOTAL_THREADS);
}

int64_t cuda_xent_merge_workspace(const struct cuda_target *, const struct xent_merge_args *args)
{
    return merge_blocks(args) * (int64_t)sizeof(double2);
}

void cuda_xent_merge(const struct cuda_target *target, const struct xent_merge_args *args)
{
    double2 *partial = reinterpret_cast<double2 *>(target->workspace);
    unsigned blocks = (unsigned)merge_blocks(args);
    if (blocks == 0)
        return;
    xent_merge<<<blocks, TOTAL_THREADS, 0, target->stream>>>(
        view_of<const float>(args->statistics), static_cast<const int32_t *>(args->labels.data),
        static_cast<float *>(args->loss.data), static_cast<float *>(args->lse.data), partial);
    CUDA_CHECK_LAUNCH("xent_merge");
    xent_total<<<1, TOTAL_THREADS, 0, target->stream>>>(partial, (int)blocks, static_cast<double *>(args->total.data));
    CUDA_CHECK_LAUNCH("xent_total");
}

/* -- Gradient ----------------------------------------------------------------------------------------------------- */

template <typename T, int N>
__global__ void __launch_bounds__(XENT_TEAM, XENT_RESIDENT)
    xent_grad(view<T> logits, const int32_t *labels, const float *lse, int origin)
{
    int cols = (int)logits.cols, packs = cols / N;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < logits.rows;
         row += gridDim.x * blockDim.y) {
        T *x = logits.row(row);
        int label = labels[row];
        if (label < 0) { /* written, not read */
            const float zeros[N] = {}, zero[1] = {};
            for (int p = threadIdx.x; p < packs; p += blockDim.x)
                store(x + p * N, zeros);
            for (int c = packs * N + threadIdx.x; c < cols; c += blockDim.x)
                store(x + c, zero);
            continue;
        }
        float row_lse = lse[row];
        int target = label - origin;
        auto subtract = [&](int first, auto &v) {
            constexpr int count = sizeof v / sizeof v[0];
#pragma unroll
            for (int i = 0; i < count; i++)
                v[i] = exponential(v[i] - row_lse) - (first + i == target ? 1.0f : 0.0f);
            store(x + first, v);
        };
        each_logit<N>(x, cols, subtract, subtract);
    }
}

void cuda_xent_grad(const struct cuda_target *target, const struct xent_grad_args *args)
{
    if (tensor_count(&args->logits) == 0)
        return;
    visit_logits(args->logits, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        struct xent_cut c = cut(args->logits, N, target->multiprocessors);
        xent_grad<T, N><<<c.blocks, c.block, 0, target->stream>>>(view_of<T>(args->logits),
                                                                  static_cast<const int32_t *>(args->labels.data),
                                                                  static_cast<const float *>(args->lse.data),
                                                                  (int)args->origin);
        CUDA_CHECK_LAUNCH("xent_grad");
    });
}
