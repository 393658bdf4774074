/* Shared by attention forward and backward besides tiles: the segments on the device, and the work list that a kernel
 * makes from them. Lengths change each step and the host does not know them, so grids depend only on shapes: blocks
 * take tickets until the list is used up. */
#ifndef CUDA_ATTENTION_WORK_CUH
#define CUDA_ATTENTION_WORK_CUH

#include "cuda/attention_tile.cuh"
#include "cuda/attention_ways.cuh"

/* The mask of attention: the keys of its segment that a query sees. */
struct attention_mask {
    bool causal;
    int window; /* sliding window in keys; 0: none; causal only */
};

/* A mask without a window. Kernels by warpgroups are compiled for each type of mask: in their loops the tests of a
 * window cost 0.4 to 0.9 % of a training step of a model that has none. */
struct plain_mask {
    bool causal;
    static constexpr int window = 0;
};

template <typename ARGS> inline struct attention_mask mask_of(const ARGS *args)
{
    return {args->causal, static_cast<int>(args->window)};
}

/* Calls f with the mask as the type that has just what it needs. */
template <typename F> inline void visit_mask(const struct attention_mask &mask, F f)
{
    if (mask.window > 0)
        f(mask);
    else
        f(plain_mask{mask.causal});
}

/* The tables of struct attention_segments. */
struct segment_tables {
    const int *q_start, *q_length, *kv_start, *kv_length, *offset;
    int slots;
};

struct segment {
    int q_start, q_length, kv_start, kv_length, offset;
};

/* An item: one tile of one segment, for every head. */
struct tile_work {
    struct segment segment;
    int first; /* row in the segment */
};

/* Totals over a list's items. */
struct work_totals {
    int items;
    float longest; /* most rows of the other side that one item sees, divided by the sum over all items */
};

/* The most launches that may use a list, each with a ticket counter of its own. */
enum { ATTENTION_TICKETS = 128 };

struct work_list {
    struct work_totals *totals;
    int *tickets; /* this launch's: the next ticket, one for each item and head */
    struct tile_work *items;
    int64_t most; /* capacity for items, by shapes */
    int workers;  /* causal attention: number of blocks or clusters that take tickets; otherwise 0 */
};

/* One side, queries or keys, of forward or backward. */
struct attention_side {
    bool keys;
    int tile;              /* rows of an item */
    int64_t rows;          /* rows of the tensors */
    bool gaps;             /* rows that no segment covers are items too, as segments that see nothing */
    struct work_list list; /* to be filled */
};

/* One side whose rows that no segment covers are to be cleared. */
struct attention_rows {
    bool keys;
    int64_t rows;
    struct tensor clear[2]; /* tensors whose uncovered rows become 0; may be absent */
    struct tensor lse;      /* its uncovered columns become -infinity */
};

enum { ATTENTION_SIDES = 2 };

/* Returns the address of the next `bytes` of the scratch at `base`, and updates *used. Aligned to 256 bytes. */
inline char *take(char *base, int64_t *used, int64_t bytes)
{
    char *at = base + *used;
    *used += ceil_div(bytes, 256) * 256;
    return at;
}

/* Rows of a window in which gaps are searched; gaps are split at windows. */
enum { ATTENTION_WINDOW = 1 << 15 };

/* Returns a list in scratch for items of `tile` rows, with capacity for the worst case of segments that do not overlap
 * and of gaps. */
inline struct work_list take_work_list(char *base, int64_t *used, int64_t rows, int64_t slots, int tile)
{
    struct work_list list = {};
    list.most = rows > 0 ? rows / tile + 2 * slots + 1 + rows / ATTENTION_WINDOW : 0;
    list.totals = reinterpret_cast<struct work_totals *>(
        take(base, used, (int64_t)sizeof(struct work_totals) + ATTENTION_TICKETS * (int64_t)sizeof(int)));
    list.tickets = reinterpret_cast<int *>(list.totals + 1);
    list.items = reinterpret_cast<struct tile_work *>(take(base, used, list.most * (int64_t)sizeof(struct tile_work)));
    return list;
}

/* Fills the sides' lists, longest items first, unless an earlier launch has filled them. On entry the sides have lists
 * in scratch, on return the lists to use. (attention_work.cu) */
