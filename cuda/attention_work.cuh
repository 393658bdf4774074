/* What attention's two directions share beside tiles: segments on the device, and the list of work that is made of them
 * there. Lengths change by step and the host does not know them, so grids depend on shapes alone: blocks take tickets
 * until the list is used up. */
#ifndef CUDA_ATTENTION_WORK_CUH
#define CUDA_ATTENTION_WORK_CUH

#include "cuda/attention_tile.cuh"

/* The tables of struct attention_segments. */
struct segment_tables {
    const int *q_start, *q_length, *kv_start, *kv_length, *offset;
    int slots;
};

struct segment {
    int q_start, q_length, kv_start, kv_length, offset;
};

/* One tile of one segment, for every head. */
struct tile_work {
    struct segment segment;
    int first; /* row, counted in the segment */
};

/* Of a list's items. */
struct work_totals {
    int items;
    float longest; /* the most rows of the other side that an item sees, over those that all see together */
};

/* So many launches may use a list, each with a ticket of its own. */
enum { ATTENTION_TICKETS = 128 };

struct work_list {
    struct work_totals *totals;
    int *tickets; /* here: the next ticket, one for each item and head */
    struct tile_work *items;
    int64_t most; /* items: by shapes */
    int workers;  /* of causal attention: blocks or clusters that take tickets; of other 0 */
};

/* Queries or keys, in one direction. */
struct attention_side {
    bool keys;
    int tile;              /* rows of an item */
    int64_t rows;          /* of the tensors */
    bool gaps;             /* rows that no segment covers are items too: of segments that see nothing */
    struct work_list list; /* to be made */
};

/* The same, where rows that no segment covers are to be cleared. */
struct attention_rows {
    bool keys;
    int64_t rows;
    struct tensor clear[2]; /* rows of these become 0; may be absent */
    struct tensor lse;      /* and columns of this -infinity */
};

enum { ATTENTION_SIDES = 2 };

/* Places `bytes` behind the *used bytes of scratch that begins at `base`. */
inline char *take(char *base, int64_t *used, int64_t bytes)
{
    char *at = base + *used;
    *used += ceil_div(bytes, 256) * 256;
    return at;
}

/* Rows that are looked through for gaps at a time, which cuts these. */
enum { ATTENTION_WINDOW = 1 << 15 };

/* A list for tiles of `tile` rows, as segments that do not overlap and the gaps between them need it at most. */
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

/* Fills the sides' lists, longest first, unless a launch before this one has. The sides come with lists in scratch; on
 * return they have those to use. (attention_work.cu) */
void attention_prepare(const struct cuda_target *target, const struct attention_segments *segments, bool causal,
                       bool backward, struct attention_side *sides, int count);

/* Clears what no segment covers. (attention_work.cu) */
void attention_clear(const struct cuda_target *target, const struct attention_segments *segments,
                     const struct attention_rows *sides, int count);

/* Rows of the other side. */
struct row_range {
    int begin, end;
};

/* The keys that query i of a segment sees, or the queries that see key i: none behind the last. Both ends grow with i.
 */
__device__ __forceinline__ struct row_range visible(const struct segment &s, bool keys, int i, bool causal)
{
    if (keys)
        return {i >= s.kv_length ? s.q_length : causal ? min(max(i - s.offset, 0), s.q_length) : 0, s.q_length};
    return {0, causal ? max(0, min(s.kv_length, i + s.offset + 1)) : s.kv_length};
}

/* What rows first .. last see together. */
__device__ __forceinline__ struct row_range visible(const struct segment &s, bool keys, int first, int last,
                                                    bool causal)
{
    return {visible(s, keys, first, causal).begin, visible(s, keys, last, causal).end};
}

/* What a block works on, in its shared memory: registers are what kernels are short of. */
struct work_item {
    struct tile_work work;
    int head;      /* -1: there is no more */
    int other;     /* head / share, where that is the other side's */
    bool from_end; /* the other side's tiles are passed over from the last to the first */
};

/* The item of a ticket. Heads are taken in sections, and in a section the items, longest first, each with all heads:
 * what blocks read at a time should stay in the second-level cache.
 *
 * Items of causal attention have all lengths. Of them a section is to take as long as its longest: then all blocks are
 * about to be done with it when the next begins. The last section is larger, so that the shortest are left for the end.
 * A block gets one of the longer half, and when it is through with that, one of the shorter half, which takes what is
 * left of the section's time. Of keys, the longer half passes over queries from the end, where all begin at the same
 * time, and the shorter half to the end, where all are at the same time: so all are near the same queries. */
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

/* A block takes the next ticket of a list; false at its end. Nobody reads the block's shared memory any more then. */
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
    int first, count; /* first: counted in the segment */
};

/* Asked again where it is needed again, for work is in shared memory. */
__device__ __forceinline__ struct warp_rows rows_of_warp(const struct tile_work &work, int length, int per_warp)
{
    int first = work.first + static_cast<int>(threadIdx.x) / WARP * per_warp;
    return {first, max(0, min(per_warp, length - first))};
}

/* Scores of what a row does not see become -infinity. The warp's rows begin at `first`, the columns at `col`, both
 * counted in the segment. */
template <int BLOCKS, int TILES>
__device__ __forceinline__ void hide(float (&s)[BLOCKS][TILES][4], const struct segment &segment, bool keys, int first,
                                     int col, bool causal)
{
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            struct row_range seen = visible(segment, keys, first + 16 * i + 8 * half + fragment_row(), causal);
            int begin = seen.begin - col - fragment_col(), end = seen.end - col - fragment_col();
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (8 * j + e < begin || 8 * j + e >= end)
                        s[i][j][2 * half + e] = -INFINITY;
        }
}

