/* Kernels of both norms: rmsnorm is layernorm without mean and bias (CENTRED false). A team processes ROWS rows at a
 * time: all loads are issued before the first sum, and the sums of all rows are exchanged together. */
#ifndef CUDA_NORM_CUH
#define CUDA_NORM_CUH

#include "cuda/column_sum.cuh"
#include "cuda/row_ring.cuh"
#include "cuda/team.cuh"

/* How a thread reads its team's rows. KEPT_: packs of each of ROWS_ rows that it keeps in registers, the same columns
 * for all rows. WIDE_: rows may have more packs, which are read from memory at each use. PARAMETERS_: parameters are
 * kept in registers too. THREADS_: the most threads of a block of the backward. RING_: rows come through a row_ring. */
template <int KEPT_, int ROWS_, bool WIDE_ = false, bool PARAMETERS_ = true, int THREADS_ = TEAM_THREADS,
          bool RING_ = false>
struct norm_shape {
    static constexpr int KEPT = KEPT_, ROWS = ROWS_, THREADS = THREADS_;
    static constexpr bool WIDE = WIDE_, PARAMETERS = PARAMETERS_, RING = RING_;
    static_assert(!(WIDE || RING) || ROWS == 1, "rows that are not kept, or come by a ring, are read one at a time");
    static_assert(THREADS >= TEAM_THREADS, "a team may be the whole block");
};

/* Threads of a block of the backward with a ring, for rows of at most 640 packs. */
enum { RING_THREADS = 20 * WARP };

/* Calls f with shapes for rows of `packs` packs of n elements until f returns true. f may decline the first shape,
 * which uses a ring. Shapes without a ring keep four packs of every tensor in each thread if registers allow, so that
 * many loads are in flight; with two rows at a time that is as fast as a ring, and simpler. */
template <int N, bool BACKWARD, bool CENTRED, typename F> inline bool visit_norm_shape(int64_t packs, F f)
{
    constexpr bool few_sums =
        !BACKWARD || N == 4 || (N == 8 && !CENTRED); /* registers suffice for sums of four packs */
    if constexpr (N > 1) {
        if constexpr (BACKWARD)
            if (packs > TEAM_THREADS && packs <= RING_THREADS && f(norm_shape<1, 1, false, true, RING_THREADS, true>()))
                return true;
        if constexpr (few_sums)
            if (packs > 2 * TEAM_THREADS && packs <= 4 * TEAM_THREADS &&
                f(norm_shape<4, 1, false, false, TEAM_THREADS, true>()))
                return true;
        if (packs <= 2 * WARP)
            return f(norm_shape<2, 2>()); /* one warp: no barrier */
        if (packs <= 8 * WARP)
            return f(norm_shape<1, 4>());
        if (packs <= 2 * TEAM_THREADS)
            return f(norm_shape<2, 2>());
    }
    if constexpr (N == 4) /* packs of eight elements would need too many registers for sums */
        if (packs <= 4 * TEAM_THREADS)
            return f(norm_shape<4, 1, false, false>());
    return f(norm_shape<2, 1, true>());
}

template <typename SHAPE> inline int64_t norm_team(int64_t packs)
{
    const int64_t most = SHAPE::RING ? SHAPE::THREADS : TEAM_THREADS,
                  team = ceil_div(ceil_div(packs, SHAPE::KEPT), WARP) * WARP;
    return team < most ? team : most;
}

/* Calls f(k, p) for each of this thread's packs: number p in the row, number k in the thread; k is KEPT for all packs
 * that are not kept. */
template <typename SHAPE, typename F> __device__ __forceinline__ void each_pack(int packs, F f)
{
#pragma unroll
    for (int k = 0; k < SHAPE::KEPT; k++) {
        int p = threadIdx.x + k * blockDim.x;
        if (p < packs)
            f(k, p);
    }
    if (SHAPE::WIDE)
        for (int p = threadIdx.x + SHAPE::KEPT * blockDim.x; p < packs; p += blockDim.x)
            f(SHAPE::KEPT, p);
}

/* Makes the compiler treat the words as new. */
__device__ __forceinline__ void renew(uint4 &x)
{
    asm("" : "+r"(x.x), "+r"(x.y), "+r"(x.z), "+r"(x.w));
}

