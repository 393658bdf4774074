/* Quantizes a matrix in one pass: makes the rowwise and columnwise operands of struct quantized_operands (core/op.h). A
 * block has a square tile, and a thread a small square of it in registers. The rowwise operand is written from
 * registers, the columnwise one through shared memory. The matrix comes from a source: memory, or an op's
 * computation. */
#ifndef CUDA_QUANTIZE_CUH
#define CUDA_QUANTIZE_CUH

#include "cuda/tile.cuh"

/* Destinations; NULL: not requested. */
struct quantized_targets {
    int64_t rows, cols; /* of the matrix */
    int64_t padded;     /* columns of the columnwise operand; without one, the number of rows */
    void *values, *row, *column;
    int64_t values_stride, row_stride, column_stride;
    float *row_scale, *column_scale;
    int64_t row_scale_stride, column_scale_stride;
    const float *scale;                     /* given scale; NULL: computed from amaxes */
    const uint32_t *row_amax, *column_amax; /* from an earlier pass; SCALING_ROW: of each line, else of all */
    uint32_t *amax;                         /* raised to the tensor's amax */
    float *partial;                         /* column sums [tiles down][cols] */
    const int32_t *draw;
    struct quantization rule;
    uint32_t salt;
};

template <enum scaling SCALING> constexpr bool emulated = SCALING >= SCALING_1X32;
template <enum scaling SCALING> using quantized_element = std::conditional_t<emulated<SCALING>, __nv_bfloat16, uint8_t>;
template <enum number_format FORMAT>
constexpr float largest_of = FORMAT == FORMAT_E4M3   ? 448.0f
                             : FORMAT == FORMAT_E5M2 ? 57344.0f
                                                     : 6.0f;

/* -- Elements ------------------------------------------------------------------------------------------------------ */

/* quantization_scaled without the clamp, which the conversion to 8 bits does. The fmaf turns infinities into NaN. */
__device__ __forceinline__ float scaled(float x, float multiplier)
{
    return fmaf(x, 0.0f, __fmul_rn(x, multiplier));
}

/* Returns two 8-bit elements, the first in the low byte. */
template <enum number_format FORMAT> __device__ __forceinline__ uint32_t two_bytes(float first, float second)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE,
                                    FORMAT == FORMAT_E5M2 ? __NV_E5M2 : __NV_E4M3);
}

/* Elements of a block are multiplied by `multiplier` and rounded. An emulated operand stores rounded elements times
 * `scale`. */
struct block_scale {
    float multiplier, scale;
};

/* Returns the scale of a block from the bits of its amax. tensor: the tensor's multiplier. */
template <enum scaling SCALING, enum number_format FORMAT>
__device__ __forceinline__ struct block_scale block_scale_of(uint32_t amax, float tensor)
{
    if (SCALING == SCALING_1X32) {
        if (amax >= not_finite)
            return {__uint_as_float(0x7fc00000u), 1.0f};
        int exponent = quantization_e8m0(__uint_as_float(amax), largest_of<FORMAT>);
        return {quantization_power(-exponent), quantization_power(exponent)};
    }
    float scale = quantization_block_scale(amax_of(amax), tensor);
    return {quantization_block_multiplier(tensor, scale), scale};
}

/* Random bits for stochastic rounding of a quantized operand. */
struct random_bits {
    bool wanted;
    uint32_t key;
};

/* Quantizes eight consecutive elements of an operand's row, from (row, col) on: to two words for 8 bits, else to
 * four. */
