/* Blocks in which one warpgroup brings tiles to places in shared memory and the others, its users, multiply them
 * (sm_90a). */
#ifndef CUDA_PLACES_CUH
#define CUDA_PLACES_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

/* Registers of a thread that brings tiles and of one that works. A multiprocessor has 65,536; at the start all threads
 * of its `resident` blocks have as many. */
template <int USERS, int RESIDENT> struct warpgroup_registers {
    static constexpr int at_first = 65536 / (RESIDENT * (USERS + 1) * WARPGROUP) / 8 * 8;
    static constexpr int bringing = RESIDENT == 1 && USERS == 2 ? 40 : 32;
    static constexpr int left = (at_first * (USERS + 1) - bringing) / USERS / 8 * 8;
    static constexpr int working = left < 240 ? left : 240;
};

/* A place for a tile. */
struct tile_place {
    uint64_t filled, emptied;
};

/* Each thread that brings tiles arrives once, or `announcers` in all. Of each of the users, which are warpgroups or the
 * blocks of a cluster, each warp arrives when it has used them, or `releasers` of them. */
__device__ __forceinline__ void place_start(struct tile_place *place, int users, int announcers = WARPGROUP,
                                            int releasers = WARPGROUP / WARP)
{
    barrier_start(&place->filled, announcers);
    barrier_start(&place->emptied, users * releasers);
}

__device__ __forceinline__ void warp_arrives(uint64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % WARP == 0)
        barrier_arrive(barrier);
}

/* x, the same in all lanes, which the compiler is told: descriptions of tiles are kept where products want them. */
__device__ __forceinline__ int uniform(int x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

/* Goes round the PLACES. */
template <int PLACES> struct turn {
    int at = 0, parity = 0;
    __device__ __forceinline__ void next()
    {
        if (++at == PLACES)
            at = 0, parity ^= 1;
    }
};

template <int PLACES>
__device__ __forceinline__ void wait_emptied(struct tile_place *places, const struct turn<PLACES> &turn)
{
    barrier_wait(&places[turn.at].emptied, turn.parity ^ 1);
}

/* By the copy engine: products may read the tile from now on. */
template <int PLACES>
__device__ __forceinline__ void wait_there(struct tile_place *places, const struct turn<PLACES> &turn)
{
    barrier_wait(&places[turn.at].filled, turn.parity);
}

/* By threads: the same. */
template <int PLACES>
__device__ __forceinline__ void wait_filled(struct tile_place *places, const struct turn<PLACES> &turn)
{
    wait_there(places, turn);
    shared_writes_to_products();
}

#endif
