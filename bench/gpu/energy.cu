/* What a GPU's work costs in energy: joules by NVML's counter over a second of one kind of work at a time. A GPU at its
 * limit of power is as fast as its work is cheap (bench/results/gpu_energy.txt). The kernels want sm_90a.
 *   bench/gpu/energy      Rows: what is done, its rate, power, clock, energy of a unit, and of that what is beyond the
 *                         power of a GPU that does nothing at full clocks. */
extern "C" {
#include "base/clock.h"
#include "monitor/nvml.h"
}
#include "cuda/cluster.cuh"
#include "cuda/device.cuh"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

enum {
    THREADS = 512,
    AHEAD = 8,              /* accesses of a thread that are on their way */
    TILE_BYTES = 128 << 10, /* of numbers in shared memory */
    CACHED = 16 << 20,      /* bytes that stay in the L2 */
    STAGES = 4,
    STAGE_BYTES = 32 << 10
};

static const int64_t memory_bytes = (int64_t)6 << 30;

static struct nvml counter;
static int multiprocessors;
static double idle; /* W */

/* Numbers that nobody reads keep the compiler from leaving work out. */
__device__ float nobody;

/* -- Measuring ----------------------------------------------------------------------------------------------------- */

static struct nvml_reading reading(void)
{
    struct nvml_reading now;
    CUDA_CHECK(cudaDeviceSynchronize());
    nvml_read(&counter, &now);
    return now;
}

/* `work` units, bytes or others, a launch. */
template <typename Launch> static void measure(const char *name, const char *unit, double work, Launch launch)
{
    const double warm = 0.4, measured = 1.0; /* s */
    double begin = clock_seconds(), clock = 0;
    int64_t launches = 0, looks = 0;
    while (clock_seconds() - begin < warm) {
        launch();
        CUDA_CHECK(cudaDeviceSynchronize());
    }
    const double joules = reading().energy;
    begin = clock_seconds();
    while (clock_seconds() - begin < measured) {
        struct nvml_reading now;
        for (int i = 0; i < 16; i++)
            launch();
        CUDA_CHECK_LAUNCH(name);
        nvml_read(&counter, &now);
        CUDA_CHECK(cudaDeviceSynchronize());
        clock += now.sm_clock;
        launches += 16;
        looks++;
    }
    const double seconds = clock_seconds() - begin, spent = reading().energy - joules, all = work * (double)launches;
    printf("%-52s %6.0f W %5.0f MHz", name, spent / seconds, clock / (double)looks / 1e6);
    if (all > 0)
        printf(" %8.2f T%s/s %8.2f pJ/%s %8.2f", all / seconds / 1e12, unit, spent / all * 1e12, unit,
               (spent - idle * seconds) / all * 1e12);
    printf("\n");
    fflush(stdout);
    if (idle == 0)
        idle = spent / seconds;
}

/* -- Instructions -------------------------------------------------------------------------------------------------- */

/* A warp that sleeps: the GPU keeps its clocks. */
static __global__ void asleep(int rounds)
{
    for (int i = 0; i < rounds; i++)
        __nanosleep(1000000);
}

template <bool EXPONENTIAL> static __global__ void instructions(int rounds)
{
    float x[AHEAD], sum = 0;
    for (int j = 0; j < AHEAD; j++)
        x[j] = -0.37f * (float)(threadIdx.x % WARP + j);
    for (int i = 0; i < rounds; i++)
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (EXPONENTIAL)
                asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[j]));
            else
                x[j] = fmaf(x[j], 0.99993f, 1.2345e-3f);
    for (int j = 0; j < AHEAD; j++)
        sum += x[j];
    if (sum == 12345.0f)
        nobody = sum;
}

/* -- The L2 -------------------------------------------------------------------------------------------------------- */

enum access { READ, COPY, ADD, WRITE };