template <enum scaling SCALING, enum number_format FORMAT>
__device__ __forceinline__ void cast(const float (&x)[SIDE], const struct block_scale &by,
                                     const struct random_bits &random, int64_t row, int64_t col,
                                     uint32_t (&out)[SIDE * sizeof(quantized_element<SCALING>) / 4])
{
    if constexpr (!emulated<SCALING>) {
#pragma unroll
        for (int i = 0; i < SIDE; i += 4) {
            uint32_t low = two_bytes<FORMAT>(scaled(x[i], by.multiplier), scaled(x[i + 1], by.multiplier));
            uint32_t high = two_bytes<FORMAT>(scaled(x[i + 2], by.multiplier), scaled(x[i + 3], by.multiplier));
            out[i / 4] = low | high << 16;
        }
    } else {
#pragma unroll
        for (int i = 0; i < SIDE; i += 2) {
            float two[2];
            if constexpr (FORMAT == FORMAT_E2M1) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    float value = quantization_scaled(x[i + j], by.multiplier, largest_of<FORMAT>);
                    two[j] = random.wanted
                                 ? quantization_stochastic(value, quantization_random(random.key, row, col + i + j))
                                 : quantization_rounded(value, FORMAT);
                }
            } else {
                __half2_raw halves =
                    __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)two_bytes<FORMAT>(scaled(x[i], by.multiplier),
                                                                                       scaled(x[i + 1], by.multiplier)),
                                               FORMAT == FORMAT_E5M2 ? __NV_E5M2 : __NV_E4M3);
                float2 values = __half22float2(__half2(halves));
                two[0] = values.x;
                two[1] = values.y;
            }
            pack<__nv_bfloat16, 2> pair = {
                {from_float<__nv_bfloat16>(two[0] * by.scale), from_float<__nv_bfloat16>(two[1] * by.scale)}};
            out[i / 2] = reinterpret_cast<const uint32_t &>(pair);
        }
    }
}

/* -- The columnwise operand's tile -------------------------------------------------------------------------------- */

/* The tile's columns, in 16-byte chunks, laid out so that neither writes nor reads have bank conflicts. */
template <typename OUT> struct column_tile {
    static constexpr int CHUNK = 16 / sizeof(OUT), CHUNKS = TILE / CHUNK;
    uint4 of[TILE * CHUNKS];

    /* Stores column j of the thread's square. */
    __device__ __forceinline__ void put(int j, const uint32_t (&from)[SIDE * sizeof(OUT) / 4])
    {
        int pack = threadIdx.x % TILE_PACKS, group = threadIdx.x / TILE_PACKS, col = pack * SIDE + j;
        if constexpr (sizeof(OUT) == 1) {
            int at = (group / 2 ^ pack % 8) * 2 + (group % 2 ^ pack / 8);
            reinterpret_cast<uint2 *>(of + col * CHUNKS)[at] = make_uint2(from[0], from[1]);
        } else {
            of[col * CHUNKS + (group ^ pack % 8)] = make_uint4(from[0], from[1], from[2], from[3]);
        }
    }

    __device__ __forceinline__ uint4 get(int col, int chunk) const
    {
        uint4 word = of[col * CHUNKS + (chunk ^ col / SIDE % 8)];
        if (sizeof(OUT) == 1 && col / SIDE / 8 != 0)
            return make_uint4(word.z, word.w, word.x, word.y);
        return word;
    }
};

