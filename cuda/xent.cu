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
            struct running_sum running = {-0x1p100f, 0.0f}; /* finite: the difference of two is no NaN */
            auto add_pack = [&](int, const float(&v)[N]) { add_exps(running, v); };
            auto add_single = [&](int, const float(&v)[1]) { add_exps(running, v); };
            each_logit<N>(x, (int)logits.cols, add_pack, add_single);
            float largest = team_max(running.largest, memory);
            float sum = team_sum(running.sum * exponential(running.largest - largest), memory), log_sum = logf(sum);
            row_lse = largest + log_sum;
            row_loss = largest - to_float(x[label]) + log_sum;
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

/* -- Gradient ----------------------------------------------------------------------------------------------------- */

template <typename T, int N>
__global__ void __launch_bounds__(XENT_TEAM, XENT_RESIDENT)
    xent_grad(view<T> logits, const int32_t *labels, const float *lse)
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
        auto subtract = [&](int first, auto &v) {
            constexpr int count = sizeof v / sizeof v[0];
#pragma unroll
            for (int i = 0; i < count; i++)
                v[i] = exponential(v[i] - row_lse) - (first + i == label ? 1.0f : 0.0f);
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
                                                                  static_cast<const float *>(args->lse.data));
        CUDA_CHECK_LAUNCH("xent_grad");
    });
}