/* Every block goes over all `count` words of 16 bytes, each from another place on. */
template <enum access ACCESS>
static __global__ void __launch_bounds__(THREADS) cached(uint4 *words, int count, int rounds)
{
    extern __shared__ uint4 places[];
    uint4 all = {};
    int at = (int)((int64_t)blockIdx.x * 9973 * THREADS % count);
    float value = 0.013f * (float)(threadIdx.x + 1);
    for (int round = 0; round < rounds; round++) {
        value = -value;
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int i = at + j * THREADS + (int)threadIdx.x;
            uint4 *word = words + (i < count ? i : i - count);
            if (ACCESS == READ) {
                uint4 x = __ldcg(word);
                all.x ^= x.x ^ x.y ^ x.z ^ x.w;
            } else if (ACCESS == COPY) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                 shared_address(places + (round % 2 * AHEAD + j) * THREADS + threadIdx.x)),
                             "l"(word));
            } else if (ACCESS == ADD) {
                asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(word), "f"(value), "f"(1.3f * value),
                             "f"(0.7f * value), "f"(-value)
                             : "memory");
            } else {
                *reinterpret_cast<float4 *>(word) = make_float4(value, 1.3f * value, 0.7f * value, -value);
            }
        }
        if (ACCESS == COPY)
            asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
        at += AHEAD * THREADS;
        at = at < count ? at : at - count;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (all.x == 12345)
        nobody = 1;
}

template <enum access ACCESS> static void measure_cached(const char *name, uint4 *words)
{
    const int blocks = multiprocessors * (ACCESS == COPY ? 1 : 4), rounds = 1000;
    const int shared = ACCESS == COPY ? 2 * AHEAD * THREADS * 16 : 0;
    CUDA_CHECK(cudaFuncSetAttribute(cached<ACCESS>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    measure(name, "B", (double)blocks * rounds * AHEAD * THREADS * 16,
            [=] { cached<ACCESS><<<blocks, THREADS, shared>>>(words, CACHED / 16, rounds); });
}

/* As cluster_meets(), of warps whose threads are apart. */
__device__ __forceinline__ void threads_of_cluster_meet()
{
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

/* Tiles that all blocks of a cluster want: each brings its share of a tile for all. One thread does everything. */
static __global__ void brought(const char *from, int rounds, int size)
{
    extern __shared__ __align__(128) char tiles[];
    __shared__ uint64_t filled[STAGES], emptied[STAGES];
    const unsigned rank = rank_in_cluster();
    const int share = STAGE_BYTES / size;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_start(&filled[i], 1);
            barrier_start(&emptied[i], size);
        }
        barriers_started();
    }
    threads_of_cluster_meet();
    int64_t at = (int64_t)(blockIdx.x / size) * 131 * STAGE_BYTES % CACHED;
    for (int round = 0; threadIdx.x == 0 && round < rounds + STAGES - 1; round++) {
        if (round < rounds) {
            const int stage = round % STAGES;
            char *to = tiles + stage * STAGE_BYTES + rank * share;
            barrier_wait(&emptied[stage], (round / STAGES + 1) & 1);
            barrier_arrive_expecting(&filled[stage], STAGE_BYTES);
            if (size == 1)
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                        shared_address(to)),
                    "l"(from + at), "r"(share), "r"(shared_address(&filled[stage]))
                    : "memory");
            else
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], "
                    "%2, [%3], %4;" ::"r"(shared_address(to)),
                    "l"(from + at + rank * share), "r"(share), "r"(shared_address(&filled[stage])),
                    "h"((uint16_t)((1 << size) - 1))
                    : "memory");
            at = (at + STAGE_BYTES) % CACHED;
        }
        const int done = round - (STAGES - 1), stage = done % STAGES;
        if (done < 0)
            continue;
        barrier_wait(&filled[stage], (done / STAGES) & 1);
        for (int to = 0; to < size; to++)
            barrier_arrive_passing_on(address_in_block(&emptied[stage], to));
    }
    __syncthreads();
    threads_of_cluster_meet();
}

static void measure_brought(const void *from, int size)
{
    const int rounds = 10000;
    char name[96];
    int clusters = 0;
    cudaLaunchConfig_t launch = {};
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    launch.blockDim = WARP;
    launch.gridDim = size;
    launch.dynamicSmemBytes = STAGES * STAGE_BYTES;
    launch.attrs = &cluster;
    launch.numAttrs = 1;
    CUDA_CHECK(cudaFuncSetAttribute(brought, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE_BYTES));
    CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, brought, &launch));
    launch.gridDim = clusters * size;
    snprintf(name, sizeof name, "L2 to shared memory of %d, byte there (%d blocks)", size, clusters * size);
    measure(name, "B", (double)clusters * size * rounds * STAGE_BYTES,
            [&] { CUDA_CHECK(cudaLaunchKernelEx(&launch, brought, (const char *)from, rounds, size)); });
}

