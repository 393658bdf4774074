#include "cuda/walk.cuh"

/* Where N pairs of a row are: `pair` is the first's number in its head; a and b are what is loaded, N elements each. */
struct place {
    int64_t a, b;
    uint32_t pair;
};

/* chunks: of N pairs, in a head. */
template <int N, bool INTERLEAVED> __device__ __forceinline__ struct place place_of(uint32_t p, uint32_t chunks)
{
    uint32_t head = p / chunks, pair = (p - head * chunks) * N, half = chunks * N;
    int64_t first = (int64_t)head * 2 * half;
    return INTERLEAVED ? place{first + 2 * pair, first + 2 * pair + N, pair}
                       : place{first + pair, first + half + pair, pair};
}

/* sign is 1, or -1 for the inverse. The table's rows are small and used by all heads: they come from the caches. */
template <typename T, int N, bool INTERLEAVED>
__global__ WALK_BOUNDS void rope(struct walk walk, view<T> x, const int32_t *positions, view<const float> table,
                                 uint32_t chunks, float sign)
{
    struct loaded {
        pack<T, N> a, b;
    };
    walk_packs<2>(
        walk,
        [&](uint32_t row, uint32_t p) {
            struct place at = place_of<N, INTERLEAVED>(p, chunks);
            const T *from = x.row(row);
            return loaded{load_pack<N>(from + at.a), load_pack<N>(from + at.b)};
        },
        [&](uint32_t row, uint32_t p, const loaded &in) {
            struct place at = place_of<N, INTERLEAVED>(p, chunks);
            const float *angles = table.row(positions[row]) + at.pair;
            float cosine[N], sine[N], v[2][N], rotated[2][N];
            load(angles, cosine);
            load(angles + chunks * N, sine);
            unpack(in.a, v[0]);
            unpack(in.b, v[1]);
#pragma unroll
            for (int i = 0; i < N; i++) {
                /* the pair's two among the 2 N elements loaded */
                const int j = INTERLEAVED ? 2 * i : i, k = INTERLEAVED ? 2 * i + 1 : N + i;
                float first = v[j / N][j % N], second = v[k / N][k % N], s = sign * sine[i];
                rotated[j / N][j % N] = first * cosine[i] - second * s;
                rotated[k / N][k % N] = second * cosine[i] + first * s;
            }
            T *to = x.row(row);
            store(to + at.a, rotated[0]);
            store(to + at.b, rotated[1]);
        });
}

template <typename T, int N> static void launch(const struct cuda_target *target, const struct rope_args *args)
{
    auto kernel = args->interleaved ? rope<T, N, true> : rope<T, N, false>;
    walk_launch(target, "rope", kernel, args->x.rows, args->x.cols / (2 * N), view_of<T>(args->x),
                static_cast<const int32_t *>(args->positions.data), view_of<const float>(args->table),
                (uint32_t)(args->head_dim / (2 * N)), args->inverse ? -1.0f : 1.0f);
}

/* Can N pairs be moved together? */
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
        else if (pairs_fit(args, pack_width<T> / 2)) /* heads of 24 */
            launch<T, pack_width<T> / 2>(target, args);
        else
            launch<T, 1>(target, args);
    });
}
