/* The two norms are one shape: rmsnorm is layernorm without the mean and the bias (CENTRED false). A team keeps its row
 * in registers, so each element is read once; what does not fit there is read again. */
#ifndef CUDA_NORM_CUH
#define CUDA_NORM_CUH

#include "cuda/column_sum.cuh"
#include "cuda/team.cuh"

/* Calls f(k, p) for each of this thread's packs: pack p of the row, the thread's k-th; k is KEPT for all after those.
 */
template <int KEPT, typename F> __device__ __forceinline__ void each_pack(int packs, F f)
{
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        int p = threadIdx.x + k * blockDim.x;
        if (p < packs)
            f(k, p);
    }
    for (int p = threadIdx.x + KEPT * blockDim.x; p < packs; p += blockDim.x)
        f(KEPT, p);
}

/* This thread's part of a row. */
template <typename T, int N, int KEPT> struct kept_row {
    const T *from;
    pack<T, N> kept[KEPT];

    __device__ __forceinline__ kept_row(const T *row, int packs) : from(row)
    {
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int p = threadIdx.x + k * blockDim.x;
            if (p < packs)
                kept[k] = load_pack<N>(row + p * N);
        }
    }

    __device__ __forceinline__ void values(int k, int p, float (&to)[N]) const
    {
        if (k < KEPT)
            unpack(kept[k], to);
        else
            load(from + p * N, to);
    }
};

/* -- Forward ------------------------------------------------------------------------------------------------------ */

template <typename T> struct norm_forward {
    view<const T> x;
    const T *weight, *bias;
    view<T> y;
    float *mean, *rstd;
    float eps;
};

enum { NORM_FORWARD_KEPT = 4, NORM_FORWARD_TEAM = 512, NORM_FORWARD_RESIDENT = 2 };

template <typename T, int N, bool CENTRED>
__global__ void __launch_bounds__(NORM_FORWARD_TEAM, NORM_FORWARD_RESIDENT) norm_forward_kernel(norm_forward<T> a)
{
    constexpr int KEPT = NORM_FORWARD_KEPT;
    __shared__ team_memory<1> one;
    __shared__ team_memory<2> two;
    int packs = (int)(a.x.cols / N);
    float width = (float)a.x.cols;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < a.x.rows; row += gridDim.x * blockDim.y) {
        kept_row<T, N, KEPT> x(a.x.row(row), packs);
        float v[N], mean = 0.0f, square = 0.0f;
        if (CENTRED) {
            /* A first mean and, from what it leaves, its correction, so that a mean far larger than the deviation is
             * not lost in the sum's roundings. */
            each_pack<KEPT>(packs, [&](int k, int p) {
                x.values(k, p, v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    mean += v[i];
            });
            mean = team_sum(mean, one) / width;
            float sums[2] = {0.0f, 0.0f};
            each_pack<KEPT>(packs, [&](int k, int p) {
                x.values(k, p, v);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    float d = v[i] - mean;
                    sums[0] += d;
                    sums[1] += d * d;
                }
            });
            team_sum(sums, two);
            float shift = sums[0] / width;
            mean += shift;
            square = fmaxf(sums[1] / width - shift * shift, 0.0f);
        } else {
            each_pack<KEPT>(packs, [&](int k, int p) {
                x.values(k, p, v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    square += v[i] * v[i];
            });
            square = team_sum(square, one) / width;
        }
        float rstd = rsqrtf(square + a.eps);
        if (threadIdx.x == 0) {
            a.rstd[row] = rstd;
            if (CENTRED)
                a.mean[row] = mean;
        }
        T *y = a.y.row(row);
        each_pack<KEPT>(packs, [&](int k, int p) {
            float weight[N], bias[N];
            x.values(k, p, v);
            load(a.weight + p * N, weight);
            if (CENTRED)
                load(a.bias + p * N, bias);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = CENTRED ? (v[i] - mean) * rstd * weight[i] + bias[i] : v[i] * rstd * weight[i];
            store(y + p * N, v);
        });
    }
}