__device__ __forceinline__ void renew(unsigned int &x)
{
    asm("" : "+r"(x));
}

__device__ __forceinline__ void renew(unsigned short &x)
{
    asm("" : "+h"(x));
}

/* This thread's part of a row, or zeros. */
template <typename T, int N, typename SHAPE> struct kept_row {
    using word = typename pack_word<sizeof(T) * N>::type;
    const T *from;
    word kept[SHAPE::KEPT];

    __device__ __forceinline__ void read(const T *row, int packs)
    {
        from = row;
#pragma unroll
        for (int k = 0; k < SHAPE::KEPT; k++) {
            int p = threadIdx.x + k * blockDim.x;
            kept[k] = p < packs ? *reinterpret_cast<const word *>(row + p * N) : word{};
        }
    }

    /* Call it before values are used again: they are then unpacked from the words again. As floats they would take
     * twice the registers between the uses. */
    __device__ __forceinline__ void again()
    {
#pragma unroll
        for (int k = 0; k < SHAPE::KEPT; k++)
            renew(kept[k]);
    }

    __device__ __forceinline__ void values(int k, int p, float (&to)[N]) const
    {
        if (k < SHAPE::KEPT)
            unpack(reinterpret_cast<const pack<T, N> &>(kept[k]), to);
        else
            load(from + p * N, to);
    }
};

/* A weight or a bias, the same for all rows. */
template <typename T, int N, typename SHAPE> struct parameter {
    kept_row<T, N, SHAPE> row;

    __device__ __forceinline__ explicit parameter(const T *from, int packs)
    {
        if (SHAPE::PARAMETERS)
            row.read(from, packs);
        else
            row.from = from;
    }

    __device__ __forceinline__ void again()
    {
        if (SHAPE::PARAMETERS)
            row.again();
    }

    __device__ __forceinline__ void values(int k, int p, float (&to)[N]) const
    {
        row.values(SHAPE::PARAMETERS ? k : SHAPE::KEPT, p, to);
    }
};

/* Reads the gains of a norm: its weights plus `base` (0 or 1). */
template <typename PARAMETER, int N>
__device__ __forceinline__ void gains(const PARAMETER &weight, float base, int k, int p, float (&to)[N])
{
    weight.values(k, p, to);
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] += base;
}

/* -- Forward ------------------------------------------------------------------------------------------------------ */

/* bias may be NULL. */
template <typename T> struct norm_forward {
    view<const T> x;
    const T *weight, *bias;
    view<T> y;
    float *mean, *rstd;
    float eps, base;       /* added to each weight */
    struct ring_rows ring; /* rows of x */
};

/* Threads per SM, for which there are 64 registers each. A block is one team of any width, or TEAM_WARPS teams of one
 * warp. */
enum { NORM_FORWARD_THREADS = 2 * TEAM_THREADS };

template <typename SHAPE> inline dim3 norm_forward_block(int64_t packs)
{
    int64_t team = norm_team<SHAPE>(packs);
    return dim3((unsigned)team, team == WARP ? TEAM_WARPS : 1);
}