/* Writes the tile to memory. A thread handles one chunk of every STEP-th column. */
template <bool WIDE, typename OUT>
__device__ __forceinline__ void write_columns(const column_tile<OUT> &tile, const struct quantized_targets &to,
                                              const struct tile_square &at)
{
    constexpr int CHUNK = column_tile<OUT>::CHUNK, CHUNKS = column_tile<OUT>::CHUNKS, STEP = TILE_THREADS / CHUNKS;
    constexpr int AHEAD = 4;
    const int chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS;
    const int cols = (int)min((int64_t)TILE, at.end_col - at.first_col);
    const int64_t row = at.first_row + chunk * CHUNK, count = to.padded - row;
    OUT *out = static_cast<OUT *>(to.column) + at.first_col * to.column_stride + row;
    OUT *const first_out = out + first * to.column_stride;
    if (!WIDE || count < CHUNK) {
#pragma unroll 1
        for (int col = first; col < cols; col += STEP) {
            uint4 word = tile.get(col, chunk);
            write_some<false, OUT, CHUNK>(out + col * to.column_stride,
                                          reinterpret_cast<const pack<OUT, CHUNK> &>(word), count);
        }
        return;
    }
    if constexpr (WIDE) {
#pragma unroll
        for (int on = 0; on < TILE; on += STEP * AHEAD) {
            uint4 words[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                words[i] = tile.get(first + on + i * STEP, chunk);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (first + on + i * STEP < cols)
                    write_some<true, OUT, CHUNK>(rows_on(first_out, to.column_stride, on + i * STEP),
                                                 reinterpret_cast<const pack<OUT, CHUNK> &>(words[i]), CHUNK);
        }
    }
}

/* -- Scales -------------------------------------------------------------------------------------------------------- */

template <typename T, enum scaling SCALING>
struct quantize_memory {
    uint32_t column_words[TILE_WARPS][TILE_PACKS * square_words<T>]; uint32_t row_bits[TILE], warp_bits[TILE_WARPS];
    alignas(16) float row_multiplier[TILE], column_multiplier[TILE];
    alignas(16) float sums[TILE_WARPS][TILE];
    column_tile<quantized_element<SCALING>>
        column; /* the last member: staged words begin here and may extend beyond it */
};

/* Returns the shared memory of a block of quantize_tiles. */
template <typename Source, enum scaling SCALING, bool WIDE> constexpr size_t quantize_memory_bytes()
{
    using memory = quantize_memory<typename Source::type, SCALING>;
    constexpr size_t column = sizeof(column_tile<quantized_element<SCALING>>),
                     staged = staged_words<Source> * sizeof(uint4);
    return sizeof(memory) + (WIDE && staged > column ? staged - column : 0);
}

/* Computes the multipliers of a tile's rows and columns, and writes their scales. All threads call it. */
template <typename T, enum scaling SCALING, enum number_format FORMAT>
__device__ __forceinline__ void multipliers_of_lines(quantize_memory<T, SCALING> &memory,
                                                     const struct quantized_targets &to, const struct tile_square &at)
{
    const int line = threadIdx.x % TILE;
    const bool of_row = threadIdx.x < TILE;
    const int64_t first = of_row ? at.first_row : at.first_col, count = of_row ? to.rows : at.end_col;
    const bool there = first + line < count;
    uint32_t amax;
    if (SCALING == SCALING_ROW)
        amax = there ? (of_row ? to.row_amax : to.column_amax)[first + line] : 0;
    else
        amax = of_row ? memory.row_bits[line] : column_amax<T>(memory.column_words, line);
    float multiplier = quantization_multiplier(amax_of(amax), largest_of<FORMAT>, to.rule.power_of_two);
    (of_row ? memory.row_multiplier : memory.column_multiplier)[line] = multiplier;
    float *scale = of_row ? to.row_scale : to.column_scale;
    if (scale == NULL || !there)
        return;
    int64_t across = of_row ? at.first_col : at.first_row; /* along the operand's row */
    if (SCALING == SCALING_1X128)
        scale += across / TILE * (of_row ? to.row_scale_stride : to.column_scale_stride);
    else if (across != 0)
        return;
    scale[first + line] = quantization_reciprocal(multiplier);
}

/* Values that a block reads from memory before it makes its tile, to hide the latency. */
struct known_bits {
    uint32_t scale; /* SCALING_TENSOR: the given scale, or the amax from which it is computed */
    uint32_t amax;  /* the amax to be raised */
};

template <enum scaling SCALING>
__device__ __forceinline__ struct known_bits known_bits_of(const struct quantized_targets &to)
{
    struct known_bits known = {};
    if (SCALING == SCALING_TENSOR && (to.row != NULL || to.column != NULL))
        known.scale = to.scale != NULL ? __float_as_uint(*to.scale) : *to.row_amax;
    if (to.amax != NULL)
        known.amax = __ldcg(to.amax);
    return known;
}

/* Returns the multiplier of the whole tile, and writes its scale. All threads call it. */
template <typename T, enum scaling SCALING, enum number_format FORMAT>
__device__ __forceinline__ float multiplier_of_tile(const quantize_memory<T, SCALING> &memory,
                                                    const struct quantized_targets &to, const struct tile_square &at,
                                                    uint32_t known)
{
    uint32_t amax = 0;
    if (to.row == NULL && to.column == NULL)
        return 1.0f;
    if (SCALING == SCALING_TENSOR && to.scale != NULL)
        return quantization_reciprocal(__uint_as_float(known));
    if (SCALING == SCALING_TENSOR)
        amax = known;
    else
#pragma unroll
        for (int i = 0; i < TILE_WARPS; i++)
            amax = max(amax, memory.warp_bits[i]);
    bool power_of_two = SCALING == SCALING_128X128 && to.rule.power_of_two;
    float multiplier = quantization_multiplier(amax_of(amax), largest_of<FORMAT>, power_of_two);
    if (threadIdx.x > 0)
        return multiplier;
    int64_t down = at.first_row / TILE, across = at.first_col / TILE;
    bool first = SCALING == SCALING_128X128 || (down == 0 && across == 0);
    if (first && to.row_scale != NULL && (at.first_row < to.rows || SCALING == SCALING_TENSOR))
        to.row_scale[down * to.row_scale_stride + across] = quantization_reciprocal(multiplier);
    if (first && to.column_scale != NULL)
        to.column_scale[across * to.column_scale_stride + down] = quantization_reciprocal(multiplier);
    return multiplier;
}

/* Returns the multiplier that all blocks of a tensor share, and writes its scale. */
__device__ __forceinline__ float multiplier_of_tensor(const uint32_t *amax, float *scale)
{
    float multiplier = quantization_multiplier(amax_of(*amax), QUANTIZATION_NVFP4, false);
    if (scale != NULL && blockIdx.x == 0 && threadIdx.x == 0)
        *scale = quantization_reciprocal(multiplier);
    return multiplier;
}

/* -- Quantized operands ------------------------------------------------------------------------------------------- */

/* Transposes the 4 x 4 bytes of four words. */
__device__ __forceinline__ void transpose_bytes(uint32_t &w0, uint32_t &w1, uint32_t &w2, uint32_t &w3)
{
    uint32_t a = __byte_perm(w0, w1, 0x5140), b = __byte_perm(w2, w3, 0x5140);
    uint32_t c = __byte_perm(w0, w1, 0x7362), d = __byte_perm(w2, w3, 0x7362);
    w0 = __byte_perm(a, b, 0x5410);
    w1 = __byte_perm(a, b, 0x7632);
    w2 = __byte_perm(c, d, 0x5410);
    w3 = __byte_perm(c, d, 0x7632);
}

/* Stores the rows of the thread's square as columns. Overwrites `rows`. */
__device__ __forceinline__ void put_columns(uint32_t (&rows)[SIDE][2], column_tile<uint8_t> &tile)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        transpose_bytes(rows[0][half], rows[1][half], rows[2][half], rows[3][half]);
        transpose_bytes(rows[4][half], rows[5][half], rows[6][half], rows[7][half]);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t column[2] = {rows[j][half], rows[4 + j][half]};
            tile.put(4 * half + j, column);
        }
    }
}

