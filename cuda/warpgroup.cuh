/* Instructions of sm_90a for tiles in shared memory: asynchronous matrix products (wgmma) of a warpgroup, four
 * consecutive warps from a multiple of four on; and mbarriers, which synchronise the warps that copy tiles with the
 * warps that use them. */
#ifndef CUDA_WARPGROUP_CUH
#define CUDA_WARPGROUP_CUH

#include "cuda/mma.cuh"

enum { WARPGROUP = 128 };

/* Returns whether the build has code for sm_90a, the device runs it, and it is allowed (kernel.h). (warpgroup.cu) */
bool warpgroups_run();

/* -- Barriers in shared memory ----------------------------------------------------------------------------------- */

/* Initialises an mbarrier. Each of its phases ends with the count-th arrival. */
__device__ __forceinline__ void barrier_start(uint64_t *barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(barrier)) : "memory");
}

/* Makes the current phase, which has not ended, also wait for `bytes` bytes of asynchronous copies. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, int bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* As barrier_expect, and this thread arrives. */
__device__ __forceinline__ void barrier_arrive_expecting(uint64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* Waits until the phase of this parity has ended (first phase 0, second 1, third 0). On a new mbarrier the phase before
 * the first, of parity 1, counts as ended. */
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, int parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}\n" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Arrives once this thread's earlier cp.async copies are complete; does not wait. */
__device__ __forceinline__ void barrier_arrive_behind_copies(uint64_t *barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(shared_address(barrier)) : "memory");
}

/* Synchronises COUNT threads of the block at named barrier NAME (0 is __syncthreads). */
template <int NAME, int COUNT> __device__ __forceinline__ void threads_meet()
{
    asm volatile("bar.sync %0, %1;\n" ::"n"(NAME), "n"(COUNT) : "memory");
}

/* Arrives at named barrier NAME without waiting for the other threads. */
template <int NAME, int COUNT> __device__ __forceinline__ void threads_arrive()
{
    asm volatile("bar.arrive %0, %1;\n" ::"n"(NAME), "n"(COUNT) : "memory");
}

/* Synchronises this warpgroup, number `index` of three; uses the barriers NAME .. NAME + 2. */
template <int NAME> __device__ __forceinline__ void warpgroup_meets(int index)
{
    if (index == 0)
        threads_meet<NAME, WARPGROUP>();
    else if (index == 1)
        threads_meet<NAME + 1, WARPGROUP>();
    else
        threads_meet<NAME + 2, WARPGROUP>();
}

/* -- Fences and registers ----------------------------------------------------------------------------------------- */

/* Makes writes to shared memory, by this thread or before a barrier, visible to its wgmma instructions. */
__device__ __forceinline__ void shared_writes_to_products()
{
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

template <int COUNT> __device__ __forceinline__ void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void registers_get()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

/* Called before the first product of a group: orders earlier writes of the registers that products read or accumulate
 * in. */
__device__ __forceinline__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

/* Closes a group: the products since the last call. */
__device__ __forceinline__ void products_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/* Waits until all but the last LEFT groups are complete. */
template <int LEFT> __device__ __forceinline__ void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(LEFT) : "memory");
}

/* Prevents the compiler from moving accesses to accumulators of products in flight across this point. */
template <int TILES> __device__ __forceinline__ void hold(float (&d)[TILES][4])
{
#pragma unroll
    for (int j = 0; j < TILES; j++)
        asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
}

/* Prevents the compiler from starting later instructions before x >= 0 is computed: it would wait for products
 * first. */
__device__ __forceinline__ void finished(float x)
{
    asm volatile(
        "{\n.reg .pred never;\nsetp.lt.f32 never, %0, 0f00000000;\n@never st.shared.f32 [%1], %0;\n}\n" ::"f"(x), "r"(0)
        : "memory");
}

/* -- Products ---------------------------------------------------------------------------------------------------- */

/* A tile with DIM columns of 2-byte elements, stored as panels of at most 64 columns, one panel after the other.
 * 16-byte chunks are permuted within a row by the swizzle that the tensor cores expect for rows of 32, 64 or 128
 * bytes. */