template <typename T, int N, typename SHAPE, bool CENTRED>
__global__ void __launch_bounds__(TEAM_THREADS, NORM_FORWARD_THREADS / TEAM_THREADS)
    norm_forward_kernel(norm_forward<T> a)
{
    constexpr int ROWS = SHAPE::ROWS;
    extern __shared__ __align__(16) char places[];
    __shared__ uint64_t filled[SHAPE::RING ? TEAM_WARPS * RING_PLACES : 1];
    __shared__ float memory[2][TEAM_WARPS * 2 * ROWS];
    int packs = (int)(a.x.cols / N), turn = 0;
    const float share = 1.0f / (float)a.x.cols; /* 1 / number of columns */
    parameter<T, N, SHAPE> weight(a.weight, packs), bias(a.bias, CENTRED && a.bias != NULL ? packs : 0);
    int64_t step = (int64_t)gridDim.x * blockDim.y * ROWS;
    int64_t first = ((int64_t)blockIdx.x * blockDim.y + threadIdx.y) * ROWS;
    struct row_ring ring;
    if (SHAPE::RING)
        ring.start(a.ring, filled, places, first, step, a.x.rows);
    for (int64_t row = first; row < a.x.rows; row += step) {
        weight.again();
        bias.again();
        kept_row<T, N, SHAPE> x[ROWS];
        float v[N], mean[ROWS] = {}, square[ROWS] = {}, rstd[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (SHAPE::RING) {
                ring.wait();
                x[r].read(ring.row_of<T>(a.ring, 0), packs);
            } else {
                x[r].read(a.x.row(row + r), row + r < a.x.rows ? packs : 0);
            }
        if (CENTRED) {
            /* Computes a first mean, then corrects it by the mean of the differences: a mean far larger than the
             * deviation would otherwise be lost in the roundings of the sums. */
            each_pack<SHAPE>(packs, [&](int k, int p) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    x[r].values(k, p, v);
#pragma unroll
                    for (int i = 0; i < N; i++)
                        mean[r] += v[i];
                }
            });
            team_sums<false>(mean, memory[0]);
            float sums[2 * ROWS] = {};
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                mean[r] *= share;
                x[r].again();
            }
            each_pack<SHAPE>(packs, [&](int k, int p) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    x[r].values(k, p, v);
#pragma unroll
                    for (int i = 0; i < N; i++) {
                        float d = v[i] - mean[r];
                        sums[r] += d;
                        sums[ROWS + r] += d * d;
                    }
                }
            });
            team_sums<false>(sums, memory[1]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float shift = sums[r] * share;
                mean[r] += shift;
                square[r] = fmaxf(sums[ROWS + r] * share - shift * shift, 0.0f);
            }
        } else {
            each_pack<SHAPE>(packs, [&](int k, int p) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    x[r].values(k, p, v);
#pragma unroll
                    for (int i = 0; i < N; i++)
                        square[r] += v[i] * v[i];
                }
            });
            team_sums<false>(square, memory[turn]);
            turn ^= 1;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                square[r] *= share;
        }
        if (SHAPE::RING)
            ring.pass(a.ring, row + a.ring.places * step, a.x.rows);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            rstd[r] = rsqrtf(square[r] + a.eps);
            x[r].again();
            if (threadIdx.x == 0 && row + r < a.x.rows) {
                a.rstd[row + r] = rstd[r];
                if (CENTRED)
                    a.mean[row + r] = mean[r];
            }
        }
        each_pack<SHAPE>(packs, [&](int k, int p) {
            float w[N], b[N] = {};
            gains(weight, a.base, k, p, w);
            if (CENTRED && a.bias != NULL)
                bias.values(k, p, b);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (row + r >= a.x.rows)
                    break;
                x[r].values(k, p, v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[i] = CENTRED ? (v[i] - mean[r]) * rstd[r] * w[i] + b[i] : v[i] * rstd[r] * w[i];
                store(a.y.row(row + r) + p * N, v);
            }
        });
    }
}

template <bool CENTRED>
inline void norm_forward_launch(const struct cuda_target *target, const char *name, const struct tensor &x,
                                const struct tensor &weight, const struct tensor &bias, const struct tensor &y,
                                const struct tensor &mean, const struct tensor &rstd, float eps, bool one_plus)
{
    if (tensor_count(&x) == 0)
        return;
    visit_packs({x, weight, bias, y}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        norm_forward<T> a = {view_of<const T>(x),
                             static_cast<const T *>(weight.data),
                             static_cast<const T *>(bias.data),
                             view_of<T>(y),
                             static_cast<float *>(mean.data),
                             static_cast<float *>(rstd.data),
                             eps,
                             one_plus ? 1.0f : 0.0f,
                             {}};
        auto launch = [&](auto shape) {
            using SHAPE = decltype(shape);
            auto kernel = norm_forward_kernel<T, N, SHAPE, CENTRED>;
            dim3 block = norm_forward_block<SHAPE>(x.cols / N);
            int resident = NORM_FORWARD_THREADS / (int)(block.x * block.y);
            int64_t shared = 0;
            if (SHAPE::RING) {
                if (!ring_runs(kernel))
                    return false;
                ring_add(&a.ring, x);
                shared = block.y * ring_divide(&a.ring, resident * (int)block.y);
                CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
            }
            unsigned blocks = team_blocks(ceil_div(x.rows, SHAPE::ROWS), block, target->multiprocessors * resident);
            kernel<<<blocks, block, (size_t)shared, target->stream>>>(a);
            CUDA_CHECK_LAUNCH(name);
            return true;
        };
        visit_norm_shape<N, false, CENTRED>(x.cols / N, launch);
    });
}

