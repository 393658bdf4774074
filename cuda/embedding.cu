#include "cuda/token_order.cuh"
#include "cuda/walk.cuh"

static struct token_rows rows_of(const struct tensor &tokens, int64_t origin, const struct tensor &weight)
{
    return {static_cast<const int32_t *>(tokens.data), (uint32_t)origin, (uint32_t)weight.rows};
}

/* scale: NULL is 1; ends: NULL is all rows. */
template <typename T, int N>
__global__ WALK_BOUNDS void embedding_forward(struct row_walk walk, view<const T> weight, struct token_rows rows,
                                              const float *scale, view<T> y, const int32_t *ends, int ends_count)
{
    limit_rows(walk, ends, ends_count);
    walk_packs<4>(
        walk,
        [&](uint32_t row, uint32_t p) {
            /* Loads unconditionally: loads in a branch would wait for each other. */
            uint32_t from = (uint32_t)rows.at(row);
            pack<T, N> in = load_pack<N>(weight.row(min(from, rows.rows - 1)) + (int64_t)p * N);
            return from < rows.rows ? in : pack<T, N>{};
        },
        [&](uint32_t row, uint32_t p, const pack<T, N> &in) {
            T *to = pack_at<N>(y, row, p);
            if (scale == NULL) {
                store_pack(to, in);
                return;
            }
            float v[N], factor = scale[row];
            unpack(in, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] *= factor;
            store(to, v);
        });
}

void cuda_embedding_forward(const struct cuda_target *target, const struct embedding_forward_args *args)
{
    visit_packs({args->y, args->weight}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int N = decltype(width)::value;
        walk_launch(target, "embedding_forward", embedding_forward<T, N>, args->y.rows, args->y.cols / N,
                    view_of<const T>(args->weight), rows_of(args->tokens, args->origin, args->weight),
                    static_cast<const float *>(args->scale.data), view_of<T>(args->y),
                    static_cast<const int32_t *>(args->ends.data), (int)args->ends.cols);
    });
}

/* -- Backward ------------------------------------------------------------------------------------------------------
 * The tokens in the order of the vocabulary are split into pieces of equal length, regardless of the tokens, so that
 * work is even for any vocabulary. A run of equal tokens inside a piece is summed and added to its row of the gradient.
 * If a run is in several pieces, each piece writes a partial sum, and the run's first piece adds them in the order of
 * pieces. */

enum { PIECE = 64, PIECE_THREADS = 128, PIECE_AHEAD = 4 };

/* Partial sums of pieces. */
struct piece_sums {
    float *from_before, *to_next; /* [pieces, cols]: of the run that began in an earlier piece; of the run that begins
                                     in the piece and continues in the next one */
    int32_t *first;               /* [pieces]: the first token */
    int32_t *begins;              /* [pieces]: whether to_next has a sum */
};

struct sorted_tokens {
    struct token_rows rows;
    const int32_t *order;
    int64_t count, padding; /* padding: the row whose sum is discarded, as is the sum of tokens without a row */
    __device__ __forceinline__ int32_t at(int64_t i) const
    {
        return rows.at(order[i]);
    }
    __device__ __forceinline__ bool counts(int32_t row) const
    {
        return row != padding && (uint32_t)row < rows.rows;
    }
};

/* to += from. */
template <typename T, int N> __device__ __forceinline__ void add_to(T *to, const float (&from)[N])
{
    float sum[N];
    load(to, sum);
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] += from[i];
    store(to, sum);
}

/* scale: NULL is 1. dweight accumulates; each row is updated at most once, by this kernel or sum_runs. */
template <typename T, typename D, int N>
__global__ void __launch_bounds__(PIECE_THREADS) sum_pieces(struct sorted_tokens sorted, const float *scale,
                                                            view<const T> dy, view<D> dweight, struct piece_sums sums)
{
    __shared__ int32_t rows[PIECE], tokens[PIECE];
    __shared__ float factors[PIECE];
    int64_t piece = blockIdx.x, first = piece * PIECE, left = sorted.count - first;
    int length = (int)min((int64_t)PIECE, left);
    if (threadIdx.x < length) {
        int32_t row = sorted.order[first + threadIdx.x];
        rows[threadIdx.x] = row;
        tokens[threadIdx.x] = sorted.rows.at(row);
        factors[threadIdx.x] = scale != NULL ? scale[row] : 1.0f;
    }
    int32_t before = first > 0 ? sorted.at(first - 1) : -1, after = left > length ? sorted.at(first + length) : -1;
    __syncthreads();
    int32_t first_token = tokens[0], last_token = tokens[length - 1];
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        sums.first[piece] = first_token;
        sums.begins[piece] =
            after == last_token && !(before == first_token && first_token == last_token) && sorted.counts(last_token);
    }
    int64_t col = ((int64_t)blockIdx.y * PIECE_THREADS + threadIdx.x) * N;
    if (col >= dy.cols)
        return;
    float sum[N] = {};
    for (int i = 0; i < length; i += PIECE_AHEAD) {
        pack<T, N> in[PIECE_AHEAD];
#pragma unroll
        for (int a = 0; a < PIECE_AHEAD; a++)
            if (i + a < length)
                in[a] = load_pack<N>(dy.row(rows[i + a]) + col);
#pragma unroll
        for (int a = 0; a < PIECE_AHEAD; a++) {
            if (i + a >= length)
                break;
            int32_t token = tokens[i + a];
            bool last = i + a + 1 == length;
            float v[N];
            unpack(in[a], v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += v[j] * factors[i + a];
            if (!last && tokens[i + a + 1] == token)
                continue;
            if (token == before)
                store(sums.from_before + piece * dy.cols + col, sum);
            else if (last && token == after)
                store(sums.to_next + piece * dy.cols + col, sum);
            else if (sorted.counts(token))
                add_to(dweight.row(token) + col, sum);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] = 0.0f;
        }
    }
}