template <bool CENTRED>
inline void norm_forward_launch(const struct cuda_target *target, const char *name, const struct tensor &x,
                                const struct tensor &weight, const struct tensor &bias, const struct tensor &y,
                                const struct tensor &mean, const struct tensor &rstd, float eps)
{
    if (tensor_count(&x) == 0)
        return;
    visit_packs({x, weight, bias, y}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        dim3 block = team_block(x.cols / N, NORM_FORWARD_KEPT, NORM_FORWARD_TEAM);
        int64_t resident = NORM_FORWARD_RESIDENT * (NORM_FORWARD_TEAM / (block.x * block.y));
        unsigned blocks = team_blocks(x.rows, block, target->multiprocessors * resident);
        norm_forward<T> a = {view_of<const T>(x),
                             static_cast<const T *>(weight.data),
                             static_cast<const T *>(bias.data),
                             view_of<T>(y),
                             static_cast<float *>(mean.data),
                             static_cast<float *>(rstd.data),
                             eps};
        norm_forward_kernel<T, N, CENTRED><<<blocks, block, 0, target->stream>>>(a);
        CUDA_CHECK_LAUNCH(name);
    });
}

/* -- Backward ----------------------------------------------------------------------------------------------------- */

/* residual, dx and the parameters' gradients may be absent: NULL. dweight and dbias: a row of sums for each block. */
template <typename T> struct norm_backward {
    view<const T> x, dy, residual;
    const T *weight;
    const float *mean, *rstd;
    view<T> dx;
    float *dweight, *dbias;
    int64_t block_rows;
};

/* Packs that a thread keeps of a row and of the sums for the parameters' gradients; threads that a multiprocessor has
 * the registers for. */
enum { NORM_BACKWARD_KEPT = 2, NORM_BACKWARD_TEAM = 512, NORM_BACKWARD_RESIDENT = 512 };

/* Adds up the teams' sums in the order of the teams and writes the block's. All threads of the block call it. */
template <int N, int KEPT>
__device__ __forceinline__ void write_block_sums(const float (&sums)[KEPT][N], int packs, float *to)
{
    extern __shared__ float team_sums[]; /* [teams][threads of a team * N] */
    int team_width = blockDim.x * N;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++)
            team_sums[threadIdx.y * team_width + threadIdx.x * N + i] = sums[k][i];
        __syncthreads();
        int p = threadIdx.x + k * blockDim.x;
        if (threadIdx.y > 0 || p >= packs)
            continue;
        float total[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            total[i] = sums[k][i];
        for (int team = 1; team < blockDim.y; team++)
#pragma unroll
            for (int i = 0; i < N; i++)
                total[i] += team_sums[team * team_width + threadIdx.x * N + i];
        store(to + p * N, total);
    }
}

template <typename T, int N, bool CENTRED>
__global__ void __launch_bounds__(NORM_BACKWARD_TEAM) norm_backward_kernel(norm_backward<T> a)
{
    constexpr int KEPT = NORM_BACKWARD_KEPT;
    __shared__ team_memory<1> one;
    __shared__ team_memory<2> two;
    int packs = (int)(a.x.cols / N), kept = KEPT * blockDim.x;
    float width = (float)a.x.cols;
    float dweight[KEPT][N] = {}, dbias[KEPT][N] = {};
    float *block_dweight = a.dweight + blockIdx.x * a.x.cols, *block_dbias = a.dbias + blockIdx.x * a.x.cols;
    int64_t first = blockIdx.x * a.block_rows, end = min(first + a.block_rows, a.x.rows);

    /* Of packs that are not kept the sums are in memory; then there is one team. */
    for (int c = (kept + threadIdx.x) * N; a.dweight != NULL && c < a.x.cols; c += blockDim.x * N)
        for (int i = 0; i < N; i++) {
            block_dweight[c + i] = 0.0f;
            if (CENTRED)
                block_dbias[c + i] = 0.0f;
        }

    for (int64_t row = first + threadIdx.y; row < end; row += blockDim.y) {
        kept_row<T, N, KEPT> x(a.x.row(row), packs), dy(a.dy.row(row), packs);
        kept_row<T, N, KEPT> residual(a.residual.row(row), a.residual.data != NULL ? packs : 0);
        float mean = CENTRED ? a.mean[row] : 0.0f, rstd = a.rstd[row], shift = 0.0f, factor = 0.0f;
        float v[N], d[N], weight[N];
        if (a.dx.data != NULL) {
            float sums[2] = {0.0f, 0.0f}; /* of w dy (x - mean), of w dy */
            each_pack<KEPT>(packs, [&](int k, int p) {
                x.values(k, p, v);
                dy.values(k, p, d);
                load(a.weight + p * N, weight);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    float product = weight[i] * d[i];
                    sums[0] += product * (v[i] - mean);
                    sums[1] += product;
                }
            });
            if (CENTRED)
                team_sum(sums, two);
            else
                sums[0] = team_sum(sums[0], one);
            shift = CENTRED ? sums[1] / width : 0.0f;
            factor = rstd * rstd * (sums[0] / width);
        }
        each_pack<KEPT>(packs, [&](int k, int p) {
            x.values(k, p, v);
            dy.values(k, p, d);
            if (a.dweight != NULL) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    float normal = (v[i] - mean) * rstd;
                    if (k < KEPT) {
                        dweight[k][i] += d[i] * normal;
                        dbias[k][i] += d[i];
                        continue;
                    }
                    block_dweight[p * N + i] += d[i] * normal;
                    if (CENTRED)
                        block_dbias[p * N + i] += d[i];
                }
            }
            if (a.dx.data == NULL)
                return;
            float by_passed[N] = {};
            if (a.residual.data != NULL)
                residual.values(k, p, by_passed);
            load(a.weight + p * N, weight);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = by_passed[i] + rstd * (weight[i] * d[i] - shift - (v[i] - mean) * factor);
            store(a.dx.row(row) + p * N, v);
        });
    }
    if (a.dweight == NULL)
        return;
    write_block_sums(dweight, packs, block_dweight);
    if (CENTRED)
        write_block_sums(dbias, packs, block_dbias);
}

