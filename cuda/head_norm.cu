/* RMSNorm of each head of queries or keys. A group of lanes, at most a warp, has a head, so that the group's sum needs
 * no shared memory; neighbouring groups have neighbouring heads of a token. */
#include "cuda/column_sum.cuh"
#include "cuda/device.cuh"

enum {
    HEAD_THREADS = 256,
    LANE_ELEMENTS = 8,    /* at most, of a head: heads of up to 256 elements, in packs or one by one */
    PARTS_MOST = 4 * 132, /* blocks of the backward, each of which writes a partial sum */
    PART_HEADS = 64       /* heads for which another block is worth its partial sum */
};

/* Heads are numbered token by token. packs: packs of a head; group: lanes of a head, a power of 2. */
struct head_shape {
    uint32_t count, heads, packs, group;
};

/* The place of one head, and whether this group has one; all lanes of a warp take part in its sums. */
struct head_place {
    bool there;
    uint32_t row, head;
};

__device__ __forceinline__ struct head_place head_at(const struct head_shape &shape, uint32_t number, uint32_t end)
{
    const bool there = number < end;
    const uint32_t row = there ? number / shape.heads : 0;
    return {there, row, there ? number - row * shape.heads : 0};
}

/* Returns the sum over the lanes of a group to all of them. */
__device__ __forceinline__ float group_sum(float x, uint32_t group)
{
    for (uint32_t offset = group / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

/* Reads this lane's packs of a head; those that it does not have are zeros. */
template <typename T, int N, int KEPT>
__device__ __forceinline__ void read_head(const T *from, const struct head_shape &shape, bool there,
                                          float (&to)[KEPT][N])
{
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const uint32_t p = threadIdx.x % shape.group + k * shape.group;
        pack<T, N> read = {};
        if (there && p < shape.packs)
            read = load_pack<N>(from + p * N);
        unpack(read, to[k]);
    }
}

template <typename T, int N, int KEPT>
__device__ __forceinline__ void write_head(T *to, const struct head_shape &shape, bool there, float (&from)[KEPT][N])
{
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const uint32_t p = threadIdx.x % shape.group + k * shape.group;
        if (there && p < shape.packs)
            store(to + p * N, from[k]);
    }
}

/* base: 1 if gains are 1 + weight, else 0. */
template <typename T, int N, int KEPT>
__device__ __forceinline__ void read_gains(const T *weight, const struct head_shape &shape, float base,
                                           float (&to)[KEPT][N])
{
    read_head<T, N, KEPT>(weight, shape, true, to);
#pragma unroll
    for (int k = 0; k < KEPT; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            to[k][i] += base;
}

template <typename T, int N, int KEPT>
__global__ void __launch_bounds__(HEAD_THREADS)
    head_norm_forward_kernel(struct head_shape shape, view<const T> x, const T *weight, view<T> y, view<float> rstds,
                             float eps, float base)
{
    const uint32_t dim = shape.packs * N, groups = HEAD_THREADS / shape.group;
    float gain[KEPT][N], v[KEPT][N];
    read_gains<T, N, KEPT>(weight, shape, base, gain);
    for (uint32_t first = blockIdx.x * groups; first < shape.count; first += gridDim.x * groups) {
        const struct head_place at = head_at(shape, first + threadIdx.x / shape.group, shape.count);
        read_head<T, N, KEPT>(x.row(at.row) + at.head * dim, shape, at.there, v);
        float squares = 0.0f;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
#pragma unroll
            for (int i = 0; i < N; i++)
                squares += v[k][i] * v[k][i];
        const float rstd = 1.0f / sqrtf(group_sum(squares, shape.group) / (float)dim + eps);
#pragma unroll
        for (int k = 0; k < KEPT; k++)
#pragma unroll
            for (int i = 0; i < N; i++)
                v[k][i] = v[k][i] * rstd * gain[k][i];
        write_head<T, N, KEPT>(y.row(at.row) + at.head * dim, shape, at.there, v);
        if (at.there && threadIdx.x % shape.group == 0)
            rstds.row(at.head)[at.row] = rstd;
    }
}

/* Block b has heads b * block_heads and following, and writes their sum of the gain's gradient to partial[b][dim].
 * dx.data NULL: only the gain's; partial NULL: only dx. */
template <typename T, int N, int KEPT>
__global__ void __launch_bounds__(HEAD_THREADS)
    head_norm_backward_kernel(struct head_shape shape, view<const T> x, const T *weight, view<const float> rstds,
                              view<const T> dy, view<T> dx, float *partial, uint32_t block_heads, float base)
{
    __shared__ float sums[HEAD_THREADS * LANE_ELEMENTS]; /* [groups, dim] */
    const uint32_t dim = shape.packs * N, groups = HEAD_THREADS / shape.group;
    const uint32_t end = min((blockIdx.x + 1) * block_heads, shape.count);
    float gain[KEPT][N], v[KEPT][N], d[KEPT][N], sum[KEPT][N] = {};
    read_gains<T, N, KEPT>(weight, shape, base, gain);
    for (uint32_t first = blockIdx.x * block_heads; first < end; first += groups) {
        const struct head_place at = head_at(shape, first + threadIdx.x / shape.group, end);
        const float rstd = at.there ? rstds.row(at.head)[at.row] : 0.0f;
        read_head<T, N, KEPT>(x.row(at.row) + at.head * dim, shape, at.there, v);
        read_head<T, N, KEPT>(dy.row(at.row) + at.head * dim, shape, at.there, d);
        float dot = 0.0f;
#pragma unroll
        for (int k = 0; k < KEPT; k++)
#pragma unroll
            for (int i = 0; i < N; i++) {
                dot += gain[k][i] * d[k][i] * v[k][i];
                sum[k][i] += d[k][i] * (v[k][i] * rstd);
            }
        if (dx.data == NULL)
            continue;
        const float factor = rstd * rstd * (group_sum(dot, shape.group) / (float)dim);
#pragma unroll
        for (int k = 0; k < KEPT; k++)
#pragma unroll
            for (int i = 0; i < N; i++)
                v[k][i] = rstd * (gain[k][i] * d[k][i] - v[k][i] * factor);
        write_head<T, N, KEPT>(dx.row(at.row) + at.head * dim, shape, at.there, v);
    }
    if (partial == NULL)
        return;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const uint32_t p = threadIdx.x % shape.group + k * shape.group;
        for (int i = 0; i < N && p < shape.packs; i++)
            sums[threadIdx.x / shape.group * dim + p * N + i] = sum[k][i];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < dim; i += HEAD_THREADS) {
        float total = 0.0f;
        for (uint32_t g = 0; g < groups; g++)
            total += sums[g * dim + i];
        partial[blockIdx.x * dim + i] = total;
    }
}

