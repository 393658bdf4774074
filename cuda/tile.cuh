/* Processes a matrix in square tiles, one per block. A thread has a small square of it, and keeps the values, amaxes
 * and sums in registers. */
#ifndef CUDA_TILE_CUH
#define CUDA_TILE_CUH

#include "cuda/device.cuh"
#include "cuda/mma.cuh"

#include <cuda_fp8.h>
#include <cuda_pipeline_primitives.h>

/* 16 lanes have a tile's row, eight elements each; a warp has 16 rows. */
enum {
    TILE = QUANTIZATION_BLOCK,
    SIDE = 8,
    TILE_PACKS = TILE / SIDE,
    TILE_THREADS = TILE_PACKS * TILE_PACKS,
    TILE_WARPS = TILE_THREADS / WARP
};

/* The block's tile, and the thread's square in it. */
struct tile_square {
    int64_t first_row, first_col; /* of the tile in the matrix */
    int row, col;                 /* of the square in the tile */
    int rows, cols;               /* rows and columns of the square inside the matrix, 0 .. SIDE */
    int64_t end_col;              /* end of the matrix's columns, or of the half that the tile is in */
};

/* Returns the thread's place in tile `block`. PAIRS: tiles of the left and the right half alternate, since both are
 * computed from the same inputs. */
template <bool PAIRS = false>
__device__ __forceinline__ struct tile_square place_of(int64_t rows, int64_t cols, uint32_t block = blockIdx.x)
{
    uint32_t across = (uint32_t)((cols + TILE - 1) / TILE), col = block % across;
    struct tile_square at;
    if (PAIRS)
        col = col / 2 + (col % 2 == 0 ? 0 : (across + 1) / 2);
    at.first_row = (int64_t)(block / across) * TILE;
    at.first_col = (int64_t)col * TILE;
    at.row = threadIdx.x / TILE_PACKS * SIDE;
    at.col = threadIdx.x % TILE_PACKS * SIDE;
    at.rows = (int)max((int64_t)0, min((int64_t)SIDE, rows - at.first_row - at.row));
    at.cols = (int)max((int64_t)0, min((int64_t)SIDE, cols - at.first_col - at.col));
    at.end_col = cols;
    return at;
}

/* -- Access -------------------------------------------------------------------------------------------------------- */

/* Returns the row stride of a matrix that kernels access by tiles. They multiply it in 32 bits, since 64-bit arithmetic
 * would spill registers; a stride above 4 GiB is fatal. */
inline int64_t tile_stride(const struct tensor &t)
{
    if (!address_stride_fits(t.rows, t.stride * dtype_size(t.dtype)))
        error_fatal("cuda executor: rows of a matrix of tiles are %lld elements apart: at most 4 GiB",
                    (long long)t.stride);
    return t.stride;
}

template <typename T> inline view<T> tile_view_of(const struct tensor &t)
{
    view<T> v = view_of<T>(t);
    v.stride = tile_stride(t);
    return v;
}

/* Returns the address of the i-th row after `from`, in a matrix with a stride of tile_stride. */
template <typename T> __device__ __forceinline__ T *rows_on(T *from, int64_t stride, int i)
{
    using byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return reinterpret_cast<T *>(reinterpret_cast<byte *>(from) +
                                 (uint64_t)(uint32_t)(stride * sizeof(T)) * (uint32_t)i);
}

/* Elements as 32-bit words: the compiler would move 16-bit elements one at a time. */
template <typename T> constexpr int square_words = SIDE * sizeof(T) / 4;

template <typename T> struct alignas(16) side {
    uint32_t at[square_words<T>];
};

/* Reads the first `count` elements, and zeros for the rest. WIDE: reads all, 16 bytes at a time. */
template <bool WIDE, typename T> __device__ __forceinline__ side<T> read_side(const T *from, int count)
{
    if constexpr (WIDE) {
        side<T> to;
#pragma unroll
        for (int i = 0; i < square_words<T>; i += 4) {
            uint4 word = reinterpret_cast<const uint4 *>(from)[i / 4];
            to.at[i] = word.x;
            to.at[i + 1] = word.y;
            to.at[i + 2] = word.z;
            to.at[i + 3] = word.w;
        }
        return to;
    } else {
        pack<T, SIDE> to = {};
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            if (i < count)
                to.at[i] = from[i];
        return reinterpret_cast<const side<T> &>(to);
    }
}

/* The bits of magnitudes, as integers, have the order of the numbers. Bits from `not_finite` on are inf and NaN; both
 * count as inf. */
__device__ constexpr uint32_t not_finite = 0x7f800000u;

__device__ __forceinline__ float amax_of(uint32_t bits)
{
    return __uint_as_float(min(bits, not_finite));
}