/* Writes both 8-bit operands with one multiplier. */
template <typename T, enum scaling SCALING, enum number_format FORMAT, bool WIDE>
__device__ __forceinline__ void quantize_square(square<T> &x, float multiplier, quantize_memory<T, SCALING> &memory,
                                                const struct quantized_targets &to, const struct tile_square &at)
{
    uint32_t bytes[SIDE][2];
    x.renew();
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        float v[SIDE];
        x.read_row(i, v);
        cast<SCALING, FORMAT>(v, {multiplier, 1.0f}, {}, 0, 0, bytes[i]);
    }
    if (to.row != NULL) {
        const square_rows<uint8_t> rows = square_rows_of<uint8_t>(to.row, to.row_stride, at);
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            rows.template write<WIDE>(i, bytes[i]);
    }
    if (to.column != NULL)
        put_columns(bytes, memory.column);
}

/* Writes both 8-bit operands, with a multiplier per row and column. */
template <typename T, enum scaling SCALING, enum number_format FORMAT, bool WIDE>
__device__ __forceinline__ void quantize_lines(square<T> &x, quantize_memory<T, SCALING> &memory,
                                               const struct quantized_targets &to, const struct tile_square &at)
{
    float v[SIDE];
    uint32_t bytes[2];
    x.renew();
    if (to.row != NULL) {
        const square_rows<uint8_t> rows = square_rows_of<uint8_t>(to.row, to.row_stride, at);
        const pack<float, SIDE> by = load_pack<SIDE>(memory.row_multiplier + at.row);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            x.read_row(i, v);
            cast<SCALING, FORMAT>(v, {by.at[i], 1.0f}, {}, 0, 0, bytes);
            rows.template write<WIDE>(i, bytes);
        }
    }
    x.renew();
    if (to.column == NULL)
        return;
    const pack<float, SIDE> by = load_pack<SIDE>(memory.column_multiplier + at.col);
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        x.read_column(j, v);
        cast<SCALING, FORMAT>(v, {by.at[j], 1.0f}, {}, 0, 0, bytes);
        memory.column.put(j, bytes);
    }
}