static struct head_shape shape_of(const struct tensor &x, int64_t head_dim, int n)
{
    const int64_t heads = x.cols / head_dim, packs = head_dim / n;
    uint32_t group = 1;
    while (group < packs && group < WARP)
        group *= 2;
    if (x.rows * heads > INT32_MAX)
        error_fatal("cuda executor: head_norm of %lld heads: at most 2^31 - 1", (long long)(x.rows * heads));
    if (packs * n > WARP * LANE_ELEMENTS)
        error_fatal("cuda executor: head_norm of heads of %lld elements: at most %d", (long long)head_dim,
                    WARP * LANE_ELEMENTS);
    return {(uint32_t)(x.rows * heads), (uint32_t)heads, (uint32_t)packs, group};
}

/* Calls f with the element type, the width of packs that fit all tensors, and the packs of a lane. One of the tensors
 * is the weight, whose width is a head's. */
template <typename F> static void visit_heads(int64_t head_dim, std::initializer_list<struct tensor> tensors, F f)
{
    visit_packs(tensors, [&](auto zero, auto width) {
        constexpr int N = decltype(width)::value;
        if (head_dim <= N * WARP)
            f(zero, width, std::integral_constant<int, 1>());
        else
            f(zero, width, std::integral_constant<int, LANE_ELEMENTS / N>());
    });
}

void cuda_head_norm_forward(const struct cuda_target *target, const struct head_norm_forward_args *args)
{
    if (tensor_count(&args->x) == 0)
        return;
    visit_heads(args->head_dim, {args->x, args->weight, args->y}, [&](auto zero, auto width, auto kept) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value, KEPT = decltype(kept)::value;
        const struct head_shape shape = shape_of(args->x, args->head_dim, N);
        const int64_t needed = ceil_div(shape.count, HEAD_THREADS / shape.group);
        const int64_t resident = 8 * target->multiprocessors;
        head_norm_forward_kernel<T, N, KEPT>
            <<<(unsigned)(needed < resident ? needed : resident), HEAD_THREADS, 0, target->stream>>>(
                shape, view_of<const T>(args->x), static_cast<const T *>(args->weight.data), view_of<T>(args->y),
                view_of<float>(args->rstd), args->eps, args->one_plus ? 1.0f : 0.0f);
        CUDA_CHECK_LAUNCH("head_norm_forward");
    });
}

/* Returns the heads of a block of the backward: by the shape alone, because it determines the order of the sums. */
static int64_t block_heads_of(const struct head_norm_backward_args *args)
{
    const int64_t count = args->x.rows * (args->x.cols / args->head_dim);
    const int64_t blocks = ceil_div(count, PART_HEADS);
    return ceil_div(count, blocks < PARTS_MOST ? blocks : (int64_t)PARTS_MOST);
}

int64_t cuda_head_norm_backward_workspace(const struct cuda_target *, const struct head_norm_backward_args *args)
{
    if (!tensor_present(&args->dweight) || tensor_count(&args->x) == 0)
        return 0;
    const int64_t count = args->x.rows * (args->x.cols / args->head_dim);
    return ceil_div(count, block_heads_of(args)) * args->head_dim * (int64_t)sizeof(float);
}

void cuda_head_norm_backward(const struct cuda_target *target, const struct head_norm_backward_args *args)
{
    const bool gains = tensor_present(&args->dweight);
    float *partial = gains ? reinterpret_cast<float *>(target->workspace) : NULL;
    int64_t blocks = 0;
    if (tensor_count(&args->x) > 0)
        visit_heads(args->head_dim, {args->x, args->weight, args->dy, args->dx}, [&](auto zero, auto width, auto kept) {
            using T = decltype(zero);
            constexpr int N = decltype(width)::value, KEPT = decltype(kept)::value;
            const struct head_shape shape = shape_of(args->x, args->head_dim, N);
            const int64_t block_heads = block_heads_of(args);
            blocks = ceil_div(shape.count, block_heads);
            head_norm_backward_kernel<T, N, KEPT><<<(unsigned)blocks, HEAD_THREADS, 0, target->stream>>>(
                shape, view_of<const T>(args->x), static_cast<const T *>(args->weight.data),
                view_of<const float>(args->rstd), view_of<const T>(args->dy), view_of<T>(args->dx), partial,
                (uint32_t)block_heads, args->one_plus ? 1.0f : 0.0f);
            CUDA_CHECK_LAUNCH("head_norm_backward");
        });
    if (gains)
        sum_parts(target, partial, blocks, {args->dweight}, args->accumulate);
}
