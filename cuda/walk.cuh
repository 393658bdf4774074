/* Loop of element-wise kernels: all threads of the grid walk over a matrix, one pack at a time. */
#ifndef CUDA_WALK_CUH
#define CUDA_WALK_CUH

#include "cuda/device.cuh"

/* Leaves a thread registers for several loads in flight, and an SM enough threads. */
enum { WALK_THREADS = 256, WALK_RESIDENT = 3 };
#define WALK_BOUNDS __launch_bounds__(WALK_THREADS, WALK_RESIDENT)

/* A walk over rows of `packs` packs. From one of a thread's packs to its next are step_rows rows and step_packs packs.
 * The numbers have 32 bits, since registers limit the number of loads that a thread has in flight. */
struct row_walk {
    uint32_t rows, packs, step_rows, step_packs;
};

inline struct row_walk walk_of(const char *name, int64_t blocks, int64_t rows, int64_t packs)
{
    int64_t step = blocks * WALK_THREADS;
    if (!address_counts_fit(rows, packs))
        error_fatal("cuda executor: %s of %lld rows of %lld packs: at most 2^31 - 1 of each", name, (long long)rows,
                    (long long)packs);
    return {(uint32_t)rows, (uint32_t)packs, (uint32_t)(step / packs), (uint32_t)(step % packs)};
}

/* Launches kernel(walk, arguments...) unless the matrix is empty. The grid has at most as many blocks as are resident
 * at once, so that there is no partial last wave. At most 2^31 - 1 rows, and 2^31 - 1 packs in a row. */
template <typename... Parameters, typename... Arguments>
inline void walk_launch(const struct cuda_target *target, const char *name,
                        void (*kernel)(struct row_walk, Parameters...), int64_t rows, int64_t packs,
                        Arguments... arguments)
{
    int resident = 0;
    if (rows * packs == 0)
        return;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, WALK_THREADS, 0));
    int64_t most = (int64_t)target->multiprocessors * resident, needed = ceil_div(rows * packs, WALK_THREADS);
    int64_t blocks = needed < most ? needed : most;
    kernel<<<(unsigned)blocks, WALK_THREADS, 0, target->stream>>>(walk_of(name, blocks, rows, packs), arguments...);
    CUDA_CHECK_LAUNCH(name);
}

/* Limits the walk to the rows before the last of `count` ends. ends NULL: no limit. */
__device__ __forceinline__ void limit_rows(struct row_walk &walk, const int32_t *ends, int count)
{
    if (ends != NULL)
        walk.rows = min(walk.rows, (uint32_t)ends[count - 1]);
}

template <int N, typename T> __device__ __forceinline__ T *pack_at(const struct view<T> &x, uint32_t row, uint32_t pack)
{
    using byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    byte *start = reinterpret_cast<byte *>(x.data) + address_row(row, x.stride * (int64_t)sizeof(T));
    return reinterpret_cast<T *>(start + address_pack(pack, N * sizeof(T)));
}

/* Calls use(row, pack, load(row, pack)) for each of this thread's packs, with AHEAD loads in flight before the first
 * use. VECTOR: there is one row. */
template <int AHEAD, bool VECTOR = false, typename Load, typename Use>
__device__ __forceinline__ void walk_packs(const struct row_walk &walk, Load load, Use use)
{
    uint32_t first = blockIdx.x * WALK_THREADS + threadIdx.x;
    uint32_t row = VECTOR ? 0 : first / walk.packs, pack = VECTOR ? first : first % walk.packs;
    auto there = [&](uint32_t row, uint32_t pack) { return VECTOR ? pack < walk.packs : row < walk.rows; };
    while (there(row, pack)) {
        decltype(load(row, pack)) loaded[AHEAD];
        uint32_t rows[AHEAD], packs[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            rows[i] = row;
            packs[i] = pack;
            if (there(row, pack))
                loaded[i] = load(row, pack);
            pack += VECTOR ? gridDim.x * WALK_THREADS : walk.step_packs;
            if (VECTOR)
                continue;
            row += walk.step_rows;
            if (pack >= walk.packs) {
                pack -= walk.packs;
                row++;
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (there(rows[i], packs[i]))
                use(rows[i], packs[i], loaded[i]);
    }
}

/* Turns tensors of one shape into vectors if all are contiguous: rows become longer, and wider packs fit. Returns
 * whether it did. */
inline bool flatten(std::initializer_list<struct tensor *> tensors)
{
    for (const struct tensor *t : tensors)
        if (!tensor_contiguous(t) || tensor_count(t) > INT32_MAX)
            return false;
    for (struct tensor *t : tensors)
        *t = tensor_vector(t->data, t->dtype, tensor_count(t));
    return true;
}

#endif