/* The magnitudes of the elements in a word, and the elementwise maximum of two such words. */
template <typename T> __device__ __forceinline__ uint32_t magnitudes(uint32_t word)
{
    return word & (sizeof(T) == 2 ? 0x7fff7fffu : 0x7fffffffu);
}

template <typename T> __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b)
{
    return sizeof(T) == 2 ? __vmaxu2(a, b) : max(a, b);
}

/* Returns element j of a row's words as the bits of an f32. */
template <typename T> __device__ __forceinline__ uint32_t value_bits(const uint32_t *words, int j)
{
    if (sizeof(T) == 2)
        return j % 2 == 0 ? words[j / 2] << 16 : words[j / 2] & 0xffff0000u;
    return words[j];
}

template <typename T> __device__ __forceinline__ void unpack(const side<T> &from, float (&to)[SIDE])
{
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        to[i] = __uint_as_float(value_bits<T>(from.at, i));
}

template <typename T> __device__ __forceinline__ side<T> rounded_side(const float (&from)[SIDE])
{
    const pack<T, SIDE> p = rounded<T>(from);
    return reinterpret_cast<const side<T> &>(p);
}

template <typename T> struct square {
    uint32_t at[SIDE][square_words<T>];

    /* Makes the compiler treat the words as new. Otherwise it would keep values derived from them, and spill
     * registers. */
    __device__ __forceinline__ void renew()
    {
#pragma unroll
        for (int i = 0; i < SIDE; i++)
#pragma unroll
            for (int w = 0; w < square_words<T>; w++)
                asm volatile("" : "+r"(at[i][w]));
    }

    __device__ __forceinline__ void read_row(int i, float (&v)[SIDE]) const
    {
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            v[j] = __uint_as_float(value_bits<T>(at[i], j));
    }

    __device__ __forceinline__ void read_column(int j, float (&v)[SIDE]) const
    {
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            v[i] = __uint_as_float(value_bits<T>(at[i], j));
    }

    /* Returns the bits of the largest magnitude of row i. */
    __device__ __forceinline__ uint32_t row_amax(int i) const
    {
        uint32_t most = 0;
#pragma unroll
        for (int w = 0; w < square_words<T>; w++)
            most = larger<T>(most, magnitudes<T>(at[i][w]));
        return sizeof(T) == 2 ? max(most << 16, most & 0xffff0000u) : most;
    }

    /* Finds each column's amax, in the word layout of a row. */
    __device__ __forceinline__ void column_amaxes(uint32_t (&most)[square_words<T>]) const
    {
#pragma unroll
        for (int w = 0; w < square_words<T>; w++) {
            most[w] = 0;
#pragma unroll
            for (int i = 0; i < SIDE; i++)
                most[w] = larger<T>(most[w], magnitudes<T>(at[i][w]));
        }
    }
};

template <typename T> __device__ __forceinline__ uint32_t square_amax(const square<T> &x)
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < SIDE; i++)
#pragma unroll
        for (int w = 0; w < square_words<T>; w++)
            most = larger<T>(most, magnitudes<T>(x.at[i][w]));
    return sizeof(T) == 2 ? max(most << 16, most & 0xffff0000u) : most;
}

/* Eight consecutive elements of each of several matrices. */
template <typename T, int PARTS> struct sides {
    side<T> of[PARTS];
};

/* The address of the thread's first row in each matrix. */
template <typename T, int PARTS> struct part_rows {
    const T *of[PARTS];
    int64_t stride[PARTS];

    template <bool WIDE> __device__ __forceinline__ sides<T, PARTS> load(int row, int count) const
    {
        sides<T, PARTS> in;
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            in.of[p] = read_side<WIDE>(rows_on(of[p], stride[p], row), count);
        return in;
    }
};

/* 16-byte words of shared memory that staged loads of a source use. */
template <typename Source> constexpr int staged_words = Source::STAGED *SIDE *TILE_THREADS;

/* Converts loaded elements to the values of a row of the square; zeros outside the matrix. A source has the values'
 * type, at(row, col), which returns an object with load<WIDE>(row of the square, count), and values(loaded, col, to),
 * which maps zeros to zeros. Constants: AHEAD loads in flight of a thread, or STAGED matrices that pass through shared
 * memory; RESIDENT blocks per SM; PAIRS: tiles of two halves alternate; HALVES: outputs with the same columns. */
template <typename Source, typename T>
__device__ __forceinline__ void values_of(const Source &source, const typename Source::loaded &in, int64_t col, int row,
                                          square<T> (&x)[Source::HALVES])
{
    side<T> made[Source::HALVES];
    source.values(in, col, made);
#pragma unroll
    for (int half = 0; half < Source::HALVES; half++)
#pragma unroll
        for (int w = 0; w < square_words<T>; w++)
            x[half].at[row][w] = made[half].at[w];
}

