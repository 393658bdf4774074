#include "cuda/walk.cuh"

/* The place of N pairs in a row. pair: number of the first one in its head. a, b: offsets of the two loads of N
 * elements. */
struct pair_place {
    int64_t a, b;
    uint32_t pair;
};

/* chunks: number of chunks of N pairs per head. */
template <int N, bool INTERLEAVED> __device__ __forceinline__ struct pair_place place_of(uint32_t p, uint32_t chunks)
{
    uint32_t head = p / chunks, pair = (p - head * chunks) * N, half = chunks * N;
    int64_t first = (int64_t)head * 2 * half;
    return INTERLEAVED ? pair_place{first + 2 * pair, first + 2 * pair + N, pair}
                       : pair_place{first + pair, first + half + pair, pair};
}

/* Leaves registers for the loads of four heads. */
enum { ROPE_RESIDENT = 2 };

/* A thread rotates the same N pairs in HEADS heads, `apart` elements from one head to the next, by angles that it loads
 * once. The walk covers the first of the HEADS heads, with `chunks` chunks of N pairs per head. sign: 1, or -1 for the
 * inverse. */
template <typename T, int N, int HEADS, bool INTERLEAVED>
__global__ void __launch_bounds__(WALK_THREADS, ROPE_RESIDENT)
    rope(struct row_walk walk, view<T> x, const int32_t *positions, view<const float> table, uint32_t chunks,
         int64_t apart, float sign)
{
    struct loaded {
        pack<T, N> a[HEADS], b[HEADS];
        int32_t position;
    };
    walk_packs<1>(
        walk,
        [&](uint32_t row, uint32_t p) {
            struct pair_place at = place_of<N, INTERLEAVED>(p, chunks);
            const T *from = x.row(row);
            struct loaded in;
            in.position = positions[row]; /* first, since the table's rows depend on it */
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                in.a[h] = load_pack<N>(from + at.a + h * apart);
                in.b[h] = load_pack<N>(from + at.b + h * apart);
            }
            return in;
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            struct pair_place at = place_of<N, INTERLEAVED>(p, chunks);
            const float *angles = table.row(in.position) + at.pair;
            T *to = x.row(row);
            float cosine[N], sine[N];
            load(angles, cosine);
            load(angles + chunks * N, sine);
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                float v[2][N], rotated[2][N];
                unpack(in.a[h], v[0]);
                unpack(in.b[h], v[1]);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    /* the pair's elements among the 2 N loaded */
                    const int j = INTERLEAVED ? 2 * i : i, k = INTERLEAVED ? 2 * i + 1 : N + i;
                    float first = v[j / N][j % N], second = v[k / N][k % N], s = sign * sine[i];
                    rotated[j / N][j % N] = first * cosine[i] - second * s;
                    rotated[k / N][k % N] = second * cosine[i] + first * s;
                }
                store(to + at.a + h * apart, rotated[0]);
                store(to + at.b + h * apart, rotated[1]);
            }
        });
}

template <typename T, int N, int HEADS>
static void launch_heads(const struct cuda_target *target, const struct rope_args *args)
{
    auto kernel = args->interleaved ? rope<T, N, HEADS, true> : rope<T, N, HEADS, false>;
    walk_launch(target, "rope", kernel, args->x.rows, args->x.cols / (2 * N * HEADS), view_of<T>(args->x),
                static_cast<const int32_t *>(args->positions.data), view_of<const float>(args->table),
                (uint32_t)(args->head_dim / (2 * N)), args->x.cols / HEADS, args->inverse ? -1.0f : 1.0f);
}

/* Processes as many heads per thread as divides their number, for more loads in flight. */
template <typename T, int N> static void launch(const struct cuda_target *target, const struct rope_args *args)
{
    int64_t heads = args->x.cols / args->head_dim;
    if (heads % 4 == 0)
        launch_heads<T, N, 4>(target, args);
    else if (heads % 3 == 0)
        launch_heads<T, N, 3>(target, args);
    else if (heads % 2 == 0)
        launch_heads<T, N, 2>(target, args);
    else
        launch_heads<T, N, 1>(target, args);
}

/* Returns whether N pairs can be moved together. */
static bool pairs_fit(const struct rope_args *args, int n)
{
    return args->head_dim / 2 % n == 0 && packs_fit(args->x, n) && packs_fit(args->table, n);
}

void cuda_rope(const struct cuda_target *target, const struct rope_args *args)
{
    visit(args->x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (pairs_fit(args, pack_width<T>))
            launch<T, pack_width<T>>(target, args);
        else if (pairs_fit(args, pack_width<T> / 2)) /* such as heads of 24 */
            launch<T, pack_width<T> / 2>(target, args);
        else
            launch<T, 1>(target, args);
    });
}