/* Threads of a block: columns, in packs, and lanes that process the pieces of a run in turn. */
enum { RUN_COLUMNS = 64, RUN_LANES = 4 };

template <typename D, int N>
__global__ void __launch_bounds__(RUN_COLUMNS *RUN_LANES)
    sum_runs(struct piece_sums sums, int64_t pieces, view<D> dweight)
{
    __shared__ float lanes[RUN_LANES][N][RUN_COLUMNS];
    int64_t piece = blockIdx.x, col = ((int64_t)blockIdx.y * RUN_COLUMNS + threadIdx.x) * N, cols = dweight.cols;
    if (!sums.begins[piece])
        return;
    int32_t token = sums.first[piece + 1];
    float sum[N] = {};
    for (int64_t p = piece + 1 + threadIdx.y; col < cols && p < pieces && sums.first[p] == token; p += RUN_LANES) {
        float v[N];
        load(sums.from_before + p * cols + col, v);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += v[i];
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        lanes[threadIdx.y][i][threadIdx.x] = sum[i];
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols)
        return;
    load(sums.to_next + piece * cols + col, sum);
#pragma unroll
    for (int lane = 0; lane < RUN_LANES; lane++)
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += lanes[lane][i][threadIdx.x];
    add_to(dweight.row(token) + col, sum);
}

static struct piece_sums place_sums(char *scratch, int64_t pieces, int64_t cols)
{
    float *sums = reinterpret_cast<float *>(scratch);
    int32_t *numbers = reinterpret_cast<int32_t *>(sums + 2 * pieces * cols);
    return {sums, sums + pieces * cols, numbers, numbers + pieces};
}

int64_t cuda_embedding_backward_workspace(const struct cuda_target *, const struct embedding_backward_args *args)
{
    int64_t pieces = ceil_div(args->dy.rows, PIECE);
    return pieces * (2 * args->dy.cols + 2) * (int64_t)sizeof(float) + token_order_workspace(args->dy.rows);
}

static void clear(const struct cuda_target *target, const struct tensor &x)
{
    struct fill_args zero = {x, 0.0};
    cuda_fill(target, &zero);
}

template <typename D>
static void launch_backward(const struct cuda_target *target, const struct embedding_backward_args *args,
                            const struct sorted_tokens &sorted, const struct piece_sums &sums, int64_t pieces)
{
    const struct tensor &dy = args->dy;
    visit(dy.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int N = pack_width<T>;
        bool wide = packs_fit(dy, N) && packs_fit(args->dweight, N);
        auto kernel = wide ? sum_pieces<T, D, N> : sum_pieces<T, D, 1>;
        dim3 grid((unsigned)pieces, (unsigned)ceil_div(dy.cols, PIECE_THREADS * (wide ? N : 1)));
        kernel<<<grid, PIECE_THREADS, 0, target->stream>>>(sorted, static_cast<const float *>(args->scale.data),
                                                           view_of<const T>(dy), view_of<D>(args->dweight), sums);
        CUDA_CHECK_LAUNCH("embedding_backward");
    });
    constexpr int N = pack_width<float>;
    bool wide = packs_fit(args->dweight, N);
    auto kernel = wide ? sum_runs<D, N> : sum_runs<D, 1>;
    dim3 grid((unsigned)pieces, (unsigned)ceil_div(dy.cols, RUN_COLUMNS * (wide ? N : 1)));
    kernel<<<grid, dim3(RUN_COLUMNS, RUN_LANES), 0, target->stream>>>(sums, pieces, view_of<D>(args->dweight));
    CUDA_CHECK_LAUNCH("embedding_backward");
}

void cuda_embedding_backward(const struct cuda_target *target, const struct embedding_backward_args *args)
{
    const struct tensor &dy = args->dy;
    int64_t pieces = ceil_div(dy.rows, PIECE);
    struct piece_sums sums = place_sums(target->workspace, pieces, dy.cols);
    if (!args->accumulate)
        clear(target, args->dweight);
    if (tensor_count(&dy) == 0)
        return;
    struct token_rows rows = rows_of(args->tokens, args->origin, args->dweight);
    const int32_t *order = token_order(target, rows, dy.rows, reinterpret_cast<char *>(sums.begins + pieces));
    struct sorted_tokens sorted = {rows, order, dy.rows, args->padding - args->origin};
    visit(args->dweight.dtype, [&](auto zero) { launch_backward<decltype(zero)>(target, args, sorted, sums, pieces); });
}