/* -- Backward ----------------------------------------------------------------------------------------------------- */

/* residual, dx and the sums may be absent: NULL. dweight, dbias and sum (of dx) have a row of partial sums for each
 * block. */
template <typename T> struct norm_backward {
    view<const T> x, dy, residual;
    const T *weight;
    const float *mean, *rstd;
    view<T> dx;
    float *dweight, *dbias, *sum;
    int64_t block_rows;
    float base;            /* as in norm_forward */
    struct ring_rows ring; /* rows of x, dy and residual */
};

/* Adds the teams' sums in the order of the teams, and writes the block's sums. All threads of the block call it. */
template <int N, int KEPT>
__device__ __forceinline__ void write_block_sums(const float (&sums)[KEPT][N], int packs, float *to)
{
    extern __shared__ float team_totals[]; /* [N][threads of the block] */
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++)
            team_totals[i * threads + thread] = sums[k][i];
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
                total[i] += team_totals[i * threads + team * blockDim.x + threadIdx.x];
        store(to + p * N, total);
    }
}

/* SUMMED: a.sum is requested. */
template <typename T, int N, typename SHAPE, bool CENTRED, bool SUMMED>
__global__ void __launch_bounds__(SHAPE::THREADS, 1) norm_backward_kernel(norm_backward<T> a)
{
    constexpr int KEPT = SHAPE::KEPT, ROWS = SHAPE::ROWS, SUMS = CENTRED ? 2 * ROWS : ROWS;
    extern __shared__ __align__(16) char places[];
    __shared__ uint64_t filled[SHAPE::RING ? TEAM_WARPS * RING_PLACES : 1];
    __shared__ float memory[2][SHAPE::THREADS / WARP * SUMS];
    int packs = (int)(a.x.cols / N), turn = 0;
    const float share = 1.0f / (float)a.x.cols; /* 1 / number of columns */
    float dweight[KEPT][N] = {}, dbias[KEPT][N] = {}, sum[KEPT][N] = {};
    float *block_dweight = a.dweight + blockIdx.x * a.x.cols, *block_dbias = a.dbias + blockIdx.x * a.x.cols;
    float *block_sum = a.sum + blockIdx.x * a.x.cols;
    int64_t first = blockIdx.x * a.block_rows, end = min(first + a.block_rows, a.x.rows);
    parameter<T, N, SHAPE> weight(a.weight, packs);

    /* Sums of packs that are not kept are in memory; then the block has one team. */
    if (SHAPE::WIDE)
        for (int c = (KEPT * blockDim.x + threadIdx.x) * N; c < a.x.cols; c += blockDim.x * N)
            for (int i = 0; i < N; i++) {
                if (a.dweight != NULL)
                    block_dweight[c + i] = 0.0f;
                if (CENTRED && a.dbias != NULL)
                    block_dbias[c + i] = 0.0f;
                if (SUMMED)
                    block_sum[c + i] = 0.0f;
            }

    struct row_ring ring;
    float next_mean = 0.0f, next_rstd = 0.0f;
    auto read_statistics = [&](int64_t row) {
        next_mean = CENTRED && row < end ? a.mean[row] : 0.0f;
        next_rstd = row < end ? a.rstd[row] : 0.0f;
    };
    if (SHAPE::RING) {
        ring.start(a.ring, filled, places, first + threadIdx.y, blockDim.y, end);
        read_statistics(first + threadIdx.y);
    }

    /* All teams have the same number of iterations; some have no row in the last one. */
    for (int64_t turn_row = first; turn_row < end; turn_row += blockDim.y * ROWS) {
        int64_t row = turn_row + threadIdx.y * ROWS;
        weight.again();
        kept_row<T, N, SHAPE> x[ROWS], dy[ROWS], residual[ROWS];
        float mean[ROWS], rstd[ROWS], shift[ROWS] = {}, factor[ROWS] = {}, v[N], d[N], w[N];
        if (SHAPE::RING) {
            if (row >= end)
                break;
            mean[0] = next_mean;
            rstd[0] = next_rstd;
            read_statistics(row + blockDim.y);
            ring.wait();
            x[0].read(ring.row_of<T>(a.ring, 0), packs);
            dy[0].read(ring.row_of<T>(a.ring, 1), packs);
            residual[0].read(ring.row_of<T>(a.ring, 2), a.residual.data != NULL ? packs : 0);
        }
        /* missing rows are zeros, which add nothing to the sums */
#pragma unroll
        for (int r = 0; r < ROWS && !SHAPE::RING; r++) {
            bool there = row + r < end;
            x[r].read(a.x.row(row + r), there ? packs : 0);
            dy[r].read(a.dy.row(row + r), there ? packs : 0);
            residual[r].read(a.residual.row(row + r), there && a.residual.data != NULL ? packs : 0);
            mean[r] = CENTRED && there ? a.mean[row + r] : 0.0f;
            rstd[r] = there ? a.rstd[row + r] : 0.0f;
        }
        if (a.dx.data != NULL) {
            float sums[SUMS] = {}; /* sums of w dy (x - mean), then of w dy */
            each_pack<SHAPE>(packs, [&](int k, int p) {
                gains(weight, a.base, k, p, w);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    x[r].values(k, p, v);
                    dy[r].values(k, p, d);
#pragma unroll
                    for (int i = 0; i < N; i++) {
                        float product = w[i] * d[i];
                        sums[r] += product * (v[i] - mean[r]);
                        if (CENTRED)
                            sums[SUMS - ROWS + r] += product;
                    }
                }
            });
            team_sums<true, SHAPE::THREADS / WARP>(sums, memory[turn]);
            turn ^= 1;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                shift[r] = CENTRED ? rstd[r] * (sums[SUMS - ROWS + r] * share) : 0.0f;
                factor[r] = rstd[r] * rstd[r] * (sums[r] * share);
                x[r].again();
                dy[r].again();
            }
        } else if (SHAPE::RING && blockDim.x > WARP) {
            team_wait<true>();
        }
        if (SHAPE::RING)
            ring.pass(a.ring, row + a.ring.places * blockDim.y, end);
        weight.again();
        each_pack<SHAPE>(packs, [&](int k, int p) {
            gains(weight, a.base, k, p, w);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                x[r].values(k, p, v);
                dy[r].values(k, p, d);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    v[i] = (v[i] - mean[r]) * rstd[r];
                    if (k < KEPT) {
                        dweight[k][i] += d[i] * v[i];
                        dbias[k][i] += d[i];
                    } else if (a.dweight != NULL) {
                        block_dweight[p * N + i] += d[i] * v[i];
                        if (CENTRED && a.dbias != NULL)
                            block_dbias[p * N + i] += d[i];
                    }
                }
                if (a.dx.data == NULL || row + r >= end)
                    continue;
                float by_passed[N] = {};
                if (k < KEPT || a.residual.data != NULL)
                    residual[r].values(k, p, by_passed);
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[i] = by_passed[i] + (rstd[r] * (w[i] * d[i]) - shift[r] - v[i] * factor[r]);
                const pack<T, N> dx = rounded<T>(v);
                store_pack(a.dx.row(row + r) + p * N, dx);
                if (!SUMMED)
                    continue;
                unpack(dx, v);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    if (k < KEPT)
                        sum[k][i] += v[i];
                    else
                        block_sum[p * N + i] += v[i];
                }
            }
        });
    }
    if (SUMMED)
        write_block_sums(sum, packs, block_sum);
    if (a.dweight == NULL)
        return;
    write_block_sums(dweight, packs, block_dweight);
    if (CENTRED && a.dbias != NULL)
        write_block_sums(dbias, packs, block_dbias);
}