/* -- Memory -------------------------------------------------------------------------------------------------------- */

template <bool READS, bool WRITES>
static __global__ void __launch_bounds__(THREADS) streamed(const uint4 *from, uint4 *to, int64_t count)
{
    enum { LOADS = 4 };
    uint32_t all = 0;
    for (int64_t i = (int64_t)blockIdx.x * LOADS * THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * LOADS * THREADS) {
        uint4 x[LOADS];
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const uint32_t number = (uint32_t)(i + j * THREADS) * 2654435761u;
            x[j] = READS ? from[i + j * THREADS] : make_uint4(number, 3 * number, 5 * number, 7 * number);
        }
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (WRITES)
                to[i + j * THREADS] = x[j];
            else
                all ^= x[j].x ^ x[j].y ^ x[j].z ^ x[j].w;
    }
    if (all == 12345)
        nobody = 1;
}

template <bool READS, bool WRITES> static void measure_streamed(const char *name, uint4 *words)
{
    const int64_t half = memory_bytes / 32;
    measure(name, "B", (double)(memory_bytes / 2) * (READS + WRITES),
            [=] { streamed<READS, WRITES><<<multiprocessors * 4, THREADS>>>(words, words + half, half); });
}

/* -- Shared memory and tensor cores ---------------------------------------------------------------------------------
 */

__device__ __forceinline__ uint4 *filled_tile(const uint4 *from)
{
    extern __shared__ __align__(1024) uint4 tile[];
    for (int i = threadIdx.x; i < TILE_BYTES / 16; i += blockDim.x)
        tile[i] = from[i];
    shared_writes_to_products();
    __syncthreads();
    return tile;
}

static __global__ void __launch_bounds__(THREADS) shared_reads(const uint4 *from, int rounds)
{
    const uint4 *tile = filled_tile(from);
    uint32_t all = 0;
    for (int round = 0; round < rounds; round++)
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            uint4 x;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "r"(shared_address(tile + j * THREADS + threadIdx.x)));
            all ^= x.x ^ x.y ^ x.z ^ x.w;
        }
    if (all == 12345)
        nobody = 1;
}

static __global__ void __launch_bounds__(THREADS) IN_CLUSTERS shared_sends(const uint4 *from, int rounds)
{
    const uint4 *tile = filled_tile(from);
    const unsigned to = address_in_block(tile + threadIdx.x, rank_in_cluster() ^ 1);
    uint4 x = tile[threadIdx.x];
    cluster_meets();
    for (int round = 0; round < rounds; round++) {
        x.x = 3 * x.x + 1;
        x.y = 5 * x.y + 1;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + j * THREADS * 16), "r"(x.x ^ j),
                         "r"(x.y), "r"(x.z), "r"(x.w)
                         : "memory");
    }
    cluster_meets();
}

/* Two warpgroups, each a product of 64 x 128 over 128 again and again. */
template <bool REGISTERS>
static __global__ void __launch_bounds__(2 * WARPGROUP) products(const uint4 *from, int rounds)
{
    using left = panels<64, 128>;
    using right = panels<128, 128>;
    const char *tile = reinterpret_cast<const char *>(filled_tile(from));
    const uint64_t a = left::described(tile + threadIdx.x / WARPGROUP * left::bytes),
                   b = right::described(tile + 2 * left::bytes);
    uint32_t pairs[8][4];
    float sum[16][4] = {}, all = 0;
    for (int step = 0; step < 8; step++)
        memcpy(pairs[step], from + threadIdx.x * 8 + step, sizeof pairs[step]);
    for (int round = 0; round < rounds; round++) {
        products_begin();
#pragma unroll
        for (int step = 0; step < 8; step++)
            if (REGISTERS)
                multiply_weighted(sum, pairs[step], right::along_rows(b, step));
            else
                multiply(sum, left::along_columns(a, step), right::along_columns(b, step), 1);
        products_group();
        products_wait<0>();
        hold(sum);
    }
    for (int j = 0; j < 16; j++)
        all += sum[j][0] + sum[j][1] + sum[j][2] + sum[j][3];
    if (all == 12345.0f)
        nobody = all;
}