/* Writes emulated operands whose blocks have 16 or 32 elements. */
template <typename T, enum scaling SCALING, enum number_format FORMAT, bool WIDE>
__device__ __forceinline__ void quantize_blocks(square<T> &x, quantize_memory<T, SCALING> &memory,
                                                const struct quantized_targets &to, const struct tile_square &at)
{
    constexpr bool SQUARE = SCALING == SCALING_16X16, NVFP4 = SCALING != SCALING_1X32;
    struct random_bits random = {to.rule.stochastic, 0};
    float v[SIDE];
    uint32_t out[SIDE / 2], all = 0;
    if constexpr (SQUARE) {
        all = square_amax(x);
        all = max(all, __shfl_xor_sync(0xffffffffu, all, 1));
        all = max(all, __shfl_xor_sync(0xffffffffu, all, TILE_PACKS));
    }
    x.renew();
    if (to.row != NULL) {
        float tensor = NVFP4 ? multiplier_of_tensor(to.row_amax, to.row_scale) : 1.0f;
        struct block_scale by = {};
        if (SQUARE)
            by = block_scale_of<SCALING, FORMAT>(all, tensor);
        if (random.wanted)
            random.key = quantization_key(to.draw, to.salt, false);
        const square_rows<__nv_bfloat16> rows = square_rows_of<__nv_bfloat16>(to.row, to.row_stride, at);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            if (!SQUARE) {
                uint32_t amax = x.row_amax(i);
                amax = max(amax, __shfl_xor_sync(0xffffffffu, amax, 1));
                if (SCALING == SCALING_1X32)
                    amax = max(amax, __shfl_xor_sync(0xffffffffu, amax, 2));
                by = block_scale_of<SCALING, FORMAT>(amax, tensor);
            }
            x.read_row(i, v);
            cast<SCALING, FORMAT>(v, by, random, at.first_row + at.row + i, at.first_col + at.col, out);
            rows.template write<WIDE>(i, out);
        }
    }
    x.renew();
    if (to.column != NULL) {
        float tensor = NVFP4 ? multiplier_of_tensor(to.column_amax, to.column_scale) : 1.0f;
        struct block_scale by = {};
        if (SQUARE)
            by = block_scale_of<SCALING, FORMAT>(all, tensor);
        if (random.wanted)
            random.key = quantization_key(to.draw, to.salt, true);
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            x.read_column(j, v);
            if (SCALING == SCALING_1X16 && to.rule.hadamard)
                transform_column(v);
            if (!SQUARE) {
                uint32_t amax;
                if (SCALING == SCALING_1X32)
                    amax = warp_pair_amax<T>(memory.column_words, at.col + j);
                else
                    amax = max(line_amax(v), __shfl_xor_sync(0xffffffffu, line_amax(v), TILE_PACKS));
                by = block_scale_of<SCALING, FORMAT>(amax, tensor);
            }
            cast<SCALING, FORMAT>(v, by, random, at.first_col + at.col + j, at.first_row + at.row, out);
            if (SCALING == SCALING_1X32 && at.rows < SIDE) /* zeros after the matrix, even next to NaN */
#pragma unroll
                for (int i = 0; i < SIDE; i++)
                    if (i >= at.rows)
                        out[i / 2] &= i % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
            memory.column.put(j, out);
        }
    }
}