void attention_prepare(const struct cuda_target *target, const struct attention_segments *segments,
                       const struct attention_mask &mask, bool backward, struct attention_side *sides, int count);

/* Clears the rows that no segment covers. (attention_work.cu) */
void attention_clear(const struct cuda_target *target, const struct attention_segments *segments,
                     const struct attention_rows *sides, int count);

/* Rows of the other side. */
struct row_range {
    int begin, end;
};

/* Returns the keys that query i of a segment sees, or the queries that see key i: none for a key after the last.
 * Neither end decreases with i. */
template <typename MASK>
__device__ __forceinline__ struct row_range visible(const struct segment &s, bool keys, int i, const MASK &mask)
{
    auto within = [](int at, int length) { return min(max(at, 0), length); };
    if (keys) {
        int end = mask.window > 0 ? within(i - s.offset + mask.window, s.q_length) : s.q_length;
        if (i >= s.kv_length)
            return {s.q_length, s.q_length};
        return {mask.causal ? within(i - s.offset, s.q_length) : 0, end};
    }
    int diagonal = i + s.offset + 1;
    return {mask.window > 0 ? within(diagonal - mask.window, s.kv_length) : 0,
            mask.causal ? within(diagonal, s.kv_length) : s.kv_length};
}

/* Returns the range that covers what rows first .. last see. */
template <typename MASK>
__device__ __forceinline__ struct row_range visible(const struct segment &s, bool keys, int first, int last,
                                                    const MASK &mask)
{
    return {visible(s, keys, first, mask).begin, visible(s, keys, last, mask).end};
}

/* A block's item. It is in shared memory because registers are scarce. */
struct work_item {
    struct tile_work work;
    int head;      /* -1: no more items */
    int other;     /* head / share: the kv head of a query head */
    bool from_end; /* the other side's tiles are processed from last to first */
};

/* Returns the item of a ticket. Heads are processed in sections. Within a section the items come longest first, each
 * for all heads of the section, so that what concurrent blocks read stays in the L2 cache.
 *
 * Items of causal attention differ in length. There a section is sized to take as long as its longest item, so that all
 * blocks finish it at about the same time. The last section is larger, so that the shortest items come last. A block
 * gets an item of the longer half, then one of the shorter half, which fills the rest of the section's time. For keys,
 * items of the longer half traverse the queries from the end, where all of them start together, and items of the
 * shorter half towards the end, where all finish together: concurrent blocks then read queries near each other. */
__device__ __forceinline__ struct work_item item_of(const struct work_list &list, int heads, int share, int ticket)
{
    struct work_item item = {};
    const struct work_totals totals = *list.totals;
    if (ticket >= totals.items * heads) {
        item.head = -1;
        return item;
    }
    int together = heads;
    if (list.workers > 0 && totals.longest > 0.0f)
        together = min(max(__float2int_rn(totals.longest * list.workers), 1), heads);
    int section = min(ticket / (totals.items * together), heads / together - 1), first = section * together;
    int size = section == heads / together - 1 ? heads - first : together, at = ticket - totals.items * first;
    item.head = first + at % size;
    item.other = item.head / share;
    item.work = list.items[at / size];
    item.from_end = list.workers > 0 && 2 * (at / size) < totals.items;
    return item;
}

/* Takes the next ticket of a list for the block; returns false at the end of the list. No thread of the block may still
 * read *shared. */
__device__ __forceinline__ bool take_item(const struct work_list &list, int heads, int share, struct work_item *shared)
{
    __syncthreads();
    if (threadIdx.x == 0)
        *shared = item_of(list, heads, share, atomicAdd(list.tickets, 1));
    __syncthreads();
    return shared->head >= 0;
}

/* A warp's rows of an item. */
struct warp_rows {
    int first, count; /* first: row in the segment */
};

/* Returns the warp's rows. Call it again instead of keeping the result in registers. */
__device__ __forceinline__ struct warp_rows rows_of_warp(const struct tile_work &work, int length, int per_warp)
{
    int first = work.first + static_cast<int>(threadIdx.x) / WARP * per_warp;
    return {first, max(0, min(per_warp, length - first))};
}

/* Sets scores that a row does not see to -infinity. The warp's rows begin at `first`, the columns at `col`, both
 * counted in the segment. */
