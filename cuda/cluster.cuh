/* Clusters of two blocks, which run at the same time and reach each other's shared memory. An address of shared memory
 * in assembly is the block's own until it is asked for a block's. */
#ifndef CUDA_CLUSTER_CUH
#define CUDA_CLUSTER_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

/* A kernel runs in clusters of two blocks. For devices without clusters nvcc refuses to be told so. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define IN_CLUSTERS
#else
#define IN_CLUSTERS __cluster_dims__(2, 1, 1)
#endif

/* This block's number in the cluster. */
__device__ __forceinline__ int rank_in_cluster()
{
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* What is at `own` here, in the block of this rank. */
__device__ __forceinline__ uint32_t address_in_block(const void *own, int rank)
{
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
    return address;
}

/* All threads of the cluster; what they wrote is seen by all. */
__device__ __forceinline__ void cluster_meets()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

/* New barriers are seen by the other block after cluster_meets(). */
__device__ __forceinline__ void barriers_started()
{
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

/* At a barrier of any block. What the thread has read, others may write over; what it wrote is not passed on to the
 * other block. */
__device__ __forceinline__ void barrier_arrive_in_block(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* All threads of a warp arrive at a barrier of their block, and the warp at one of the other. racecheck follows no
 * thread by another's word, so this is for what threads read themselves, products aside. */
__device__ __forceinline__ void threads_arrive_in_both(uint64_t *here, uint64_t *there, int rank)
{
    barrier_arrive(here);
    __syncwarp();
    if (threadIdx.x % WARP == 0)
        barrier_arrive_in_block(address_in_block(there, rank ^ 1));
}

/* A warp arrives at a barrier of its block and at one of the other. */
__device__ __forceinline__ void warp_arrives_in_both(uint64_t *here, uint64_t *there, int rank)
{
    int lane = threadIdx.x % WARP;
    __syncwarp();
    if (lane < 2)
        barrier_arrive_in_block(address_in_block(lane == 0 ? here : there, rank ^ lane));
}

/* The same as barrier_arrive_in_block() and barrier_wait(), and what the thread wrote to the other block is passed on.
 * It costs fences: not for each tile. */
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

/* A word into the other block, for a thread that waits for what is passed on. */
__device__ __forceinline__ void store_in_block(uint32_t to, int word)
{
    asm volatile("st.shared::cluster.b32 [%0], %1;\n" ::"r"(to), "r"(word) : "memory");
}

/* Has BYTES of shared memory copied to the other block, at whose barrier `filled` they announce themselves. */
template <int BYTES> __device__ __forceinline__ void send_to_block(uint32_t to, const void *from, uint32_t filled)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
        "r"(shared_address(from)), "n"(BYTES), "r"(filled)
        : "memory");
}

#endif