template <bool REGISTERS> static void measure_gemms(const char *name, const uint4 *numbers)
{
    const int rounds = 20000;
    CUDA_CHECK(cudaFuncSetAttribute(products<REGISTERS>, cudaFuncAttributeMaxDynamicSharedMemorySize, TILE_BYTES));
    measure(name, "FLOP", 2.0 * multiprocessors * 2 * rounds * 64 * 128 * 128,
            [=] { products<REGISTERS><<<multiprocessors, 2 * WARPGROUP, TILE_BYTES>>>(numbers, rounds); });
}

/* -- All ----------------------------------------------------------------------------------------------------------- */

/* bf16, nearly normal, or zeros. */
static uint4 *tile_of(bool zeros)
{
    std::vector<__nv_bfloat16> numbers(TILE_BYTES / 2);
    uint4 *tile;
    for (__nv_bfloat16 &number : numbers) {
        float sum = 0;
        for (int i = 0; i < 4; i++)
            sum += (float)rand() / (float)RAND_MAX - 0.5f;
        number = __float2bfloat16(zeros ? 0.0f : 1.7320508f * sum);
    }
    CUDA_CHECK(cudaMalloc(&tile, TILE_BYTES));
    CUDA_CHECK(cudaMemcpy(tile, numbers.data(), TILE_BYTES, cudaMemcpyHostToDevice));
    return tile;
}

int main(void)
{
    struct cudaDeviceProp device;
    uint4 *words;
    clock_seconds();
    CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
    multiprocessors = device.multiProcessorCount;
    nvml_open(&counter, reinterpret_cast<const unsigned char *>(device.uuid.bytes));
    if (counter.device == NULL || isnan(counter.energy)) {
        fprintf(stderr, "energy: NVML counts no energy of this GPU\n");
        return 1;
    }
    const uint4 *normals = tile_of(false), *zeros = tile_of(true);
    CUDA_CHECK(cudaMalloc(&words, memory_bytes));
    streamed<false, true><<<multiprocessors * 4, THREADS>>>(NULL, words, memory_bytes / 16);
    printf("%s, %d multiprocessors\n", device.name, multiprocessors);

    measure("nothing", "", 0, [] { asleep<<<1, WARP>>>(5); });
    measure("fused multiply and add, a thread's", "instruction", multiprocessors * 1024.0 * AHEAD * 100000,
            [] { instructions<false><<<multiprocessors, 1024>>>(100000); });
    measure("exponential, a thread's", "instruction", multiprocessors * 1024.0 * AHEAD * 20000,
            [] { instructions<true><<<multiprocessors, 1024>>>(20000); });
    measure_cached<READ>("L2 to registers", words);
    measure_cached<COPY>("L2 to shared memory by cp.async", words);
    for (int size = 1; size <= 8; size *= 2)
        measure_brought(words, size);
    CUDA_CHECK(cudaMemset(words, 0, CACHED));
    measure_cached<ADD>("fp32 additions in the L2", words);
    measure_cached<WRITE>("writes into the L2", words);
    measure_streamed<true, false>("memory read", words);
    measure_streamed<false, true>("memory written", words);
    measure_streamed<true, true>("memory copied, byte read or written", words);
    CUDA_CHECK(cudaFuncSetAttribute(shared_reads, cudaFuncAttributeMaxDynamicSharedMemorySize, TILE_BYTES));
    measure("shared memory to registers", "B", (double)multiprocessors * THREADS * AHEAD * 16 * 20000,
            [=] { shared_reads<<<multiprocessors, THREADS, TILE_BYTES>>>(normals, 20000); });
    CUDA_CHECK(cudaFuncSetAttribute(shared_sends, cudaFuncAttributeMaxDynamicSharedMemorySize, TILE_BYTES));
    measure("writes to another block's shared memory", "B",
            (double)(multiprocessors & ~1) * THREADS * AHEAD * 16 * 4000,
            [=] { shared_sends<<<multiprocessors & ~1, THREADS, TILE_BYTES>>>(normals, 4000); });
    measure_gemms<false>("products, both sides in shared memory", normals);
    measure_gemms<true>("products, left side in registers", normals);
    measure_gemms<false>("products of zeros, in shared memory", zeros);
    return 0;
}