template <int BLOCKS, int TILES, typename MASK>
__device__ __forceinline__ void hide(float (&s)[BLOCKS][TILES][4], const struct segment &segment, bool keys, int first,
                                     int col, const MASK &mask)
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            struct row_range seen = visible(segment, keys, first + 16 * i + 8 * half + fragment_row(), mask);
            int begin = seen.begin - col - fragment_col(), end = seen.end - col - fragment_col();
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (8 * j + e < begin || 8 * j + e >= end)
                        s[i][j][2 * half + e] = -INFINITY;
        }
}

/* Updates the largest score of each of a thread's two rows. Devices from sm_90 on have an instruction for the maximum
 * of three integers, and positive floats have the order of their bits. So bits are compared, and floats only if a row
 * of the warp has no positive score. */
template <int TILES> __device__ __forceinline__ void take_largest(const float (&s)[TILES][4], float (&most)[2])
{
    int bits[2] = {max(__float_as_int(most[0]), 0), max(__float_as_int(most[1]), 0)};
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            bits[half] = __vimax3_s32(bits[half], __float_as_int(s[j][2 * half]), __float_as_int(s[j][2 * half + 1]));
    if (!__any_sync(0xffffffffu, bits[0] == 0 || bits[1] == 0)) {
        most[0] = __int_as_float(bits[0]), most[1] = __int_as_float(bits[1]);
        return;
    }
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            most[half] = fmaxf(most[half], fmaxf(s[j][2 * half], s[j][2 * half + 1]));
}

/* Online softmax: updates each row's maximum and sum, and replaces scores by exp(scale (score - largest)). The caller
 * must rescale earlier sums of weighted values by `change`. A row that sees nothing yet stays at 0. A thread's two rows
 * are interleaved, since each is a chain of dependent instructions. */
template <int BLOCKS, int TILES>
__device__ __forceinline__ void weigh(float (&s)[BLOCKS][TILES][4], float scale_log2, float (&largest)[BLOCKS][2],
                                      float (&sum)[BLOCKS][2], float (&change)[BLOCKS][2])
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        float most[2] = {largest[i][0], largest[i][1]}, base[2];
        take_largest(s[i], most);
#pragma unroll
        for (int distance = 1; distance < 4; distance *= 2)
#pragma unroll
            for (int half = 0; half < 2; half++)
                most[half] = fmaxf(most[half], __shfl_xor_sync(0xffffffffu, most[half], distance));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            base[half] = most[half] == -INFINITY ? 0.0f : __fmul_rn(most[half], scale_log2);
            change[i][half] =
                exp2_fast(__fmul_rn(largest[i][half], scale_log2) - base[half]); /* 1 if the maximum is unchanged */
            largest[i][half] = most[half];
            sum[i][half] *= change[i][half];
        }
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                s[i][j][e] = exp2_fast(s[i][j][e] * scale_log2 - base[e / 2]);
                sum[i][e / 2] += s[i][j][e];
            }
    }
}

template <int BLOCKS, int COLS>
__device__ __forceinline__ void rescale(float (&o)[BLOCKS][COLS][4], const float (&change)[BLOCKS][2])
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            if (__any_sync(0xffffffffu, change[i][half] != 1.0f)) { /* rare after the first keys */
#pragma unroll
                for (int j = 0; j < COLS; j++) {
                    o[i][j][2 * half] *= change[i][half];
                    o[i][j][2 * half + 1] *= change[i][half];
                }
            }
}

/* Returns the largest possible number of tickets of a launch, items times heads; fatal if it exceeds 32 bits.
 * (attention_work.cu) */
int64_t attention_tickets(const struct work_list &list, int heads);

/* Runs a kernel over job.list with at most as many blocks as are resident at once. */
template <typename J>
inline void run_items(const struct cuda_target *target, void (*kernel)(const J), const J &job, int threads,
                      int resident, int shared)
{
    int64_t most = attention_tickets(job.list, job.heads),
            held = static_cast<int64_t>(target->multiprocessors) * resident;
    if (most == 0)
        return;
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    int blocks = static_cast<int>(most < held ? most : held);
    J of_blocks = job;
    of_blocks.list.workers = job.mask.causal ? blocks : 0;
    kernel<<<static_cast<unsigned>(blocks), threads, shared, target->stream>>>(of_blocks);
}