template <int ROWS, int DIM> struct panels {
    static constexpr int width = DIM < 64 ? DIM : 64, row_bytes = 2 * width, panel_bytes = ROWS * row_bytes;
    static constexpr int bytes = ROWS * DIM * 2;
    static constexpr uint64_t mode = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
    static_assert(DIM % width == 0 && (width == 16 || width == 32 || width == 64), "whole panels");

    /* Returns the bytes from the tile to a chunk. */
    __device__ __forceinline__ static int chunk_at(int row, int chunk)
    {
        constexpr int chunks = row_bytes / 16, rows_of_line = 128 / row_bytes;
        return chunk / chunks * panel_bytes + row * row_bytes + (chunk % chunks ^ row / rows_of_line % chunks) * 16;
    }

    /* Returns the descriptor for a product that sums over the tile's columns: 16 columns from 16 * step on. */
    __device__ __forceinline__ static uint64_t along_columns(uint64_t tile, int step)
    {
        constexpr int steps = width / 16;
        return further(tile, step / steps * panel_bytes + step % steps * 32);
    }

    /* Returns the descriptor for a product that sums over the tile's rows: 16 rows from 16 * step on. */
    __device__ __forceinline__ static uint64_t along_rows(uint64_t tile, int step)
    {
        return further(tile, step * 16 * row_bytes);
    }

    /* Returns the wgmma descriptor of a tile in shared memory: address, and bytes to the next panel and to the next
     * eight rows, all in units of 16, and the swizzle mode. In a cluster the address bits from 24 on name the block;
     * they are removed. */
    __device__ __forceinline__ static uint64_t described(const char *tile)
    {
        return (shared_address(tile) & 0xffffff) / 16 | static_cast<uint64_t>(panel_bytes / 16) << 16 |
               static_cast<uint64_t>(8 * row_bytes / 16) << 32 | mode << 62;
    }

    /* Advances a descriptor by `bytes`; the address field is the lowest 14 bits. */
    __device__ __forceinline__ static uint64_t further(uint64_t tile, int bytes)
    {
        return (tile & 0xffffffff00000000u) | (static_cast<uint32_t>(tile) + bytes / 16);
    }
};

#define FOUR(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define EIGHT(j) FOUR(j), FOUR(j + 1)
#define SIXTEEN(j) EIGHT(j), EIGHT(j + 2)
#define THIRTY_TWO(j) SIXTEEN(j), SIXTEEN(j + 4)
#define FORTY(j) THIRTY_TWO(j), EIGHT(j + 8)
#define FORTY_EIGHT(j) THIRTY_TWO(j), SIXTEEN(j + 8)
#define SIXTY_FOUR(j) THIRTY_TWO(j), THIRTY_TWO(j + 8)
#define HUNDRED_TWENTY_EIGHT(j) SIXTY_FOUR(j), SIXTY_FOUR(j + 16)
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_48 NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_64 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96                                                                                                       \
    NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "  \
             "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128                                                                                                      \
    NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "    \
             "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/* d = a product of tiles in shared memory that sums 16 terms, plus the earlier d if `add`. turned: for a and b, 0 sums
 * over the tile's columns, 1 over its rows. */
#define PRODUCT(turned, n, registers, names, a_name, b_name, add_name)                                                 \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add_name ", 0;\n"                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names "}, " a_name ", " b_name           \
                 ", add, 1, 1, " turned ";\n}\n"                                                                       \
                 : registers                                                                                           \
                 : "l"(a), "l"(b), "r"(add))

/* d [64, n] = a [64, 16] b [n, 16]', both in shared memory; plus the earlier d if `add`. */
template <int TILES> __device__ __forceinline__ void multiply(float (&d)[TILES][4], uint64_t a, uint64_t b, int add)
{
    static_assert(TILES == 4 || TILES == 8 || TILES == 10 || TILES == 12 || TILES == 16 || TILES == 32,
                  "widths that are used");
    if constexpr (TILES == 4)
        PRODUCT("0, 0", 32, SIXTEEN(0), NAMES_16, "%16", "%17", "%18");
    else if constexpr (TILES == 8)
        PRODUCT("0, 0", 64, THIRTY_TWO(0), NAMES_32, "%32", "%33", "%34");
    else if constexpr (TILES == 10)
        PRODUCT("0, 0", 80, FORTY(0), NAMES_40, "%40", "%41", "%42");
    else if constexpr (TILES == 12)
        PRODUCT("0, 0", 96, FORTY_EIGHT(0), NAMES_48, "%48", "%49", "%50");
    else if constexpr (TILES == 16)
        PRODUCT("0, 0", 128, SIXTY_FOUR(0), NAMES_64, "%64", "%65", "%66");
    else
        PRODUCT("0, 0", 256, HUNDRED_TWENTY_EIGHT(0), NAMES_128, "%128", "%129", "%130");
}

