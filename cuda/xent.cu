/* Cross-entropy, with one team per row. Rows are padded, so packs are aligned; if the vocabulary is not a multiple of a
 * pack's width, a row's last elements are processed one by one. */
#include "cuda/team.cuh"

#include <algorithm>

enum { XENT_TEAM = 512, XENT_RESIDENT = 2, XENT_AHEAD = 4, XENT_LARGE_TEAM = 1024 };

/* Limit of shared memory per SM for copies of rows. */
enum { COPY_BYTES = 216 << 10 };

/* The first packs of a row in shared memory. Each is used only by the thread that read it. */
template <typename T, int N> struct row_copy {
    pack<T, N> *at;
    int packs;
};

enum row_pass { READ_ROW, COPY_ROW, READ_COPY };

/* Calls use_pack or use_single (first column, values) for all elements of a row that are this thread's. */
template <int N, enum row_pass PASS, typename T, typename Pack, typename Single>
__device__ __forceinline__ void each_logit(const T *row, int cols, const struct row_copy<T, N> &copy, Pack use_pack,
                                           Single use_single)
{
    int packs = cols / N;
    for (int first = threadIdx.x; first < packs; first += XENT_AHEAD * blockDim.x) {
        pack<T, N> in[XENT_AHEAD];
#pragma unroll
        for (int i = 0; i < XENT_AHEAD; i++) {
            int p = first + i * blockDim.x;
            if (PASS == READ_COPY && p < copy.packs)
                in[i] = copy.at[p];
            else if (p < packs)
                in[i] = load_pack<N>(row + p * N);
        }
#pragma unroll
        for (int i = 0; i < XENT_AHEAD; i++) {
            int p = first + i * blockDim.x;
            if (p >= packs)
                break;
            if (PASS == COPY_ROW && p < copy.packs)
                copy.at[p] = in[i];
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

/* A running sum of exp(x - largest) in one pass: when `largest` grows, the sum is rescaled. */
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

/* Returns a row's sum to every thread of the team. */
template <int N, enum row_pass PASS, typename T>
__device__ __forceinline__ struct running_sum sum_row(const T *x, int cols, const struct row_copy<T, N> &copy,
                                                      team_memory<1> &memory)
{
    struct running_sum running = {-0x1p100f, 0.0f}; /* finite, so that differences are not NaN */
    auto add_pack = [&](int, const float(&v)[N]) { add_exps(running, v); };
    auto add_single = [&](int, const float(&v)[1]) { add_exps(running, v); };
    each_logit<N, PASS>(x, cols, copy, add_pack, add_single);
    float largest = team_max(running.largest, memory);
    return {largest, team_sum(running.sum * exponential(running.largest - largest), memory)};
}

/* Replaces a row by its gradient, in which the softmax has a factor (z-loss). target: the label's column, which may be
 * outside the row. If label < 0, the row is written and not read. */
template <int N, enum row_pass PASS, typename T>
__device__ __forceinline__ void subtract_row(T *x, int cols, const struct row_copy<T, N> &copy, int label, int target,
                                             float row_lse, float factor)
{
    if (label < 0) {
        const float zeros[N] = {}, zero[1] = {};
        int packs = cols / N;
        for (int p = threadIdx.x; p < packs; p += blockDim.x)
            store(x + p * N, zeros);
        for (int c = packs * N + threadIdx.x; c < cols; c += blockDim.x)
            store(x + c, zero);
        return;
    }
    auto subtract = [&](int first, auto &v) {
        constexpr int count = sizeof v / sizeof v[0];
#pragma unroll
        for (int i = 0; i < count; i++)
            v[i] = factor * exponential(v[i] - row_lse) - (first + i == target ? 1.0f : 0.0f);
        store(x + first, v);
    };
    each_logit<N, PASS>(x, cols, copy, subtract, subtract);
}

/* partial: for each block the sum of its losses and the number of its labels. BOTH: rows are replaced by their
 * gradients, and the first copied_packs of a row are kept in shared memory; then a block has one team. */
template <typename T, int N, bool BOTH>
__global__ void __launch_bounds__(BOTH ? XENT_LARGE_TEAM : XENT_TEAM, BOTH ? 1 : XENT_RESIDENT)
    xent_stat(view<T> logits, const int32_t *labels, float *loss, float *lse, double2 *partial, int copied_packs,
              float z_loss)
{
    extern __shared__ __align__(16) char copied[];
    __shared__ team_memory<1> memory;
    __shared__ double2 of_team[WARP];
    const struct row_copy<T, N> copy = {
        reinterpret_cast<pack<T, N> *>(copied), copied_packs
    };
    double2 total = {0.0, 0.0};
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < logits.rows;
         row += gridDim.x * blockDim.y) {
        int label = labels[row];
        float row_loss = 0.0f, row_lse = 0.0f;
        T *x = logits.row(row);
        if (label >= 0) {
            float target = to_float(x[label]);
            struct running_sum all = sum_row < N, BOTH ? COPY_ROW : READ_ROW > (x, (int)logits.cols, copy, memory);
            float log_sum = logf(all.sum);
            row_lse = all.largest + log_sum;
            row_loss = all.largest - target + log_sum;
            total.x += (double)row_loss;
            total.y += 1.0;
        }
        if (BOTH) {
            __syncwarp(); /* all threads have read the label's logit */
            subtract_row<N, READ_COPY>(x, (int)logits.cols, copy, label, label, row_lse,
                                       1.0f + 2.0f * z_loss * row_lse);
        }
        if (threadIdx.x == 0) {
            loss[row] = row_loss;
            if (!BOTH)
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

/* How rows are assigned to blocks. */
struct xent_grid {
    dim3 block;
    unsigned blocks;
};

/* Returns a split with teams of at most `team` threads, `resident` per SM, or more if teams are smaller.
 * multiprocessors: USUAL_MULTIPROCESSORS if the order of a total depends on the split. */
static struct xent_grid grid_of(const struct tensor &logits, int n, int64_t team, int64_t resident, int multiprocessors)
{
    dim3 block = team_block(logits.cols / n, XENT_AHEAD, team);
    resident *= team / (block.x * block.y);
    return {block, team_blocks(logits.rows, block, multiprocessors * resident)};
}

static struct xent_grid stat_grid(const struct tensor &logits, int n)
{
    return grid_of(logits, n, XENT_TEAM, XENT_RESIDENT, USUAL_MULTIPROCESSORS);
}

/* Returns the split of xent_both, which copies rows: the longest rows have an SM to themselves. */
static struct xent_grid both_grid(const struct tensor &logits, int n)
{
    return logits.cols * dtype_size(logits.dtype) > COPY_BYTES / 2
               ? grid_of(logits, n, XENT_LARGE_TEAM, 1, USUAL_MULTIPROCESSORS)
               : stat_grid(logits, n);
}

/* Calls f as visit_packs does, but rows need not consist of whole packs. */
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

template <typename GRID> static int64_t partial_bytes(const struct tensor &logits, GRID grid_of)
{
    unsigned blocks = grid_of(logits, 1).blocks; /* the larger number for both pack widths */
    visit(logits.dtype,
          [&](auto zero) { blocks = std::max(blocks, grid_of(logits, pack_width<decltype(zero)>).blocks); });
    return blocks * (int64_t)sizeof(double2);
}

int64_t cuda_xent_stat_workspace(const struct cuda_target *, const struct xent_stat_args *args)
{
    return partial_bytes(args->logits, stat_grid);
}

int64_t cuda_xent_both_workspace(const struct cuda_target *, const struct xent_both_args *args)
{
    return partial_bytes(args->logits, both_grid);
}

/* Adds up the partial sums of `blocks` blocks, after the kernel that wrote them. */
static void add_partial(const struct cuda_target *target, unsigned blocks, const struct tensor &total)
{
    CUDA_CHECK_LAUNCH("cross-entropy");
    xent_total<<<1, TOTAL_THREADS, 0, target->stream>>>(reinterpret_cast<const double2 *>(target->workspace),
                                                        (int)blocks, static_cast<double *>(total.data));
    CUDA_CHECK_LAUNCH("xent_total");
}

void cuda_xent_stat(const struct cuda_target *target, const struct xent_stat_args *args)
{
    if (args->logits.rows == 0)
        return;
    visit_logits(args->logits, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        struct xent_grid c = stat_grid(args->logits, N);
        xent_stat<T, N, false><<<c.blocks, c.block, 0, target->stream>>>(
            view_of<T>(args->logits), static_cast<const int32_t *>(args->labels.data),
            static_cast<float *>(args->loss.data), static_cast<float *>(args->lse.data),
            reinterpret_cast<double2 *>(target->workspace), 0, 0.0f);
        add_partial(target, c.blocks, args->total);
    });
}

/* Returns the shared memory that a block of this device may request, at most COPY_BYTES. */
static int64_t most_copied()
{
    static const int64_t most = [] {
        int device = 0, bytes = 0;
        CUDA_CHECK(cudaGetDevice(&device));
        CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
        return std::min<int64_t>(bytes - (8 << 10), COPY_BYTES); /* less what kernels use otherwise */
    }();
    return most;
}

void cuda_xent_both(const struct cuda_target *target, const struct xent_both_args *args)
{
    if (args->logits.rows == 0)
        return;
    visit_logits(args->logits, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        struct xent_grid c = both_grid(args->logits, N);
        int64_t packs = args->logits.cols / N, width_bytes = N * (int64_t)sizeof(T);
        int64_t most = most_copied() / (c.block.x > XENT_TEAM ? 1 : XENT_RESIDENT) / width_bytes;
        int64_t copied = c.block.y == 1 ? std::min(packs, most) : 0;
        CUDA_CHECK(cudaFuncSetAttribute(xent_stat<T, N, true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)most_copied()));
        xent_stat<T, N, true><<<c.blocks, c.block, (size_t)(copied * width_bytes), target->stream>>>(
            view_of<T>(args->logits), static_cast<const int32_t *>(args->labels.data),
            static_cast<float *>(args->loss.data), nullptr, reinterpret_cast<double2 *>(target->workspace), (int)copied,
            args->z_loss);
        add_partial(target, c.blocks, args->total);
    });
}

/* -- Parts of the vocabulary -------------------------------------------------------------------------------------- */

template <typename T, int N>
__global__ void __launch_bounds__(XENT_TEAM, XENT_RESIDENT)
    xent_part(view<const T> logits, const int32_t *labels, int origin, view<float> statistics)
{
    const struct row_copy<T, N> none = {
    };
    __shared__ team_memory<1> memory;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < logits.rows;
         row += gridDim.x * blockDim.y) {
        int label = labels[row], target = label - origin;
        struct running_sum all = {0.0f, 0.0f};
        bool here = label >= 0 && target >= 0 && target < logits.cols;
        if (label >= 0)
            all = sum_row<N, READ_ROW>(logits.row(row), (int)logits.cols, none, memory);
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
        struct xent_grid c = grid_of(args->logits, N, XENT_TEAM, XENT_RESIDENT, target->multiprocessors);
        xent_part<T, N><<<c.blocks, c.block, 0, target->stream>>>(view_of<const T>(args->logits),
                                                                  static_cast<const int32_t *>(args->labels.data),
                                                                  (int)args->origin, view_of<float>(args->statistics));
        CUDA_CHECK_LAUNCH("xent_part");
    });
}

/* partial: as in xent_stat. One thread per token. */
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
    xent_grad(view<T> logits, const int32_t *labels, const float *lse, int origin, float z_loss)
{
    const struct row_copy<T, N> none = {
    };
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < logits.rows;
         row += gridDim.x * blockDim.y) {
        int label = labels[row];
        float row_lse = label < 0 ? 0.0f : lse[row];
        subtract_row<N, READ_ROW>(logits.row(row), (int)logits.cols, none, label, label - origin, row_lse,
                                  1.0f + 2.0f * z_loss * row_lse);
    }
}

void cuda_xent_grad(const struct cuda_target *target, const struct xent_grad_args *args)
{
    if (tensor_count(&args->logits) == 0)
        return;
    visit_logits(args->logits, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        struct xent_grid c = grid_of(args->logits, N, XENT_TEAM, XENT_RESIDENT, target->multiprocessors);
        xent_grad<T, N><<<c.blocks, c.block, 0, target->stream>>>(
            view_of<T>(args->logits), static_cast<const int32_t *>(args->labels.data),
            static_cast<const float *>(args->lse.data), (int)args->origin, args->z_loss);
        CUDA_CHECK_LAUNCH("xent_grad");
    });
}