/* How rows are assigned to blocks: by the shape alone, because it determines the order of the sums. */
struct norm_grid {
    dim3 block;
    int64_t block_rows, blocks;
};

/* One block per SM: registers do not suffice for a second one. Few blocks write few partial sums. */
template <typename SHAPE> inline struct norm_grid norm_backward_grid(const struct tensor &x, int n)
{
    int64_t team = norm_team<SHAPE>(x.cols / n);
    dim3 block((unsigned)team, (unsigned)(SHAPE::THREADS / team));
    int64_t rows = ceil_div(x.rows, team_blocks(ceil_div(x.rows, SHAPE::ROWS), block, USUAL_MULTIPROCESSORS));
    return {block, rows, ceil_div(x.rows, rows)};
}

/* Returns the bytes of scratch for this number of sums over rows. */
template <bool CENTRED> inline int64_t norm_backward_workspace(const struct tensor &x, int sums)
{
    int64_t most = 0; /* the most blocks, over all pack widths */
    auto consider = [&](auto width) {
        constexpr int N = decltype(width)::value;
        if (x.cols % N != 0)
            return;
        visit_norm_shape<N, true, CENTRED>(x.cols / N, [&](auto shape) {
            int64_t blocks = norm_backward_grid<decltype(shape)>(x, N).blocks;
            most = blocks > most ? blocks : most;
            return !decltype(shape)::RING; /* kernels with a ring may not run here */
        });
    };
    if (tensor_count(&x) == 0)
        return 0;
    visit(x.dtype, [&](auto zero) { consider(std::integral_constant<int, pack_width<decltype(zero)>>()); });
    consider(std::integral_constant<int, 1>());
    return most * x.cols * sums * (int64_t)sizeof(float);
}

