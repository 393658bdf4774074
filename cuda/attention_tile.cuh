/* Attention's tiles in shared memory, and their matrix products: by tensor cores for bf16, by plain arithmetic for f32.
 *
 * A tile has DIM columns; narrower heads are padded with zeros. Its rows consist of 16-byte chunks, which are permuted
 * (swizzled) within the row, so that eight rows' accesses to one column of chunks have no bank conflicts.
 *
 * Each warp owns BLOCKS x 16 rows of a product. An accumulator [BLOCKS][COLUMNS / 8][4] has in [i][j] the elements
 * (row, col), (row, col + 1), (row + 8, col), (row + 8, col + 1) with row = 16 i + lane / 4 and
 * col = 8 j + 2 (lane % 4). */
#ifndef CUDA_ATTENTION_TILE_CUH
#define CUDA_ATTENTION_TILE_CUH

#include "cuda/accumulator.cuh"
#include "cuda/mma.cuh"

/* Returns the number that is XORed with a row's chunk numbers. Rows of less than 128 bytes share a line of banks. */
template <typename T, int DIM> __device__ __forceinline__ int permutation(int row)
{
    constexpr int bytes = DIM * sizeof(T), per_line = bytes < 128 ? 128 / bytes : 1;
    return row / per_line % (8 / per_line);
}

template <typename T, int DIM> __device__ __forceinline__ int tile_index(int row, int chunk)
{
    return row * DIM + (chunk ^ permutation<T, DIM>(row)) * pack_width<T>;
}

/* Returns the index of an element in a tile. */
template <typename T, int DIM> __device__ __forceinline__ int tile_element(int row, int col)
{
    return tile_index<T, DIM>(row, col / pack_width<T>) + col % pack_width<T>;
}

/* Copies rows 0 .. rows - 1 and columns 0 .. dim - 1 from `from` to a tile of ROWS rows, with zeros elsewhere. Called
 * by all THREADS of the block; complete after copy_async_wait and a barrier. VECTOR: by 16 bytes, otherwise by
 * elements. */
template <int ROWS, int DIM, int THREADS, bool VECTOR, typename T>
__device__ __forceinline__ void load_tile(T *tile, const T *from, int64_t stride, int rows, int dim)
{
    constexpr int width = pack_width<T>, chunks = DIM / width;
    constexpr int step = THREADS / chunks < ROWS ? THREADS / chunks : ROWS;
    static_assert(THREADS % chunks == 0 && ROWS % step == 0, "every thread that moves any moves as much");
    int thread = recomputed(threadIdx.x), chunk = thread % chunks, row = thread / chunks;
    if (step * chunks < THREADS && row >= step)
        return;
    from += row * stride + chunk * width;
#pragma unroll
    for (int i = 0; i < ROWS / step; i++, row += step, from += step * stride) {
        T *to = tile + tile_index<T, DIM>(row, chunk);
        if constexpr (VECTOR) {
            copy_async<16>(to, from, row < rows && chunk * width < dim);
        } else {
            pack<T, width> values;
#pragma unroll
            for (int e = 0; e < width; e++)
                values.at[e] = row < rows && chunk * width + e < dim ? from[e] : from_float<T>(0.0f);
            *reinterpret_cast<pack<T, width> *>(to) = values;
        }
    }
}

/* Stores an accumulator, each row times factor [i][half], to rows 0 .. rows - 1 and columns 0 .. dim - 1 at `to`. tile:
 * this warp's rows of a tile that no other warp uses any more; they are overwritten. */
template <int BLOCKS, int DIM, bool VECTOR, typename T>
__device__ __forceinline__ void store_rows(const float (&sum)[BLOCKS][DIM / 8][4], const float (&factor)[BLOCKS][2],
                                           T *tile, T *to, int64_t stride, int rows, int dim)
{
    constexpr int width = pack_width<T>, chunks = DIM / width;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int j = 0; j < DIM / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = 16 * i + 8 * half + fragment_row();
                pack<T, 2> pair;
#pragma unroll
                for (int e = 0; e < 2; e++)
                    pair.at[e] = from_float<T>(sum[i][j][2 * half + e] * factor[i][half]);
                *reinterpret_cast<pack<T, 2> *>(tile + tile_element<T, DIM>(row, 8 * j + fragment_col())) = pair;
            }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BLOCKS * 16 * chunks / WARP; i++) {
        int n = i * WARP + lane_of_thread(), row = n / chunks, chunk = n % chunks;
        if (row >= rows || chunk * width >= dim)
            continue;
        T *at = to + row * stride + chunk * width;
        pack<T, width> values = *reinterpret_cast<pack<T, width> *>(tile + tile_index<T, DIM>(row, chunk));
        if constexpr (VECTOR) {
            *reinterpret_cast<pack<T, width> *>(at) = values;
        } else {
#pragma unroll
            for (int e = 0; e < width; e++)
                if (chunk * width + e < dim)
                    at[e] = values.at[e];
        }
    }
}

/* Stores sixteen rows of an accumulator, times a factor, in f32 to rows 0 .. rows - 1 and columns 0 .. dim - 1 at `to`.
 * accumulate: adds them to the old values. */