/* Takes a thread's scores of two rows into the largest of each. Devices from sm_90 on have an instruction for the
 * largest of three integers, and floats above 0 are ordered as their bits are. So bits are compared, and floats only
 * where a row of the warp has none above 0. */
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

/* Takes scores into each row's running maximum and sum: they become exp(scale (score - largest)), and what has been
 * summed before is to be rescaled by `change`. A row that sees nothing yet stays at 0. A thread's two rows go side by
 * side: each is a chain. */
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
            change[i][half] = exp2_fast(__fmul_rn(largest[i][half], scale_log2) - base[half]); /* 1 for the same base */
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
            if (__any_sync(0xffffffffu, change[i][half] != 1.0f)) { /* seldom after the first keys */
#pragma unroll
                for (int j = 0; j < COLS; j++) {
                    o[i][j][2 * half] *= change[i][half];
                    o[i][j][2 * half + 1] *= change[i][half];
                }
            }
}

/* The most items and heads that a launch may come to; fatal where 32 bits do not count them. (attention_work.cu) */
int64_t attention_tickets(const struct work_list &list, int heads);

/* Runs a kernel over job.list: at most as many blocks as the device holds at a time. */
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
    of_blocks.list.workers = job.causal ? blocks : 0;
    kernel<<<static_cast<unsigned>(blocks), threads, shared, target->stream>>>(of_blocks);
}

/* A gradient as backward kernels write it: in their own type, or in f32, perhaps onto what is there. */
template <typename T> struct gradient {
    struct view<T> narrow;
    struct view<float> wide; /* data NULL: narrow it is */
    bool accumulate;         /* of wide */
};

/* Of kernels of this type. */
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

/* Rope, by which gradients are turned back as they are stored. */
struct rope_rotation {
    const int *positions; /* of the rows of q and k; NULL: gradients are stored as they are */
    struct view<const float> table;
    int pairs; /* of a head */
    bool interleaved;
};

/* A backward pass over the rows of x and y: q and d_o, or k and v. */
template <typename T> struct backward_job {
    struct view<const T> x, y, other_x, other_y;
    struct gradient<T> dx, dy;      /* dy: of keys */
    struct view<float2> statistics; /* lse log2(e), delta [heads, queries] */
    struct work_list list;
    int heads, share, dim; /* heads of x; query heads of a kv head */
    float scale;
    bool causal;
    struct rope_rotation turned; /* dx, by warpgroups */
};

/* Fatal unless dtypes, heads and scale are of a kind that the kernels know. */
void attention_check(const struct tensor *const *tensors, int count, const struct tensor *lse, int64_t head_dim,
                     float scale);

/* Can rows of heads be moved by 16-byte packs? */
inline bool head_packs_fit(const struct tensor *const *tensors, int count, int64_t head_dim)
{
    for (int i = 0; i < count; i++) {
        int n = 16 / static_cast<int>(dtype_size(tensors[i]->dtype));
        if (head_dim % n != 0 || !packs_fit(*tensors[i], n))
            return false;
    }
    return true;
}

/* Does this device run warpgroups' products, and do they suit these tensors? (attention_work.cu) */
bool attention_runs_by_warpgroups(const struct tensor *const *tensors, int count, int64_t head_dim);

/* Forward by warpgroups, over a list of tiles of so many rows. (attention_forward_warpgroup.cu) */
int attention_forward_warpgroup_rows(int64_t head_dim);
void attention_forward_by_warpgroups(const struct cuda_target *target, const struct attention_forward_args *args,
                                     const struct work_list *list);

/* Backward by warpgroups, over lists of tiles of so many rows. (attention_backward_warpgroup.cu) */
int attention_backward_warpgroup_rows(int64_t head_dim, bool keys);
/* Whether gradients may be turned back: of heads that are padded, pairs are not in the halves that kernels know. */
bool attention_backward_warpgroup_turns(int64_t head_dim);
void attention_backward_by_warpgroups(const struct cuda_target *target, const struct attention_backward_args *args,
                                      const struct work_list *queries, const struct work_list *keys, float2 *statistics,
                                      const struct rope_rotation &turned);

/* The same in one pass; `sums`: so many bytes of scratch. (attention_backward_once.cu) */
int attention_backward_once_rows(int64_t head_dim, bool keys);
int64_t attention_backward_once_sums(const struct attention_backward_args *args);
void attention_backward_once(const struct cuda_target *target, const struct attention_backward_args *args,
                             const struct work_list *queries, const struct work_list *keys, float2 *statistics,
                             float *sums, const struct rope_rotation &turned);

/* A number as a type. */
template <auto N> struct constant {
    static constexpr auto value = N;
};

/* Calls f with the kernel to run: a value of the element type, the head size that heads are padded to, a constant<N>,
 * and whether rows are moved by 16 bytes, a constant<bool>. In f32 they are not: less to compile. */
template <typename F> inline void visit_attention(const struct tensor *const *tensors, int count, int64_t head_dim, F f)
{
    bool vector = head_packs_fit(tensors, count, head_dim);
    auto sized = [&](auto zero, auto by_packs) {
        if (head_dim <= 16)
            f(zero, constant<16>(), by_packs);
        else if (head_dim <= 32)
            f(zero, constant<32>(), by_packs);
        else if (head_dim <= 64)
            f(zero, constant<64>(), by_packs);
        else
            f(zero, constant<128>(), by_packs);
    };
    if (tensors[0]->dtype == DTYPE_F32)
        sized(float(), constant<false>());
    else if (vector)
        sized(__nv_bfloat16(), constant<true>());
    else
        sized(__nv_bfloat16(), constant<false>());
}

#endif