/* A gradient that a backward kernel writes: in the kernel's type, or in f32, optionally added to the old values. */
template <typename T> struct gradient {
    struct view<T> narrow;
    struct view<float> wide; /* data NULL: `narrow` is used */
    bool accumulate;         /* adds to `wide` */
};

/* Returns whether a gradient is written in f32 by a kernel of type `dtype`. */
inline bool gradient_is_wide(const struct tensor &t, enum dtype dtype, bool accumulate)
{
    return accumulate || t.dtype != dtype;
}

template <typename T> inline gradient<T> gradient_of(const struct tensor &t, enum dtype dtype, bool accumulate)
{
    if (gradient_is_wide(t, dtype, accumulate))
        return {{}, view_of<float>(t), accumulate};
    return {view_of<T>(t), {}, false};
}

/* Inverse rope that is applied to gradients when they are stored. */
struct rope_rotation {
    const int *positions; /* of the rows of q and k; NULL: no rotation */
    struct view<const float> table;
    int pairs; /* pairs per head */
    bool interleaved;
};

/* A backward pass over the rows of x and y: q and d_o, or k and v. */
template <typename T, typename MASK = struct attention_mask> struct backward_job {
    struct view<const T> x, y, other_x, other_y;
    struct gradient<T> dx, dy;      /* dy: for keys only */
    struct view<float2> statistics; /* lse * log2(e) and delta, [heads, queries] */
    struct work_list list;
    int heads, share, dim; /* heads: of x; share: query heads per kv head */
    float scale;
    MASK mask;
    struct rope_rotation turned; /* for dx, in warpgroup kernels */
};

/* Fatal unless the kernels support the dtypes, head size and scale. */
void attention_check(const struct tensor *const *tensors, int count, const struct tensor *lse, int64_t head_dim,
                     float scale);

/* Returns whether rows of heads can be moved in 16-byte packs. (attention_work.cu) */
bool head_packs_fit(const struct tensor *const *tensors, int count, int64_t head_dim);

/* Forward by warpgroups, over a list of tiles of attention_forward_warpgroup_rows rows.
 * (attention_forward_warpgroup.cu) */
int attention_forward_warpgroup_rows(int64_t head_dim);
void attention_forward_by_warpgroups(const struct cuda_target *target, const struct attention_forward_args *args,
                                     const struct work_list *list);

/* Backward by warpgroups, over lists of tiles of attention_backward_warpgroup_rows rows.
 * (attention_backward_warpgroup.cu) */
int attention_backward_warpgroup_rows(int64_t head_dim, bool keys);
void attention_backward_by_warpgroups(const struct cuda_target *target, const struct attention_backward_args *args,
                                      const struct work_list *queries, const struct work_list *keys, float2 *statistics,
                                      const struct rope_rotation &turned);

/* Backward that computes scores once. sums: scratch of attention_backward_once_sums bytes.
 * (attention_backward_once.cu) */
int attention_backward_once_rows(int64_t head_dim, bool keys);
int64_t attention_backward_once_sums(const struct attention_backward_args *args);
void attention_backward_once(const struct cuda_target *target, const struct attention_backward_args *args,
                             const struct work_list *queries, const struct work_list *keys, float2 *statistics,
                             float *sums, const struct rope_rotation &turned);

/* Calls f with a value of the element type, the head size of the way's kernel as a constant<N>, and whether rows are
 * moved in 16-byte packs, as a constant<bool>. In f32 they never are, to reduce compile time. */
template <enum attention_way WAY, typename F>
inline void visit_attention(const struct tensor *const *tensors, int count, int64_t head_dim, F f)
{
    bool vector = head_packs_fit(tensors, count, head_dim);
    auto sized = [&](auto zero, auto by_packs) {
        visit_head_size<WAY>(head_dim, [&](auto dim) { f(zero, dim, by_packs); });
    };
    if (tensors[0]->dtype == DTYPE_F32)
        sized(float(), constant<false>());
    else if (vector)
        sized(__nv_bfloat16(), constant<true>());
    else
        sized(__nv_bfloat16(), constant<false>());
}

#endif
