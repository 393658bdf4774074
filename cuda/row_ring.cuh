/* A ring of buffers in shared memory to which TMA copies matrix rows before a team needs them. Memory stays busy while
 * teams compute, and loads in flight need no registers. sm_90 and newer; the code is empty for older devices. */
#ifndef CUDA_ROW_RING_CUH
#define CUDA_ROW_RING_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

/* Shared memory of all rings of an SM, and the most buffers of one ring: more loads in flight are not faster. */
enum { RING_BYTES = 200 << 10, RING_PLACES = 4 };

enum { RING_MATRICES = 3 };

/* Matrices with rows of equal size. Sizes, addresses and strides are multiples of 16 bytes. */
struct ring_rows {
    const char *first[RING_MATRICES];
    int64_t stride[RING_MATRICES]; /* bytes */
    int matrices, bytes, places;
};

/* Adds a matrix unless it is absent. */
inline void ring_add(struct ring_rows *rows, const struct tensor &t)
{
    if (!tensor_present(&t))
        return;
    rows->first[rows->matrices] = static_cast<const char *>(t.data);
    rows->stride[rows->matrices++] = t.stride * dtype_size(t.dtype);
    rows->bytes = (int)(t.cols * dtype_size(t.dtype));
}

/* Divides an SM's shared memory among `teams` rings. Returns the bytes of one ring. */
inline int ring_divide(struct ring_rows *rows, int teams)
{
    int place = rows->matrices * rows->bytes, places = RING_BYTES / (teams * place);
    rows->places = places < RING_PLACES ? places : RING_PLACES;
    return rows->places * place;
}

/* Returns whether the kernel, as compiled for this device, supports rings. */
template <typename K> inline bool ring_runs(K *kernel)
{
    static const bool runs = [&] {
        struct cudaFuncAttributes attributes;
        CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
        return attributes.ptxVersion >= 90;
    }();
    return runs;
}

/* A team's ring. Rows row, row + step, ... below `end` pass through its buffers in this order. All threads of the team
 * call all functions. */
struct row_ring {
    char *places;
    uint64_t *filled; /* one mbarrier per buffer */
    int place, parity;

    /* Starts the copies of the first rows. `barriers` and `memory` are those of all teams of the block. All threads of
     * the block call it. */
    __device__ __forceinline__ void start(const struct ring_rows &rows, uint64_t *barriers, char *memory, int64_t row,
                                          int64_t step, int64_t end)
    {
#if __CUDA_ARCH__ >= 900
        places = memory + threadIdx.y * rows.places * rows.matrices * rows.bytes;
        filled = barriers + threadIdx.y * RING_PLACES;
        place = parity = 0;
        if (threadIdx.x == 0)
            for (int i = 0; i < rows.places; i++)
                barrier_start(&filled[i], 1);
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0)
            for (int i = 0; i < rows.places && row + i * step < end; i++)
                fill(rows, i, row + i * step);
#endif
    }

    __device__ __forceinline__ char *at(const struct ring_rows &rows, int to, int matrix) const
    {
        return places + (to * rows.matrices + matrix) * rows.bytes;
    }

    __device__ __forceinline__ void fill(const struct ring_rows &rows, int to, int64_t row)
    {
#if __CUDA_ARCH__ >= 900
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(&filled[to])),
                     "r"(rows.matrices * rows.bytes)
                     : "memory");
#pragma unroll
        for (int i = 0; i < RING_MATRICES; i++)
            if (i < rows.matrices)
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                        shared_address(at(rows, to, i))),
                    "l"(__cvta_generic_to_global(rows.first[i] + row * rows.stride[i])), "r"(rows.bytes),
                    "r"(shared_address(&filled[to]))
                    : "memory");
#endif
    }

    /* Waits until the next row is in shared memory. */
    __device__ __forceinline__ void wait() const
    {
#if __CUDA_ARCH__ >= 900
        barrier_wait(&filled[place], parity);
#endif
    }

    /* Returns the current row of a matrix. */
    template <typename T> __device__ __forceinline__ const T *row_of(const struct ring_rows &rows, int matrix) const
    {
        return reinterpret_cast<const T *>(at(rows, place, matrix));
    }

    /* Releases the current row, and starts the copy of row `later`, if below `end`, to its buffer. Called after all
     * warps of the team have synchronised. */
    __device__ __forceinline__ void pass(const struct ring_rows &rows, int64_t later, int64_t end)
    {
        __syncwarp();
        if (threadIdx.x == 0 && later < end)
            fill(rows, place, later);
        if (++place == rows.places) {
            place = 0;
            parity ^= 1;
        }
    }
};

#endif