/* -- The kernels --------------------------------------------------------------------------------------------------- */

/* Quantizes tile `block` of the source's matrix. shared: quantize_memory_bytes of the block's shared memory. */
template <typename Source, enum scaling SCALING, enum number_format FORMAT, bool WIDE>
__device__ __forceinline__ void quantize_tile(const Source &source, const struct quantized_targets &to, uint32_t block,
                                              uint4 *shared)
{
    using T = typename Source::type;
    using OUT = quantized_element<SCALING>;
    constexpr bool BY_TILE = SCALING == SCALING_TENSOR || SCALING == SCALING_128X128;
    constexpr bool BY_LINE = SCALING == SCALING_ROW || SCALING == SCALING_1X128;
    auto &memory = *reinterpret_cast<quantize_memory<T, SCALING> *>(shared);
    struct tile_square at = place_of<Source::PAIRS>(to.rows, to.cols / Source::HALVES, block);
    const struct known_bits known = known_bits_of<SCALING>(to);
    square<T> made[Source::HALVES];
    if constexpr (WIDE && Source::STAGED > 0)
        load_staged(source, at, memory.column.of, made);
    else
        load_square<WIDE>(source, at, made);
    square<T> x = made[0];
#pragma unroll 1
    for (int half = 0;; half++) {
        if (to.values != NULL)
            write_square<WIDE>(x, to.values, to.values_stride, at);
        if (to.partial != NULL)
            put_column_sums(x, memory.sums);
        x.renew();
        if (SCALING == SCALING_128X128 || to.amax != NULL)
            put_amax(x, memory.warp_bits);
        if (SCALING == SCALING_1X128)
            put_row_amaxes(x, memory.row_bits);
        if (SCALING == SCALING_1X128 || SCALING == SCALING_1X32)
            put_column_amaxes(x, memory.column_words);
        __syncthreads();
        if (BY_LINE && (to.row != NULL || to.column != NULL)) {
            multipliers_of_lines<T, SCALING, FORMAT>(memory, to, at);
            __syncthreads();
        }
        if constexpr (BY_TILE)
            quantize_square<T, SCALING, FORMAT, WIDE>(
                x, multiplier_of_tile<T, SCALING, FORMAT>(memory, to, at, known.scale), memory, to, at);
        else if constexpr (BY_LINE)
            quantize_lines<T, SCALING, FORMAT, WIDE>(x, memory, to, at);
        else
            quantize_blocks<T, SCALING, FORMAT, WIDE>(x, memory, to, at);
        if (to.partial != NULL)
            write_column_sums(memory.sums, to.partial, to.rows, to.cols, at);
        if (to.amax != NULL)
            raise_amax(memory.warp_bits, known.amax, to.amax);
        __syncthreads();
        if (to.column != NULL)
            write_columns<WIDE, OUT>(memory.column, to, at);
        if (half + 1 == Source::HALVES)
            return;
        x = made[Source::HALVES - 1];
        at.first_col += at.end_col;
        at.end_col = to.cols;
    }
}

template <typename Source, enum scaling SCALING, enum number_format FORMAT, bool WIDE>
__global__ void __launch_bounds__(TILE_THREADS, Source::RESIDENT)
    quantize_tiles(Source source, struct quantized_targets to)
{
    extern __shared__ uint4 shared[];
    quantize_tile<Source, SCALING, FORMAT, WIDE>(source, to, blockIdx.x, shared);
}

