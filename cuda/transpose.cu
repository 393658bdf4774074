/* transpose of bytes: a block moves a square tile through shared memory, a thread a small square of it. */
#include "cuda/quantize.cuh"

/* Reads SIDE bytes, with zeros after the first `count`. WIDE: reads all with one access. */
template <bool WIDE>
static __device__ __forceinline__ void read_bytes(const uint8_t *from, int count, uint32_t (&to)[2])
{
    pack<uint8_t, SIDE> bytes = {};
    if constexpr (WIDE) {
        bytes = load_pack<SIDE>(from);
    } else {
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            if (i < count)
                bytes.at[i] = from[i];
    }
    const uint2 words = reinterpret_cast<const uint2 &>(bytes);
    to[0] = words.x;
    to[1] = words.y;
}

template <bool WIDE>
static __global__ void __launch_bounds__(TILE_THREADS) transpose(view<const uint8_t> from, struct quantized_targets to)
{
    __shared__ column_tile<uint8_t> tile;
    const struct tile_square at = place_of(to.rows, to.cols);
    const uint8_t *const first = from.row(at.first_row + at.row) + at.first_col + at.col;
    const int rows = at.cols > 0 ? at.rows : 0;
    uint32_t bytes[SIDE][2] = {};
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        if (i < rows)
            read_bytes<WIDE>(rows_on(first, from.stride, i), at.cols, bytes[i]);
    put_columns(bytes, tile);
    __syncthreads();
    write_columns<WIDE>(tile, to, at);
}

void cuda_transpose(const struct cuda_target *target, const struct transpose_args *args)
{
    const struct tensor &from = args->from;
    struct quantized_operands column = {};
    column.column = args->to;
    const struct quantized_targets to = quantized_targets_of(column, from.rows, from.cols, {});
    const int64_t tiles = quantize_tile_count(to);
    if (tiles == 0)
        return;
    const bool wide = rows_fit(from, SIDE) && quantized_fit(column, from.cols, {});
    (wide ? transpose<true> : transpose<false>)<<<(unsigned)tiles, TILE_THREADS, 0, target->stream>>>(
        tile_view_of<const uint8_t>(from), to);
    CUDA_CHECK_LAUNCH("transpose");
}