/* How rows are dealt to blocks, by the shape alone: the order of the sums for the parameters' gradients. */
struct norm_cut {
    dim3 block;
    int64_t block_rows, blocks;
};

inline struct norm_cut norm_backward_cut(const struct tensor &x, int n)
{
    enum { ROWS = 16 }; /* at least so many a team: a block's sums cost as much traffic as one of them */
    dim3 block = team_block(x.cols / n, NORM_BACKWARD_KEPT, NORM_BACKWARD_TEAM);
    int64_t most = USUAL_MULTIPROCESSORS * (NORM_BACKWARD_RESIDENT / (block.x * block.y));
    int64_t rows = ceil_div(x.rows, team_blocks(ceil_div(x.rows, ROWS), block, most));
    return {block, rows, ceil_div(x.rows, rows)};
}

/* For so many parameters' gradients. */
inline int64_t norm_backward_workspace(const struct tensor &x, int gradients)
{
    int64_t wide = 0, narrow = 0; /* blocks where packs fit and where not */
    if (tensor_count(&x) == 0)
        return 0;
    visit(x.dtype, [&](auto zero) { wide = norm_backward_cut(x, pack_width<decltype(zero)>).blocks; });
    narrow = norm_backward_cut(x, 1).blocks;
    return (wide > narrow ? wide : narrow) * x.cols * gradients * (int64_t)sizeof(float);
}

/* The args of rmsnorm_backward and layernorm_backward; those that rmsnorm lacks are absent tensors. */
struct norm_backward_tensors {
    struct tensor x, weight, mean, rstd, dy, residual, dx, dweight, dbias;
    bool accumulate;
};

template <bool CENTRED>
inline void norm_backward_launch(const struct cuda_target *target, const char *name, const norm_backward_tensors &t)
{
    bool gradients = tensor_present(&t.dweight);
    float *partial = gradients ? reinterpret_cast<float *>(target->workspace) : NULL;
    int64_t blocks = 0, cols = t.x.cols;
    if (tensor_count(&t.x) > 0)
        visit_packs({t.x, t.weight, t.dy, t.residual, t.dx}, [&](auto zero, auto width) {
            using T = decltype(zero);
            constexpr int N = decltype(width)::value;
            struct norm_cut cut = norm_backward_cut(t.x, N);
            blocks = cut.blocks;
            norm_backward<T> a = {view_of<const T>(t.x),
                                  view_of<const T>(t.dy),
                                  view_of<const T>(t.residual),
                                  static_cast<const T *>(t.weight.data),
                                  static_cast<const float *>(t.mean.data),
                                  static_cast<const float *>(t.rstd.data),
                                  view_of<T>(t.dx),
                                  partial,
                                  gradients && CENTRED ? partial + blocks * cols : NULL,
                                  cut.block_rows};
            size_t shared = gradients ? cut.block.x * cut.block.y * N * sizeof(float) : 0;
            norm_backward_kernel<T, N, CENTRED><<<(unsigned)blocks, cut.block, shared, target->stream>>>(a);
            CUDA_CHECK_LAUNCH(name);
        });
    if (gradients)
        sum_parts(target, partial, blocks, t.dweight, NULL, t.accumulate);
    if (gradients && CENTRED)
        sum_parts(target, partial + blocks * cols, blocks, t.dbias, NULL, t.accumulate);
}

#endif