/* Tiles of two matrices in turns. Their sources have an input in common, so that the second of a pair finds it in the
 * second-level cache. The second matrix becomes e4m3. */
template <typename First, typename Second, enum scaling SCALING, enum number_format FORMAT>
__global__ void __launch_bounds__(TILE_THREADS, First::RESIDENT < Second::RESIDENT ? First::RESIDENT : Second::RESIDENT)
    quantize_pairs(First first, struct quantized_targets to, Second second, struct quantized_targets second_to)
{
    extern __shared__ uint4 shared[];
    if (blockIdx.x % 2 == 0)
        quantize_tile<First, SCALING, FORMAT, true>(first, to, blockIdx.x / 2, shared);
    else
        quantize_tile<Second, SCALING, FORMAT_E4M3, true>(second, second_to, blockIdx.x / 2, shared);
}

/* -- Launches ------------------------------------------------------------------------------------------------------ */

/* Returns whether an op makes quantized operands or an amax too. */
static inline bool wants_quantized(const struct quantized_operands &to)
{
    return has_quantized(&to) || tensor_present(&to.amax);
}

/* Returns the bytes of scratch of a sum over rows; 0 without one. */
static inline int64_t quantized_workspace(int64_t rows, int64_t cols, const struct tensor &sum)
{
    return tensor_present(&sum) ? ceil_div(rows, TILE) * cols * (int64_t)sizeof(float) : 0;
}

static inline struct quantized_targets quantized_targets_of(const struct quantized_operands &to, int64_t rows,
                                                            int64_t cols, const struct tensor &values)
{
    struct quantized_targets t = {};
    t.rows = rows;
    t.cols = cols;
    t.padded = tensor_present(&to.column) ? to.column.cols : rows;
    t.values = values.data;
    t.values_stride = tile_stride(values);
    t.row = to.row.data;
    t.row_stride = tile_stride(to.row);
    t.column = to.column.data;
    t.column_stride = tile_stride(to.column);
    t.row_scale = static_cast<float *>(to.row_scale.data);
    t.row_scale_stride = to.row_scale.stride;
    t.column_scale = static_cast<float *>(to.column_scale.data);
    t.column_scale_stride = to.column_scale.stride;
    t.scale = static_cast<const float *>(to.scale.data);
    t.amax = static_cast<uint32_t *>(to.amax.data);
    t.draw = static_cast<const int32_t *>(to.draw.data);
    t.rule = to.rule;
    t.salt = to.salt;
    return t;
}

/* Returns whether packs of SIDE elements, and 16 bytes of the columnwise operand, can be moved at once. */
static inline bool quantized_fit(const struct quantized_operands &to, int64_t cols, const struct tensor &values)
{
    auto fits = [](const struct tensor &t, int64_t n) { return !tensor_present(&t) || rows_fit(t, (int)n); };
    return cols % SIDE == 0 && fits(values, SIDE) && fits(to.row, SIDE) &&
           fits(to.column, 16 / dtype_size(quantization_dtype(&to.rule)));
}

static inline int64_t quantize_tile_count(const struct quantized_targets &to, int halves = 1)
{
    return ceil_div(to.padded > to.rows ? to.padded : to.rows, TILE) * ceil_div(to.cols / halves, TILE);
}

template <typename Source, enum scaling SCALING, enum number_format FORMAT>
static void launch_quantized_of(const struct cuda_target *target, const char *name, const Source &source,
                                const struct quantized_targets &to, bool wide)
{
    int64_t tiles = quantize_tile_count(to, Source::HALVES);
    if (tiles == 0)
        return;
    auto launch = [&](auto wide) {
        auto kernel = quantize_tiles<Source, SCALING, FORMAT, wide>;
        constexpr size_t bytes = quantize_memory_bytes<Source, SCALING, wide>();
        CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        kernel<<<(unsigned)tiles, TILE_THREADS, bytes, target->stream>>>(source, to);
        CUDA_CHECK_LAUNCH(name);
    };
    if constexpr (sizeof(typename Source::type) == 2)
        if (wide || Source::HALVES == 2)
            return launch(std::true_type());
    if constexpr (Source::HALVES == 1)
        launch(std::false_type());
}