template <bool WIDE, typename Source, typename T>
__device__ __forceinline__ void load_square(const Source &source, const struct tile_square &at,
                                            square<T> (&x)[Source::HALVES])
{
    constexpr int AHEAD = Source::AHEAD;
    const int rows = at.cols > 0 ? at.rows : 0;
    const int64_t col = at.first_col + at.col;
    const auto from = source.at(at.first_row + at.row, col);
#pragma unroll
    for (int first = 0; first < SIDE; first += AHEAD) {
        typename Source::loaded in[AHEAD] = {};
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i < rows)
                in[i] = from.template load<WIDE>(first + i, at.cols);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            values_of(source, in[i], col, first + i, x);
    }
}

/* Loads a square with all its 16-byte accesses in flight at once. They pass through shared memory, since registers do
 * not suffice; a thread reads only what it copied. */
template <typename Source, typename T>
__device__ __forceinline__ void load_staged(const Source &source, const struct tile_square &at, uint4 *stage,
                                            square<T> (&x)[Source::HALVES])
{
    constexpr int PARTS = Source::STAGED;
    static_assert(sizeof(side<T>) == sizeof *stage, "one word");
    const int rows = at.cols > 0 ? at.rows : 0;
    const int64_t col = at.first_col + at.col;
    const auto from = source.at(at.first_row + at.row, col);
    stage += threadIdx.x;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            copy_async<sizeof *stage>(stage + (i * PARTS + p) * TILE_THREADS, rows_on(from.of[p], from.stride[p], i),
                                      i < rows);
        __pipeline_commit();
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        typename Source::loaded in;
        __pipeline_wait_prior(SIDE - 1 - i);
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            reinterpret_cast<uint4 &>(in.of[p]) = stage[(i * PARTS + p) * TILE_THREADS];
        values_of(source, in, col, i, x);
    }
}

/* The rows of the thread's square in a matrix. */
template <typename T> struct square_rows {
    T *first;
    int64_t stride;
    int rows, cols;

    template <bool WIDE>
    __device__ __forceinline__ void write(int i, const uint32_t (&from)[SIDE * sizeof(T) / 4]) const
    {
        if (i < rows)
            write_some<WIDE, T, SIDE>(rows_on(first, stride, i), reinterpret_cast<const pack<T, SIDE> &>(from),
                                      (int64_t)cols);
    }
};

template <typename T>
__device__ __forceinline__ square_rows<T> square_rows_of(void *matrix, int64_t stride, const struct tile_square &at)
{
    T *first = static_cast<T *>(matrix) + (at.first_row + at.row) * stride + at.first_col + at.col;
    return {first, stride, at.cols > 0 ? at.rows : 0, at.cols};
}

template <bool WIDE, typename T>
__device__ __forceinline__ void write_square(const square<T> &x, void *to, int64_t stride, const struct tile_square &at)
{
    const square_rows<T> rows = square_rows_of<T>(to, stride, at);
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        rows.template write<WIDE>(i, x.at[i]);
}

/* -- Amaxes -------------------------------------------------------------------------------------------------------- */

/* Stores the amax of each warp's squares. */
template <typename T> __device__ __forceinline__ void put_amax(const square<T> &x, uint32_t (&warp_bits)[TILE_WARPS])
{
    uint32_t most = __reduce_max_sync(0xffffffffu, square_amax(x));
    if (threadIdx.x % WARP == 0)
        warp_bits[threadIdx.x / WARP] = most;
}

/* Raises *amax, which other blocks raise too, to the largest of the warps' amaxes. `before`: an earlier value of *amax,
 * which only grows; it saves atomics. */
__device__ __forceinline__ void raise_amax(const uint32_t (&warp_bits)[TILE_WARPS], uint32_t before, uint32_t *amax)
{
    if (threadIdx.x > 0)
        return;
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < TILE_WARPS; i++)
        most = max(most, warp_bits[i]);
    most = min(most, not_finite);
    if (most > before)
        atomicMax(amax, most);
}

/* Returns to lane c of 16 the maximum over the 16 lanes of row c % SIDE. In each exchange a lane keeps half of its
 * values and sends the other half. */
