/* Thread block clusters of two blocks, which run concurrently and access each other's shared memory. A shared memory
 * address in assembly means the own block's memory until address_in_block maps it. */
#ifndef CUDA_CLUSTER_CUH
#define CUDA_CLUSTER_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

/* Makes a kernel run in clusters of two blocks. nvcc rejects the attribute for devices without clusters. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define IN_CLUSTERS
#else
#define IN_CLUSTERS __cluster_dims__(2, 1, 1)
#endif

/* Returns this block's rank in the cluster. */
__device__ __forceinline__ int rank_in_cluster()
{
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Returns the address, in the block of this rank, that corresponds to `own` in this block. */
__device__ __forceinline__ uint32_t address_in_block(const void *own, int rank)
{
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
    return address;
}

/* Synchronises all threads of the cluster and makes their writes visible to each other. */
__device__ __forceinline__ void cluster_meets()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

/* Makes new mbarriers visible to the other block after cluster_meets(). */
__device__ __forceinline__ void barriers_started()
{
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

/* Arrives at an mbarrier of any block. It orders this thread's reads before later overwrites by others, but does not
 * make its writes visible to the other block. */
__device__ __forceinline__ void barrier_arrive_in_block(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* All threads of a warp arrive at an mbarrier of their block, and one lane at one of the other block. For tiles that
 * threads read without wgmma: racecheck does not see that an arrival covers other threads' reads. */
__device__ __forceinline__ void threads_arrive_in_both(uint64_t *here, uint64_t *there, int rank)
{
    barrier_arrive(here);
    __syncwarp();
    if (threadIdx.x % WARP == 0)
        barrier_arrive_in_block(address_in_block(there, rank ^ 1));
}

/* A warp arrives once at an mbarrier of its block and once at one of the other block. */
__device__ __forceinline__ void warp_arrives_in_both(uint64_t *here, uint64_t *there, int rank)
{
    int lane = threadIdx.x % WARP;
    __syncwarp();
    if (lane < 2)
        barrier_arrive_in_block(address_in_block(lane == 0 ? here : there, rank ^ lane));
}

/* As barrier_arrive_in_block() and barrier_wait(), and this thread's writes to the other block become visible there.
 * The fences are too expensive to use for each tile. */
__device__ __forceinline__ void barrier_arrive_passing_on(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_wait_passed_on(uint64_t *barrier, int parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}\n" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Stores a word in the other block's shared memory, for a thread that waits with barrier_wait_passed_on(). */
__device__ __forceinline__ void store_in_block(uint32_t to, int word)
{
    asm volatile("st.shared::cluster.b32 [%0], %1;\n" ::"r"(to), "r"(word) : "memory");
}

/* Starts a copy of BYTES of shared memory to the other block, whose mbarrier `filled` counts the bytes. */
template <int BYTES> __device__ __forceinline__ void send_to_block(uint32_t to, const void *from, uint32_t filled)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
        "r"(shared_address(from)), "n"(BYTES), "r"(filled)
        : "memory");
}

#endif