/* Arguments of rmsnorm_backward and layernorm_backward; tensors that rmsnorm does not have are absent. */
struct norm_backward_tensors {
    struct tensor x, weight, mean, rstd, dy, residual, dx, dweight, dbias, sum;
    bool accumulate, accumulate_sum, one_plus;
};

/* Launches the backward. SUMMED: t.sum is present. */
template <bool CENTRED, bool SUMMED>
inline void norm_backward_launch(const struct cuda_target *target, const char *name, const norm_backward_tensors &t)
{
    const bool gradients = tensor_present(&t.dweight), biased = tensor_present(&t.dbias);
    float *partial = reinterpret_cast<float *>(target->workspace);
    int64_t blocks = 0, cols = t.x.cols;
    struct part_sum sums[MOST_PART_SUMS];
    int count = 0;
    auto sum_of = [&](const struct tensor &sum, bool accumulate) {
        sums[count++] = {static_cast<float *>(sum.data), accumulate};
    };
    if (gradients)
        sum_of(t.dweight, t.accumulate);
    if (biased)
        sum_of(t.dbias, t.accumulate);
    if (SUMMED)
        sum_of(t.sum, t.accumulate_sum);
    auto launch = [&](auto zero, auto width, auto shape) {
        using T = decltype(zero);
        using SHAPE = decltype(shape);
        constexpr int N = decltype(width)::value;
        struct norm_grid grid = norm_backward_grid<SHAPE>(t.x, N);
        blocks = grid.blocks;
        norm_backward<T> a = {view_of<const T>(t.x),
                              view_of<const T>(t.dy),
                              view_of<const T>(t.residual),
                              static_cast<const T *>(t.weight.data),
                              static_cast<const float *>(t.mean.data),
                              static_cast<const float *>(t.rstd.data),
                              view_of<T>(t.dx),
                              gradients ? partial : NULL,
                              biased ? partial + blocks * cols : NULL,
                              SUMMED ? partial + (count - 1) * blocks * cols : NULL,
                              grid.block_rows,
                              t.one_plus ? 1.0f : 0.0f,
                              {}};
        int64_t shared = count > 0 ? grid.block.x * grid.block.y * N * (int64_t)sizeof(float) : 0;
        auto kernel = norm_backward_kernel<T, N, SHAPE, CENTRED, SUMMED>;
        if (SHAPE::RING) {
            if (!ring_runs(kernel))
                return false;
            for (const struct tensor &read : {t.x, t.dy, t.residual})
                ring_add(&a.ring, read);
            int64_t rings = grid.block.y * ring_divide(&a.ring, (int)grid.block.y);
            shared = rings > shared ? rings : shared;
            CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
        }
        kernel<<<(unsigned)blocks, grid.block, (size_t)shared, target->stream>>>(a);
        CUDA_CHECK_LAUNCH(name);
        return true;
    };
    if (tensor_count(&t.x) > 0)
        visit_packs({t.x, t.weight, t.dy, t.residual, t.dx}, [&](auto zero, auto width) {
            constexpr int N = decltype(width)::value;
            visit_norm_shape<N, true, CENTRED>(cols / N, [&](auto shape) { return launch(zero, width, shape); });
        });
    sum_parts(target, partial, blocks, cols, sums, count);
}

#endif