/* d [64, 256] = a [64, 16] b [16, 256], both in shared memory; plus the earlier d if `add`. */
__device__ __forceinline__ void multiply_by_rows(float (&d)[32][4], uint64_t a, uint64_t b, int add)
{
    PRODUCT("0, 1", 256, HUNDRED_TWENTY_EIGHT(0), NAMES_128, "%128", "%129", "%130");
}

/* d [64, n] += a [64, 16] b [16, n]. a is in registers, in the layout of multiply_16_8_16. */
#define WEIGHTED(n, registers, names, a0, a1, a2, a3, b_name, add_name)                                                \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add_name ", 0;\n"                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names "}, {" a0 ", " a1 ", " a2 ", " a3  \
                 "}, " b_name ", add, 1, 1, 1;\n}\n"                                                                   \
                 : registers                                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

template <int TILES>
__device__ __forceinline__ void multiply_weighted(float (&d)[TILES][4], const uint32_t (&a)[4], uint64_t b)
{
    static_assert(TILES == 2 || TILES == 4 || TILES == 8 || TILES == 10 || TILES == 12 || TILES == 16,
                  "widths that are used");
    if constexpr (TILES == 2)
        WEIGHTED(16, EIGHT(0), NAMES_8, "%8", "%9", "%10", "%11", "%12", "%13");
    else if constexpr (TILES == 4)
        WEIGHTED(32, SIXTEEN(0), NAMES_16, "%16", "%17", "%18", "%19", "%20", "%21");
    else if constexpr (TILES == 8)
        WEIGHTED(64, THIRTY_TWO(0), NAMES_32, "%32", "%33", "%34", "%35", "%36", "%37");
    else if constexpr (TILES == 10)
        WEIGHTED(80, FORTY(0), NAMES_40, "%40", "%41", "%42", "%43", "%44", "%45");
    else if constexpr (TILES == 12)
        WEIGHTED(96, FORTY_EIGHT(0), NAMES_48, "%48", "%49", "%50", "%51", "%52", "%53");
    else
        WEIGHTED(128, SIXTY_FOUR(0), NAMES_64, "%64", "%65", "%66", "%67", "%68", "%69");
}

/* d [64, n] = a' b for a [16, 64] and b [16, n], both in shared memory; plus the earlier d if `add`. */
template <int TILES>
__device__ __forceinline__ void multiply_transposed(float (&d)[TILES][4], uint64_t a, uint64_t b, int add)
{
    static_assert(TILES == 2 || TILES == 4 || TILES == 8 || TILES == 32, "widths that are used");
    if constexpr (TILES == 2)
        PRODUCT("1, 1", 16, EIGHT(0), NAMES_8, "%8", "%9", "%10");
    else if constexpr (TILES == 4)
        PRODUCT("1, 1", 32, SIXTEEN(0), NAMES_16, "%16", "%17", "%18");
    else if constexpr (TILES == 8)
        PRODUCT("1, 1", 64, THIRTY_TWO(0), NAMES_32, "%32", "%33", "%34");
    else
        PRODUCT("1, 1", 256, HUNDRED_TWENTY_EIGHT(0), NAMES_128, "%128", "%129", "%130");
}

#undef WEIGHTED
#undef PRODUCT
#undef NAMES_128
#undef NAMES_96
#undef NAMES_64
#undef NAMES_48
#undef NAMES_40
#undef NAMES_32
#undef NAMES_16
#undef NAMES_8
#undef HUNDRED_TWENTY_EIGHT
#undef SIXTY_FOUR
#undef FORTY_EIGHT
#undef FORTY
#undef THIRTY_TWO
#undef SIXTEEN
#undef EIGHT
#undef FOUR

#endif