template <int TILES>
__device__ __forceinline__ void store_wide(const float (&sum)[TILES][4], float factor, float *to, int64_t stride,
                                           int rows, int dim, bool accumulate)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = 8 * half + fragment_row();
        if (row >= rows)
            continue;
        float *at = to + row * stride;
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int col = 8 * j + fragment_col() + e;
                if (col < dim)
                    at[col] = (accumulate ? at[col] : 0.0f) + sum[j][2 * half + e] * factor;
            }
    }
}

/* -- Products ---------------------------------------------------------------------------------------------------- */

/* Returns the address from which this lane reads 8 x 8 matrices at `row` and chunk `half`. To advance by 16 n columns,
 * XOR it with 32 n: tiles begin at multiples of the permutation's period. To advance by a multiple of 16 rows, add
 * their bytes. */
template <int DIM> __device__ __forceinline__ uint32_t matrices_at(const __nv_bfloat16 *tile, int row, int half)
{
    return shared_address(tile + tile_index<__nv_bfloat16, DIM>(row, half));
}

/* sum += a b'. The rows of a belong to this warp; b has 8 TILES rows. */
template <int DIM, int BLOCKS, int TILES>
__device__ __forceinline__ void add_product(float (&sum)[BLOCKS][TILES][4], const __nv_bfloat16 *a,
                                            const __nv_bfloat16 *b)
{
    constexpr int sixteen_rows = 16 * DIM * sizeof(__nv_bfloat16);
    int lane = recomputed(threadIdx.x) % WARP;
    uint32_t a_at = matrices_at<DIM>(a, lane % 16, lane / 16);
    uint32_t b_at = matrices_at<DIM>(b, lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
        uint32_t left[BLOCKS][4];
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
            load_matrices(left[i], (a_at ^ (32 * k)) + i * sixteen_rows);
#pragma unroll
        for (int j = 0; j < TILES / 2; j++) {
            uint32_t right[4];
            load_matrices(right, (b_at ^ (32 * k)) + j * sixteen_rows);
#pragma unroll
            for (int i = 0; i < BLOCKS; i++) {
                multiply_16_8_16(sum[i][2 * j], left[i], right[0], right[1]);
                multiply_16_8_16(sum[i][2 * j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/* sum += p b. p [rows, 8 TILES] is an accumulator, whose layout is that of the next product's left operand; b has 8
 * TILES rows. */
template <int DIM, int BLOCKS, int TILES>
__device__ __forceinline__ void add_weighted(float (&sum)[BLOCKS][DIM / 8][4], const float (&p)[BLOCKS][TILES][4],
                                             const __nv_bfloat16 *b)
{
    constexpr int sixteen_rows = 16 * DIM * sizeof(__nv_bfloat16);
    int lane = recomputed(threadIdx.x) % WARP;
    uint32_t b_at = matrices_at<DIM>(b, lane % 16, lane / 16);
#pragma unroll
    for (int k = 0; k < TILES / 2; k++) {
        uint32_t left[BLOCKS][4];
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                left[i][e] = pair_of(p[i][2 * k + e / 2][e % 2 * 2], p[i][2 * k + e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < DIM / 16; j++) {
            uint32_t right[4];
            load_matrices_transposed(right, (b_at ^ (32 * j)) + k * sixteen_rows);
#pragma unroll
            for (int i = 0; i < BLOCKS; i++) {
                multiply_16_8_16(sum[i][2 * j], left[i], right[0], right[1]);
                multiply_16_8_16(sum[i][2 * j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/* As above in f32, not optimised. */
template <int DIM, int BLOCKS, int TILES>
__device__ __forceinline__ void add_product(float (&sum)[BLOCKS][TILES][4], const float *a, const float *b)
{
#pragma unroll 1
    for (int k = 0; k < DIM; k++)
#pragma unroll
        for (int i = 0; i < BLOCKS; i++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    sum[i][j][e] += a[tile_element<float, DIM>(16 * i + 8 * (e / 2) + fragment_row(), k)] *
                                    b[tile_element<float, DIM>(8 * j + fragment_col() + e % 2, k)];
}

/* As above in f32; lanes of a row exchange their elements of p. */
template <int DIM, int BLOCKS, int TILES>
__device__ __forceinline__ void add_weighted(float (&sum)[BLOCKS][DIM / 8][4], const float (&p)[BLOCKS][TILES][4],
                                             const float *b)
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int k = 0; k < TILES; k++)
#pragma unroll 1
            for (int owner = 0; owner < 4; owner++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float weight = __shfl_sync(0xffffffffu, p[i][k][e], owner, 4);
                    int row = 8 * k + 2 * owner + e % 2;
#pragma unroll
                    for (int j = 0; j < DIM / 8; j++)
#pragma unroll
                        for (int c = 0; c < 2; c++)
                            sum[i][j][e / 2 * 2 + c] +=
                                weight * b[tile_element<float, DIM>(row, 8 * j + fragment_col() + c)];
                }
}

#endif