template <typename T> __device__ __forceinline__ uint32_t lane_row_amax(const square<T> &x)
{
    uint32_t most[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        most[i] = x.row_amax(i);
#pragma unroll
    for (int half = SIDE / 2; half > 0; half /= 2) {
        bool upper = threadIdx.x & half;
#pragma unroll
        for (int i = 0; i < half; i++) {
            uint32_t kept = upper ? most[i + half] : most[i], sent = upper ? most[i] : most[i + half];
            most[i] = max(kept, __shfl_xor_sync(0xffffffffu, sent, half));
        }
    }
    return max(most[0], __shfl_xor_sync(0xffffffffu, most[0], SIDE));
}

/* Stores the amaxes of the tile's rows. */
template <typename T> __device__ __forceinline__ void put_row_amaxes(const square<T> &x, uint32_t (&row_bits)[TILE])
{
    uint32_t most = lane_row_amax(x);
    if (threadIdx.x % TILE_PACKS < SIDE)
        row_bits[threadIdx.x / TILE_PACKS * SIDE + threadIdx.x % SIDE] = most;
}

/* Stores the tile's column amaxes over each warp's 16 rows, in the word layout of a row. */
template <typename T>
__device__ __forceinline__ void put_column_amaxes(const square<T> &x,
                                                  uint32_t (&words)[TILE_WARPS][TILE_PACKS * square_words<T>])
{
    uint32_t most[square_words<T>];
    x.column_amaxes(most);
#pragma unroll
    for (int w = 0; w < square_words<T>; w++)
        most[w] = larger<T>(most[w], __shfl_xor_sync(0xffffffffu, most[w], TILE_PACKS));
    if (threadIdx.x % WARP < TILE_PACKS)
#pragma unroll
        for (int w = 0; w < square_words<T>; w++)
            words[threadIdx.x / WARP][threadIdx.x % TILE_PACKS * square_words<T> + w] = most[w];
}

/* A column's amax over the tile's rows, and over the 32 rows of a pair of warps. */
template <typename T>
__device__ __forceinline__ uint32_t column_amax(const uint32_t (&words)[TILE_WARPS][TILE_PACKS * square_words<T>],
                                                int col)
{
    uint32_t most = 0;
#pragma unroll
    for (int warp = 0; warp < TILE_WARPS; warp++)
        most = max(most, value_bits<T>(words[warp], col));
    return most;
}

template <typename T>
__device__ __forceinline__ uint32_t warp_pair_amax(const uint32_t (&words)[TILE_WARPS][TILE_PACKS * square_words<T>],
                                                   int col)
{
    int warp = threadIdx.x / WARP;
    return max(value_bits<T>(words[warp], col), value_bits<T>(words[warp ^ 1], col));
}

__device__ __forceinline__ uint32_t line_amax(const float (&v)[SIDE])
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        most = max(most, __float_as_uint(v[i]) & 0x7fffffffu);
    return most;
}

/* Applies quantization_hadamard to 16 rows of a column. Two lanes have eight rows each. */
__device__ __forceinline__ void transform_column(float (&v)[SIDE])
{
    static_assert(QUANTIZATION_HADAMARD == 2 * SIDE, "two squares");
    bool lower = threadIdx.x / TILE_PACKS % 2 == 1;
    uint32_t signs = QUANTIZATION_SIGNS >> (lower ? SIDE : 0);
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        v[i] = signs >> i & 1u ? -v[i] : v[i];
#pragma unroll
    for (int half = 1; half < SIDE; half *= 2)
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            if ((i & half) == 0) {
                float sum = v[i] + v[i + half], difference = v[i] - v[i + half];
                v[i] = sum;
                v[i + half] = difference;
            }
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        float other = __shfl_xor_sync(0xffffffffu, v[i], TILE_PACKS);
        v[i] = (lower ? other - v[i] : v[i] + other) * 0.25f;
    }
}

/* -- Sums ---------------------------------------------------------------------------------------------------------- */

/* Stores the sums of the tile's columns over each warp's rows, in a fixed order. */
template <typename T>
__device__ __forceinline__ void put_column_sums(const square<T> &x, float (&sums)[TILE_WARPS][TILE])
{
    pack<float, SIDE> total = {};
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        float v[SIDE];
        x.read_column(j, v);
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            total.at[j] += v[i];
        total.at[j] += __shfl_xor_sync(0xffffffffu, total.at[j], TILE_PACKS);
    }
    if (threadIdx.x % WARP < TILE_PACKS)
        *reinterpret_cast<pack<float, SIDE> *>(&sums[threadIdx.x / WARP][threadIdx.x % TILE_PACKS * SIDE]) = total;
}

/* Writes the column sums over the tile's rows to partial [tiles down][cols]. */
__device__ __forceinline__ void write_column_sums(const float (&sums)[TILE_WARPS][TILE], float *partial, int64_t rows,
                                                  int64_t cols, const struct tile_square &at)
{
    int64_t col = at.first_col + threadIdx.x;
    if (threadIdx.x >= TILE || col >= cols || at.first_row >= rows)
        return;
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < TILE_WARPS; warp++)
        sum += sums[warp][threadIdx.x];
    partial[at.first_row / TILE * cols + col] = sum;
}

#endif