template <enum scaling SCALING, typename Source>
static void launch_quantized_in(const struct cuda_target *target, const char *name, const Source &source,
                                const struct quantized_targets &to, bool wide)
{
    if (to.rule.format == FORMAT_E5M2)
        launch_quantized_of<Source, SCALING, FORMAT_E5M2>(target, name, source, to, wide);
    else
        launch_quantized_of<Source, SCALING, FORMAT_E4M3>(target, name, source, to, wide);
}

template <enum scaling SCALING, enum number_format FORMAT, typename First, typename Second>
static void launch_pairs_of(const struct cuda_target *target, const char *name, const First &first,
                            const struct quantized_targets &to, const Second &second,
                            const struct quantized_targets &second_to)
{
    const int64_t tiles = quantize_tile_count(to, First::HALVES);
    auto kernel = quantize_pairs<First, Second, SCALING, FORMAT>;
    constexpr size_t of_first = quantize_memory_bytes<First, SCALING, true>(),
                     of_second = quantize_memory_bytes<Second, SCALING, true>(),
                     bytes = of_first > of_second ? of_first : of_second;
    CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)bytes));
    kernel<<<(unsigned)(2 * tiles), TILE_THREADS, bytes, target->stream>>>(first, to, second, second_to);
    CUDA_CHECK_LAUNCH(name);
}

template <enum scaling SCALING, typename First, typename Second>
static void launch_pairs_in(const struct cuda_target *target, const char *name, const First &first,
                            const struct quantized_targets &to, const Second &second,
                            const struct quantized_targets &second_to)
{
    if (to.rule.format == FORMAT_E5M2)
        launch_pairs_of<SCALING, FORMAT_E5M2>(target, name, first, to, second, second_to);
    else
        launch_pairs_of<SCALING, FORMAT_E4M3>(target, name, first, to, second, second_to);
}

/* Launches quantize_pairs and returns true, if the two matrices have as many tiles, none of them has a scaling without
 * such a kernel, and the second becomes e4m3. Both must be `wide` (launch_quantized). */
template <typename First, typename Second>
static bool launch_pairs(const struct cuda_target *target, const char *name, const First &first,
                         const struct quantized_targets &to, const Second &second,
                         const struct quantized_targets &second_to)
{
    const enum scaling scaling = to.rule.scaling;
    const int64_t tiles = quantize_tile_count(to, First::HALVES);
    if (second_to.rule.scaling != scaling || second_to.rule.format != FORMAT_E4M3 ||
        (scaling != SCALING_TENSOR && scaling != SCALING_1X128) || tiles == 0 ||
        quantize_tile_count(second_to, Second::HALVES) != tiles)
        return false;
    if (scaling == SCALING_1X128)
        launch_pairs_in<SCALING_1X128>(target, name, first, to, second, second_to);
    else
        launch_pairs_in<SCALING_TENSOR>(target, name, first, to, second, second_to);
    return true;
}

/* Launches quantize_tiles, for scalings that need one pass. wide: quantized_fit, and the source can be read in packs of
 * SIDE elements; must be true for a source with two HALVES. */
template <typename Source>
static void launch_quantized(const struct cuda_target *target, const char *name, const Source &source,
                             const struct quantized_targets &to, bool wide)
{
    if (to.rule.scaling == SCALING_1X128)
        launch_quantized_in<SCALING_1X128>(target, name, source, to, wide);
    else if (to.rule.scaling == SCALING_128X128)
        launch_quantized_in<SCALING_128X128>(target, name, source, to, wide);
    else if (to.rule.scaling == SCALING_1X32)
        launch_quantized_in<SCALING_1X32>(target, name, source, to, wide);
    else
        launch_quantized_in<SCALING_TENSOR>(target, name, source, to, wide);
}

#endif
