/* Producer-consumer thread blocks (sm_90a): the producer warpgroup copies tiles to buffers in shared memory; the
 * consumer warpgroups (`users`) multiply them. */
#ifndef CUDA_PLACES_CUH
#define CUDA_PLACES_CUH

#include "cuda/device.cuh"
#include "cuda/warpgroup.cuh"

/* Registers per thread of the producer (`bringing`) and of a consumer (`working`). An SM has 65,536 registers; at
 * kernel start all threads of its RESIDENT blocks have the same number. */
template <int USERS, int RESIDENT> struct warpgroup_registers {
    static constexpr int at_first = 65536 / (RESIDENT * (USERS + 1) * WARPGROUP) / 8 * 8;
    static constexpr int bringing = RESIDENT == 1 && USERS == 2 ? 40 : 32;
    static constexpr int left = (at_first * (USERS + 1) - bringing) / USERS / 8 * 8;
    static constexpr int working = left < 240 ? left : 240;
};

/* The mbarriers of a tile's buffer. */
struct tile_place {
    uint64_t filled, emptied;
};

/* Initialises the mbarriers. `filled` completes with `announcers` arrivals, by default one per producer thread;
 * `emptied` with `releasers` arrivals of each consumer, by default one per warp. A consumer is a warpgroup or a block
 * of a cluster. */
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

/* Returns x, which is equal in all lanes, in a form that the compiler knows to be uniform, so that tile descriptors
 * stay in uniform registers for wgmma. */
__device__ __forceinline__ int uniform(int x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

/* The current buffer of a ring of PLACES, and its phase's parity. */
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

/* Waits until a tile copied by TMA is in shared memory; wgmma may then read it. */
template <int PLACES>
__device__ __forceinline__ void wait_there(struct tile_place *places, const struct turn<PLACES> &turn)
{
    barrier_wait(&places[turn.at].filled, turn.parity);
}

/* As wait_there, for a tile that threads wrote: adds the proxy fence. */
template <int PLACES>
__device__ __forceinline__ void wait_filled(struct tile_place *places, const struct turn<PLACES> &turn)
{
    wait_there(places, turn);
    shared_writes_to_products();
}

#endif
